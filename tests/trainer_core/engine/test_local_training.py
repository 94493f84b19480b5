"""One training step against a plain rewrite of it; budgets, devices' dtypes, adapters; saving and loading."""

import copy
import math
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.trainer_core.engine.flat import alone, flat_batch, random_sequences
from trainer_core.algorithm.logits import head_logprobs
from trainer_core.config.services import Lora
from trainer_core.engine.local_training import LocalTraining
from trainer_core.types import Batch, Loss, TrainingError

LOSS = Loss(kl_coef=0.1)
TRAINED = {"betas": (0.9, 0.95), "weight_decay": 0.0, "temperature": 0.8}


@pytest.fixture
def batch() -> Batch:
    return flat_batch(random_sequences(seed=3))


@pytest.fixture
def shifted(model: Any) -> Any:
    """Another policy, as reference."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.05)
    return other


def prepared(engine: LocalTraining, batch: Batch, *, reference: bool = True) -> Batch:
    """On-policy, with the reference's log-probabilities."""
    known = engine.forward(batch, "reference") if reference else None
    return replace(batch, old_logprobs=engine.forward(batch), reference_logprobs=known)


def gradient(model: Any) -> torch.Tensor:
    return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


def test_one_step_is_the_textbook_step(model: Any, shifted: Any, batch: Batch) -> None:
    """Against plain log-softmax over single sequences, without padding, masks or our loss functions."""
    twin = copy.deepcopy(model)
    engine = LocalTraining(model, copy.deepcopy(shifted), **TRAINED)
    metrics = engine.forward_backward(prepared(engine, batch), LOSS) | engine.optim_step(1e-2, 1.0)

    logprobs, reference = alone(twin, batch, 0.8), alone(shifted, batch, 0.8).detach()
    pg = -batch.advantage * (logprobs - logprobs.detach()).exp()
    kl = (reference - logprobs).exp() - (reference - logprobs) - 1
    (batch.weight * (pg + 0.1 * kl)).sum().backward()
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0)
    norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
    optimizer.step()
    assert metrics["actor/pg_loss"] == pytest.approx(pg[batch.trained].mean().item(), abs=1e-5)
    assert metrics["actor/kl_loss"] == pytest.approx(kl[batch.trained].mean().item(), rel=1e-4)
    assert metrics["actor/grad_norm"] == pytest.approx(float(norm), rel=1e-4)
    assert 0 < metrics["actor/entropy"] < math.log(model.config.vocab_size)
    assert metrics["training/rollout_probs_diff_max"] < 1e-6
    for ours, plain in zip(model.parameters(), twin.parameters(), strict=True):
        # Adam's first step is the gradient's sign times lr: entries with a gradient near zero are left out
        firm = plain.grad.abs() > 1e-5
        torch.testing.assert_close(ours[firm], plain[firm], atol=2e-4, rtol=0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [1, 25, 60])
@pytest.mark.parametrize("name", ["ppo", "gspo"])
def test_any_budget_gives_what_the_whole_batch_gives(
    model: Any, shifted: Any, batch: Batch, budget: int, share: bool, name: Any
) -> None:
    loss = replace(LOSS, name=name)
    whole = LocalTraining(model, shifted, share_prompts=False)
    ready = prepared(whole, batch)
    ready = replace(ready, old_logprobs=ready.old_logprobs + 0.1 * batch.advantage)
    expected = whole.forward_backward(ready, loss)
    wanted = gradient(model)
    model.zero_grad(set_to_none=True)
    parts = LocalTraining(model, shifted, share_prompts=share, max_tokens=budget)
    assert parts.forward_backward(ready, loss) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert (gradient(model) - wanted).norm() <= 2e-6 * wanted.norm()


def test_gradients_add_up_until_the_step(model: Any, batch: Batch) -> None:
    engine = LocalTraining(model, None)
    ready = prepared(engine, batch, reference=False)
    engine.forward_backward(ready, Loss())
    whole = gradient(model)
    model.zero_grad(set_to_none=True)
    first = torch.arange(len(batch)) < 3
    for half in (first, ~first):
        engine.forward_backward(ready.select(half), Loss())
    assert (gradient(model) - whole).norm() <= 2e-6 * whole.norm()
    engine.optim_step(1e-3, 1.0)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_untrained_tokens_never_meet_the_vocabulary(model: Any, batch: Batch) -> None:
    met = []
    model.get_output_embeddings().register_forward_hook(
        lambda head, inputs, logits: met.append(logits[..., 0].numel())
    )
    LocalTraining(model, None).forward(batch)
    trained = int(batch.trained.sum())
    assert sorted(met)[-1] <= trained < len(batch.ids)
    assert sum(met) <= trained + 8  # one position per forward pass


@pytest.mark.parametrize("architecture", ["qwen2", "gemma2"])  # gemma2 caps its logits
def test_logits_in_chunks_change_nothing(
    architecture: str, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = AutoConfig.for_model(architecture, vocab_size=97, intermediate_size=48, head_dim=16, **sizes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    engine = LocalTraining(model, None)
    ready = prepared(engine, batch, reference=False)
    expected = engine.forward_backward(ready, Loss())
    wanted = gradient(model)
    model.zero_grad(set_to_none=True)
    chunks = partial(head_logprobs, logits_at_once=97 * 4)
    monkeypatch.setattr("trainer_core.engine.local_training.head_logprobs", chunks)
    assert engine.forward_backward(ready, Loss()) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert (gradient(model) - wanted).norm() <= 2e-6 * wanted.norm()


def test_the_good_becomes_likelier_and_kl_holds_back(model: Any, batch: Batch) -> None:
    drift = {}
    for name, coefficient in (("free", 0.0001), ("tied", 100.0)):
        engine = LocalTraining(copy.deepcopy(model), copy.deepcopy(model))
        before = engine.forward(batch)
        for _ in range(10):
            ready = prepared(engine, batch)
            metrics = engine.forward_backward(ready, Loss(kl_coef=coefficient))
            engine.optim_step(1e-3, 1.0)
        drift[name] = metrics["actor/kl_loss"]
        if name == "free":
            assert ((engine.forward(batch) - before) * batch.advantage).sum() > 1.0
    assert drift["tied"] < 0.5 * drift["free"]


def test_divergence_is_an_error_and_leaves_the_weights(model: Any, batch: Batch) -> None:
    engine = LocalTraining(model, None)
    before = copy.deepcopy(model.state_dict())
    ready = prepared(engine, batch, reference=False)
    with pytest.raises(TrainingError, match=r"actor/pg_loss is nan.*Lower.*optim\.lr"):
        engine.forward_backward(replace(ready, advantage=batch.advantage * math.nan), Loss())
    assert all(parameter.grad is None for parameter in model.parameters())
    engine.forward_backward(replace(ready, weight=batch.weight * math.inf), Loss(name="cross_entropy"))
    with pytest.raises(TrainingError, match=r"actor/grad_norm is (nan|inf)"):
        engine.optim_step(1e-3, 1.0)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_bfloat16_weights_with_float32_logprobs(model: Any, batch: Batch) -> None:
    exact = LocalTraining(copy.deepcopy(model), None).forward(batch)
    engine = LocalTraining(model, None, dtype=torch.bfloat16)
    rounded = engine.forward(batch)
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, atol=0.15, rtol=0.05)
    engine.forward_backward(prepared(engine, batch, reference=False), Loss())
    engine.optim_step(1e-2, 1.0)
    assert {value.dtype for value in model.parameters()} == {torch.bfloat16}
    assert engine.forward(batch).isfinite().all() and not torch.equal(engine.forward(batch), rounded)


def test_checkpointing_gives_the_same_gradients_without_dropout(batch: Batch) -> None:
    config = AutoConfig.for_model(
        "opt", vocab_size=97, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=2,
        word_embed_proj_dim=32, max_position_embeddings=64, dropout=0.5, attention_dropout=0.5,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain = LocalTraining(model, None)
    ready = prepared(plain, batch, reference=False)
    plain.forward_backward(ready, Loss())
    wanted = gradient(model)
    model.zero_grad(set_to_none=True)
    runs = []
    model.model.decoder.layers[0].fc1.register_forward_hook(lambda *_: runs.append(1))
    engine = LocalTraining(model, None, gradient_checkpointing=True)
    engine.forward_backward(ready, Loss())
    assert (gradient(model) - wanted).norm() <= 2e-6 * wanted.norm()
    assert len(runs) == 2  # computed again
    assert not any(module.training for module in model.modules())


@pytest.mark.parametrize("offload", [True, False])
def test_an_offloaded_reference_is_moved_for_its_use_and_back(
    model: Any, shifted: Any, batch: Batch, monkeypatch: pytest.MonkeyPatch, offload: bool
) -> None:
    engine = LocalTraining(model, shifted, offload_reference=offload)
    engine._device = torch.device("cpu", 0)  # stands for a GPU
    moves, move = [], type(shifted).to

    def seen(moved: Any, *where: Any) -> Any:
        moves.append(str(*where))
        return move(moved, "cpu")

    monkeypatch.setattr(type(shifted), "to", seen)
    engine.forward(batch, "reference")
    assert moves == ["cpu:0", "cpu"][: 1 + offload]


def test_the_reference_is_the_model_without_its_adapter(model: Any, batch: Batch, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    start = copy.deepcopy(model)
    engine = LocalTraining(model, None, lora=Lora(lora_rank=4, lora_alpha=8.0))
    for _ in range(3):
        engine.forward_backward(prepared(engine, batch), LOSS)
        engine.optim_step(1e-2, 1.0)
    reference = engine.forward(batch, "reference")
    torch.testing.assert_close(reference, alone(start, batch).detach(), atol=1e-5, rtol=0)
    assert (engine.forward(batch) - reference).abs().max() > 0.01
    engine.save(tmp_path)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    torch.testing.assert_close(engine.forward(batch), alone(merged, batch).detach(), atol=1e-5, rtol=0)
    resumed = LocalTraining(start, None, lora=Lora(lora_rank=4, lora_alpha=8.0))
    resumed.load(tmp_path)
    assert torch.equal(resumed.forward(batch), engine.forward(batch))


def test_lora_without_peft_says_what_to_install(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(TrainingError, match="pip install peft"):
        LocalTraining(model, None, lora=Lora(lora_rank=4, lora_alpha=8.0))


def step(engine: LocalTraining, batch: Batch) -> dict[str, float]:
    return engine.forward_backward(prepared(engine, batch), LOSS) | engine.optim_step(1e-3, 1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_engine_goes_on_exactly(
    model: Any, batch: Batch, tmp_path: Path, dtype: torch.dtype
) -> None:
    start = copy.deepcopy(model)
    engine = LocalTraining(model, copy.deepcopy(start), dtype=dtype)
    step(engine, batch)
    engine.save(tmp_path)
    expected = step(engine, batch)
    resumed = LocalTraining(copy.deepcopy(start), copy.deepcopy(start), dtype=dtype)
    resumed.load(tmp_path)
    assert step(resumed, batch) == expected
    last = resumed._model.state_dict()
    assert all(torch.equal(value, last[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("saved", [torch.float32, torch.bfloat16])
def test_a_checkpoint_is_gone_on_from_in_another_type(
    model: Any, batch: Batch, tmp_path: Path, saved: torch.dtype
) -> None:
    start = copy.deepcopy(model)
    engine = LocalTraining(model, copy.deepcopy(start), dtype=saved)
    step(engine, batch)
    engine.save(tmp_path)
    trained = {name: value.float() for name, value in model.state_dict().items()}
    other = torch.bfloat16 if saved == torch.float32 else torch.float32
    resumed = LocalTraining(copy.deepcopy(start), copy.deepcopy(start), dtype=other)
    resumed.load(tmp_path)
    resumed.forward_backward(prepared(resumed, batch), LOSS)
    resumed.optim_step(1e-9, 1.0)
    for name, value in resumed._model.state_dict().items():
        torch.testing.assert_close(value.float(), trained[name], atol=1e-5, rtol=2**-8)


def test_a_checkpoint_without_copies_is_gone_on_from(model: Any, batch: Batch, tmp_path: Path) -> None:
    engine = LocalTraining(model, copy.deepcopy(model))
    step(engine, batch)
    engine.save(tmp_path)
    state = torch.load(tmp_path / "trainer_state.pt")
    del state["optimizer"]["copies"]  # as older versions wrote it
    torch.save(state, tmp_path / "trainer_state.pt")
    expected = step(engine, batch)
    resumed = LocalTraining(copy.deepcopy(model), copy.deepcopy(engine._reference))
    resumed.load(tmp_path)
    assert step(resumed, batch) == expected


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def other_model(folder: Path) -> None:
    config = AutoConfig.for_model("qwen2", hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: halve(folder / "trainer_state.pt"),
        lambda folder: (folder / "trainer_state.pt").write_bytes(b"\0" * 100),
        lambda folder: torch.save({"optimizer": {}}, folder / "trainer_state.pt"),
        lambda folder: (folder / "trainer_state.pt").unlink(),
        lambda folder: halve(folder / "model.safetensors"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: halve(folder / "config.json"),
        other_model,
        shutil.rmtree,
    ],
)
def test_what_is_damaged_or_of_another_model_is_refused(
    model: Any, batch: Batch, tmp_path: Path, damage: Any
) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    engine = LocalTraining(model, copy.deepcopy(model))
    step(engine, batch)
    engine.save(folder)
    damage(folder)
    with pytest.raises(TrainingError, match="damaged or of another model"):
        engine.load(folder)
