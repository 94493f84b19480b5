"""Rows that join and leave, against full forward passes of each answer alone and transformers' own
generation.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from trainer_core.engine import decoding
from trainer_core.engine.decoding import Decoder, Row
from trainer_core.engine.protocols import Request
from trainer_core.types import FinishReason, Sampling, TrainingError

PROMPTS = [[4, 20, 21, 22, 1, 5], [4, 30, 1, 5], [4, *range(25, 39), 1, 5], [4, 20, 21, 22, 1, 5]]
GREEDY = Sampling(temperature=0.0)
AMPLE = 2**30


def requests(sampling: Sampling = Sampling(), n: int = 3, max_tokens: int = 12) -> list[Request]:
    return [Request(prompt, sampling, max_tokens, n=n, seed=seed) for seed, prompt in enumerate(PROMPTS)]


def play(decoder: Decoder, wanted: list[Request], joining: list[int]) -> list[list[Row]]:
    """Let request i come after `joining[i]` tokens."""
    rows = [decoder.new_rows(request) for request in wanted]
    queue: deque[Row] = deque()
    step = 0
    while any(row.finish is None for group in rows for row in group):
        for group, start in zip(rows, joining, strict=True):
            queue.extend(group if start == step else ())
        decoder.join(decoder.take(queue))
        decoder.step()
        step += 1
    return rows


def worst_difference(model: Any, rows: list[list[Row]]) -> float:
    """Largest difference of a log-probability to a pass without cache, padding and neighbours."""
    worst = 0.0
    for row in (row for group in rows for row in group):
        prompt = list(row.request.prompt_ids)
        ids = torch.tensor([prompt + row.ids])
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        expected = (
            (logits / row.request.sampling.temperature)
            .log_softmax(-1)
            .gather(-1, ids[0, len(prompt) :, None])
        )
        worst = max(worst, float((expected[:, 0] - torch.tensor(row.logprobs)).abs().max()))
    return worst


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("joining", [[0, 0, 0, 0], [0, 2, 3, 3], [5, 1, 0, 9]])
def test_logprobs_are_those_of_a_full_pass(
    model: Any, tokenizer: Any, temperature: float, joining: list[int]
) -> None:
    rows = play(Decoder(model, tokenizer, cache_bytes=AMPLE), requests(Sampling(temperature), n=8), joining)
    assert worst_difference(model, rows) < 1e-5


LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 8},
    "gemma3_text": {"sliding_window": 8},
    "gpt2": {},
    "bloom": {"n_head": 2, "n_layer": 2},
    "llama4_text": {"attention_chunk_size": 8, "num_local_experts": 2, "intermediate_size_mlp": 48},
    "qwen3_5_text": LINEAR,
    "qwen3_next": LINEAR | EXPERTS | {"shared_expert_intermediate_size": 16},
    "mamba2": {"num_heads": 4, "state_size": 8, "n_groups": 1, "chunk_size": 8},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"],
        "num_local_experts": 0,
        "shared_intermediate_size": 48,
    }
    | MAMBA,
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_ff_dim": 48},
    "falcon_h1": {"mamba_d_ssm": 64} | MAMBA,  # both kinds of state in one layer: rows only leave
}


def tiny(architecture: str, **changes: Any) -> Any:
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = AutoConfig.for_model(
        architecture,
        **{"vocab_size": 264, "intermediate_size": 48, "head_dim": 16, **small, "eos_token_id": 1, **changes},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    made.generation_config.eos_token_id = list(range(40, 80))
    return made


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_architecture_agrees_with_its_own_full_pass(architecture: str, tokenizer: Any) -> None:
    """Position codes, windows, chunks and recurrent states, with padding, joining and leaving."""
    model = tiny(architecture, **ARCHITECTURES[architecture])
    rows = play(Decoder(model, tokenizer, cache_bytes=AMPLE), requests(), [0, 0, 2, 4])
    assert len({len(row.ids) for group in rows for row in group}) > 2  # so that rows did leave
    assert worst_difference(model, rows) < 1e-5


@pytest.mark.parametrize("architecture", ["rwkv", "xlstm"])
def test_an_architecture_that_keeps_its_state_elsewhere_is_named(architecture: str, tokenizer: Any) -> None:
    changes = {"rwkv": {"attention_hidden_size": 32}, "xlstm": {}}[architecture]
    with pytest.raises(TrainingError, match=f"architecture '{architecture}'"):
        Decoder(tiny(architecture, **changes), tokenizer, cache_bytes=AMPLE)


def test_greedy_is_transformers_greedy(model: Any, tokenizer: Any) -> None:
    groups = Decoder(model, tokenizer, cache_bytes=AMPLE).generate(requests(GREEDY, n=1))
    for prompt, (answer,) in zip(PROMPTS, groups, strict=True):
        ids = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)
        assert list(answer.ids) == ids[0, len(prompt) :].tolist()


def test_an_answer_ends_with_its_first_end_token(model: Any, tokenizer: Any) -> None:
    groups = Decoder(model, tokenizer, cache_bytes=AMPLE).generate(requests(n=30))
    answers = [answer for group in groups for answer in group]
    assert {answer.finish_reason for answer in answers} == {FinishReason.STOP, FinishReason.LENGTH}
    for answer in answers:
        stopped = answer.finish_reason == FinishReason.STOP
        ends = [token in model.generation_config.eos_token_id for token in answer.ids]
        assert ends[-1] == stopped and sum(ends) == stopped
        assert stopped or len(answer.ids) == 12
        assert len(answer.logprobs) == len(answer.ids)


def test_stop_ids_end_an_answer_too(model: Any, tokenizer: Any) -> None:
    decoder = Decoder(model, tokenizer, cache_bytes=AMPLE)
    request = Request(PROMPTS[0], Sampling(), 12, n=20)
    free = decoder.generate([request])[0]
    stop = next(answer.ids[1] for answer in free if len(answer.ids) > 3)
    for before, after in zip(free, decoder.generate([replace(request, stop_ids=(stop,))])[0], strict=True):
        cut = before.ids.index(stop) + 1 if stop in before.ids else len(before.ids)
        assert after.ids == before.ids[:cut]


def test_a_text_ends_an_answer_and_tokens_are_told(model: Any, tokenizer: Any) -> None:
    decoder = Decoder(model, tokenizer, cache_bytes=2**30)
    told: list[tuple[int, int]] = []
    asked = Request([4, 20, 21, 5], Sampling(), 30, n=3, seed=5, on_token=lambda *each: told.append(each))
    free = decoder.generate([asked])[0]
    assert sorted(told) == sorted((n, number) for n, each in enumerate(free) for number in each.ids)
    longest = max(free, key=lambda each: len(each.ids))
    stop = tokenizer.decode(longest.ids[3:6], skip_special_tokens=True)
    cut = decoder.generate([replace(asked, stop_texts=("never said", stop))])[0]
    assert stop
    for whole, part in zip(free, cut, strict=True):
        assert whole.ids[: len(part.ids)] == part.ids
        text = tokenizer.decode(part.ids, skip_special_tokens=True)
        assert (stop in text) == (stop in tokenizer.decode(whole.ids, skip_special_tokens=True))
        assert stop not in tokenizer.decode(part.ids[:-1], skip_special_tokens=True)
    assert cut[free.index(longest)].finish_reason is FinishReason.STOP
    assert len(cut[free.index(longest)].ids) < len(longest.ids)


def test_tokens_do_not_depend_on_the_neighbours(model: Any, tokenizer: Any) -> None:
    """Each request draws from its own random numbers, whatever its place and whoever else asks how."""
    decoder = Decoder(model, tokenizer, cache_bytes=AMPLE)
    mixed = [
        Request(prompt, sampling, 12, n=4, seed=seed, top_logprobs=seed)
        for seed, (prompt, sampling) in enumerate(
            zip(PROMPTS, [Sampling(), GREEDY, Sampling(0.7, top_k=20), Sampling()], strict=True)
        )
    ]
    alone = [decoder.generate([request])[0] for request in mixed]
    together = decoder.generate(reversed(mixed))[::-1]
    assert [[a.ids for a in group] for group in together] == [[a.ids for a in group] for group in alone]
    assert len({answer.ids for answer in alone[0]}) > 1  # the answers to one request are independent
    assert alone[0] != alone[3]  # same prompt, other seed
    for answer in together[2]:
        assert all(len(tops) == 2 and tops[0][1] >= tops[1][1] for tops in answer.top_logprobs)
        drawn = zip(answer.ids, answer.logprobs, answer.top_logprobs, strict=True)
        seen = [dict(tops).get(number, logprob) for number, logprob, tops in drawn]
        assert seen == pytest.approx(list(answer.logprobs), abs=1e-6)


def test_first_tokens_follow_the_models_distribution(model: Any, tokenizer: Any) -> None:
    (answers,) = Decoder(model, tokenizer, cache_bytes=AMPLE).generate(
        [Request([4, 5], Sampling(), 1, n=20_000)]
    )
    with torch.no_grad():
        expected = model(torch.tensor([[4, 5]])).logits[0, -1].softmax(-1) * len(answers)
    observed = torch.tensor([answer.ids[0] for answer in answers]).bincount(minlength=len(expected))
    often = expected > 5
    chi_square = float(((observed - expected)[often] ** 2 / expected[often]).sum())
    assert chi_square < int(often.sum()) + 4 * (2 * int(often.sum())) ** 0.5


def test_each_prompt_is_read_once(model: Any, tokenizer: Any) -> None:
    seen: list[tuple[int, ...]] = []
    model.register_forward_pre_hook(
        lambda module, _, inputs: seen.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    Decoder(model, tokenizer, cache_bytes=AMPLE).generate(requests(n=16))
    assert [shape for shape in seen if shape[1] > 2] == [(3, 17)]  # four requests, three prompts


def test_long_prompts_are_read_a_few_at_a_time(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_PROMPT_TOKENS_AT_ONCE", 12)
    rows = play(Decoder(model, tokenizer, cache_bytes=AMPLE), requests(), [0, 0, 0, 0])
    assert worst_difference(model, rows) < 1e-5


def cached_bytes(decoder: Decoder) -> int:
    layers = decoder._cache.layers if decoder._cache else ()
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


@pytest.mark.parametrize(("rows_that_fit", "least", "most"), [(5.5, 5, 10), (0.1, 1, 1), (1000, 40, 48)])
def test_the_cache_stays_within_its_bound(
    model: Any, tokenizer: Any, rows_that_fit: float, least: int, most: int
) -> None:
    """Prompts of 4 to 17 tokens: of the short ones more fit."""
    per_token = 2 * 2 * 1 * 16 * 4  # layers × (keys, values) × heads × width × float32
    bound = int(rows_that_fit * (17 + 12) * per_token)
    decoder = Decoder(model, tokenizer, cache_bytes=bound)
    rows = [decoder.new_rows(request) for request in requests(n=12)]
    queue = deque(row for group in rows for row in group)
    most_rows = most_bytes = 0
    while queue or decoder.rows:
        decoder.join(decoder.take(queue))
        most_rows = max(most_rows, len(decoder.rows))
        decoder.step()
        most_bytes = max(most_bytes, cached_bytes(decoder))
    assert worst_difference(model, rows) < 1e-5
    assert most_bytes <= max(bound, (17 + 12) * per_token)
    assert least <= most_rows <= most


def test_logits_are_bounded_too(model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "SAMPLED_LOGITS", 264 * 7)
    monkeypatch.setattr(decoding, "_DRAWN_AT_ONCE", 264 * 2)
    decoder = Decoder(model, tokenizer, cache_bytes=AMPLE)
    rows: list[int] = []
    model.register_forward_pre_hook(
        lambda module, _, inputs: rows.append(len(inputs["input_ids"])), with_kwargs=True
    )
    few = decoder.generate(requests(GREEDY, n=4))
    assert max(rows) == 7
    monkeypatch.undo()
    assert [[a.ids for a in group] for group in few] == [
        [a.ids for a in group] for group in decoder.generate(requests(GREEDY, n=4))
    ]


def test_an_answer_stops_where_the_model_ends(model: Any, tokenizer: Any) -> None:
    model.generation_config.eos_token_id = None
    request = Request(list(range(80, 140)), Sampling(), 100, stop_ids=())
    ((answer,),) = Decoder(model, tokenizer, cache_bytes=AMPLE).generate([request])
    assert len(answer.ids) <= 4  # the model reads 64 tokens
    ((shorter,),) = Decoder(model, tokenizer, cache_bytes=AMPLE, max_length=62).generate([request])
    assert shorter.ids == answer.ids[:2] and shorter.finish_reason == FinishReason.LENGTH


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda request: replace(request, prompt_ids=[4] * 64), "64 tokens; this model reads 1 to 63"),
        (lambda request: replace(request, prompt_ids=[]), "0 tokens"),
        (lambda request: replace(request, prompt_ids=[4, 264]), "token id 264"),
        (lambda request: replace(request, prompt_ids=[-1]), "token id -1"),
        (lambda request: replace(request, max_tokens=0), "max_tokens 0"),
        (lambda request: replace(request, n=0), "n 0"),
    ],
)
def test_impossible_requests_are_explained(
    model: Any, tokenizer: Any, change: Callable[[Request], Request], message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        Decoder(model, tokenizer, cache_bytes=AMPLE).generate([change(requests()[0])])
