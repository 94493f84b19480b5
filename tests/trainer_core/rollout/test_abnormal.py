"""What is abnormal, and what only looks so."""

import random
from typing import Any

import pytest

from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.rollout.abnormal import AbnormalAnswers, Sampled, abnormality, turn_marks
from trainer_core.types import Call, Episode, FinishReason, Task

ALL = ("nonsense", "non_ascii", "wrong_toolcall", "format_type_1", "un-paired-think")
SENTENCE = (
    "we therefore consider every remaining candidate in turn, compare its cost with the best one found so "
    "far, and keep whichever of the two is cheaper before going on to the next; "
)
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "pi", "rho"]


def is_nonsense(text: str, *, is_cut: bool = False) -> bool:
    return abnormality(Sampled(text, is_cut), ["nonsense"]) == "nonsense"


def prose(words: int, seed: int = 0) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words)) + ". "


@pytest.mark.parametrize(
    "loop",
    [
        "a" * 300,
        "ha " * 100,
        "the the " * 60,
        "I am sorry. " * 40,
        "你好吗" * 100,
        "да, да, " * 60,
        SENTENCE * 8,
    ],
    ids=["letter", "syllable", "word", "phrase", "chinese", "russian", "sentence of thirty words"],
)
@pytest.mark.parametrize(
    "before", ["", prose(37), prose(300)], ids=["alone", "after prose", "after much prose"]
)
def test_loops_are_nonsense_wherever_they_begin(loop: str, before: str) -> None:
    assert is_nonsense(before + loop)
    assert is_nonsense(before + loop + prose(50, seed=1))


@pytest.mark.parametrize(
    "text",
    [
        "Où est l’hôtel ? Там, за углом — 在拐角处。" + "Η λύση είναι ∑ᵢ xᵢ ≤ ∞, né?",
        "| --- | --- | --- | --- | --- | --- |\n" + "| 1 | 2 | 3 | 4 | 5 | 6 |\n" * 3,
        "-" * 205,
        "=" * 3000,
        "[" + "0, 1, " * 300 + "0]",
        "0 1\n" * 400,
        "\\begin{pmatrix}" + "0 & " * 120 + "0 \\\\" * 40 + "\\end{pmatrix}",
        "    " * 200 + "x",
        "bytes: " + "0x00, " * 60,
        "no no no no no, " + prose(400),
        (SENTENCE + prose(12)) * 3,
        "\n".join(f"{number}. The answer to number {number} is {number * 7 % 11}." for number in range(200)),
    ],
    ids=["languages", "table", "rule", "long rule", "0/1 list", "0/1 rows", "matrix", "indent", "bytes",
         "emphasis", "refrain", "numbered"],
)  # fmt: skip
def test_what_only_looks_abnormal_is_not(text: str) -> None:
    assert not is_nonsense(text)


def test_digits_without_end_are_a_loop_where_a_limit_had_to_end_them() -> None:
    digits = "the bits are " + "0 1 " * 400
    assert is_nonsense(digits, is_cut=True)
    assert not is_nonsense(digits)
    assert not is_nonsense(digits + "and so on", is_cut=True)


def test_a_long_healthy_answer_is_read_in_no_time() -> None:
    text = prose(100_000)
    assert not is_nonsense(text)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ("non_ascii", "plain ascii\n", "naïve"),
        (
            "wrong_toolcall",
            'so: <tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
            '<tool_call>{"name": "add", "arguments": "a=1"}</tool_call>',
        ),
        (
            "wrong_toolcall",
            "<tool_call>\n<function=add>\n</function>\n</tool_call>",
            "<tool_call>{}</tool_call>",
        ),
        ("wrong_toolcall", "no call", 'not closed <tool_call>{"name": "add", "arguments": {}}'),
        ("format_type_1", "<think>so</think>\n```python\nx = 1\n```\n", "<think>so</think> x = 1"),
        (
            "format_type_1",
            "<think>\n</think>```python\n\n```",
            "<think>a</think>```python\n1\n``` and that is it",
        ),
        ("un-paired-think", "<think>a</think>b", "a</think>b"),
        ("un-paired-think", "a", "<think><think>a</think></think>"),
    ],
)
def test_named_checks(check: str, good: str, bad: str) -> None:
    assert abnormality(Sampled(good), [check]) is None
    assert abnormality(Sampled(bad), [check]) == check


def test_the_first_of_the_checks_is_the_reason() -> None:
    assert abnormality(Sampled("é</think>"), ALL) == "non_ascii"
    assert abnormality(Sampled("é</think>"), ()) is None


class Templated:
    """As much of a tokenizer as `turn_marks` looks at."""

    def __init__(self, user: str, assistant: str, eos: str, special: list[str], system: str = "") -> None:
        self.eos_token, self.all_special_tokens = eos, special
        self._turns, self._system = {"user": user, "assistant": assistant}, system

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool) -> str:
        return self._system + "".join(self._turns[one["role"]].format(one["content"]) for one in messages)


@pytest.mark.parametrize(
    ("tokenizer", "marks"),
    [
        (
            Templated("<|im_start|>user\n{}<|im_end|>\n", "<|im_start|>assistant\n{}<|im_end|>\n",
                      "<|im_end|>", ["<|im_start|>", "<|im_end|>"], "<|im_start|>system\nhelp<|im_end|>\n"),
            {"<|im_start|>user", "<|im_start|>"},
        ),
        (
            Templated("<|start|>user<|message|>{}<|end|>", "<|start|>assistant<|message|>{}<|end|>",
                      "<|return|>", ["<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<|return|>"]),
            {"<|start|>user<|message|>"},
        ),
        (Templated("User: {}\n", "Bot: {}\n", "</s>", ["</s>"]), set()),
    ],
    ids=["chatml", "several messages in an answer", "plain words"],
)  # fmt: skip
def test_a_model_that_speaks_for_the_user_is_known_by_the_template(tokenizer: Any, marks: set[str]) -> None:
    assert turn_marks(tokenizer) == marks


def episode(tokenizer: Any, *answers: str, **given: Any) -> Episode:
    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    calls = []
    for answer in answers:
        sampled = ids(answer + tokenizer.eos_token)
        calls.append(
            Call(ids("<|user|>hi<|end|><|assistant|>"), sampled, (0.0,) * len(sampled), FinishReason.STOP)
        )
    return Episode(Task("t", "q"), 0, tuple(calls), reward=1.0, is_success=True, **given)


def test_an_episode_with_an_abnormal_answer_earns_what_the_config_says_and_ends_there() -> None:
    tokenizer = make_tokenizer()
    mad = episode(tokenizer, "fine", "so <|user|>and now", "fine again", metrics={"mine": 2.0})
    ending = AbnormalAnswers(tokenizer, ["nonsense"], reward=-1.0, ends=True).marked(mad)
    assert (ending.reward, ending.is_success, len(ending.calls)) == (-1.0, False, 2)
    assert ending.metrics == {"mine": 2.0, "rollout/abnormal/nonsense": 1.0}
    staying = AbnormalAnswers(tokenizer, ["nonsense"], reward=-0.5, ends=False).marked(mad)
    assert (staying.reward, len(staying.calls)) == (-0.5, 3)
    assert AbnormalAnswers(tokenizer, [], reward=-1.0, ends=True).marked(mad) is mad


def test_the_mark_that_ends_an_answer_and_failed_episodes_are_left_alone() -> None:
    tokenizer = make_tokenizer()
    checks = AbnormalAnswers(tokenizer, ["nonsense", "non_ascii"], reward=-1.0, ends=True)
    fine = episode(tokenizer, "fine")
    assert checks.marked(fine) is fine
    failed = episode(tokenizer, "<|user|>", error="it broke")
    assert checks.marked(failed) is failed


def test_thoughts_that_the_template_opens_are_a_pair() -> None:
    tokenizer = make_tokenizer()
    checks = AbnormalAnswers(tokenizer, ["un-paired-think"], reward=-1.0, ends=True)
    closing = episode(tokenizer, "so</think>4")
    prompt = tuple(tokenizer.encode("<|assistant|><think>\n", add_special_tokens=False))
    opened = Episode(
        closing.task,
        0,
        (Call(prompt, closing.calls[0].completion_ids, closing.calls[0].logprobs),),
        reward=1.0,
    )
    assert checks.marked(closing).reward == -1.0
    assert checks.marked(opened).reward == 1.0
