"""Secrets by their shape: out of texts and out of token ids, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer_core.records.conftest import episode, letters, say
from trainer_core.records.secrets import MASK, MASKED, masked_episode, masked_task, masked_text
from trainer_core.types import Task

KEY = "ghp_" + "aB3" * 12
SECRETS = (
    KEY,
    "sk-" + "proj-" + "x7Y" * 10,
    "AKIA" + "ABCDEFGH12345678",
    "AIza" + "k9_" * 11,
    "hf_" + "Ab1" * 10,
    "glpat-" + "x1-" * 8,
    "xoxb-" + "123456789012-abc",
    "github_pat_" + "1a_" * 10,
    "sk_live_" + "4eC39HqLyjWD",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "Bearer " + "abcdef.0123456789-xyz",
    "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_where_it_stands(secret: str) -> None:
    assert masked_text(f"set it to\n{secret} and go on") == f"set it to\n{MASK} and go on"


def test_a_key_without_an_end_is_masked_to_the_end() -> None:
    assert masked_text("see -----BEGIN PRIVATE KEY-----\nMIIEow") == f"see {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "task-management-of-many-things, disk-0001 and sk-learn",
        "the bearer of this letter, Bearer of bad news",
        "eyJust looking; ghp_short; AKIA-1; xoxo-hugs-and-kisses",
        "-----BEGIN PUBLIC KEY-----\nMIIEow",
    ],
)
def test_other_text_is_kept(text: str) -> None:
    assert masked_text(text) == text


def test_every_text_of_a_task_is_looked_at() -> None:
    given = Task(
        "t", KEY, answer=KEY, init_messages=({"role": "user", "content": [{"text": KEY}]},),
        metadata={"deep": [{"er": (KEY, 1)}], KEY: None}, tools=({"name": KEY},),
    )  # fmt: skip
    masked = masked_task(given)
    assert KEY not in repr(masked)
    assert masked.metadata == {"deep": [{"er": (MASK, 1)}], MASK: None}


def mask(call_texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What is left of calls, with `_` for masked tokens."""
    given = episode("t", *(say(*each) for each in call_texts))
    used = {each for call in given.calls for each in (*call.prompt_ids, *call.completion_ids)}
    pieces = dict(zip(used, letters(tuple(used)), strict=True))
    calls = masked_episode(given, given.task, pieces).calls

    def text(ids: tuple[int, ...]) -> str:
        return "".join("_" if each == MASKED else chr(each) for each in ids)

    return [(text(call.prompt_ids), text(call.completion_ids)) for call in calls]


@given(st.integers(0, len(KEY)), st.text("ab ", max_size=3), st.text("ab ", max_size=3))
def test_its_tokens_are_masked_also_across_prompt_and_answer(cut: int, before: str, behind: str) -> None:
    asked, answered = f"{before} {KEY[:cut]}", f"{KEY[cut:]} {behind}"
    gone = "_" * len(KEY)
    assert mask([(asked, answered)]) == [(f"{before} {gone[:cut]}", f"{gone[cut:]} {behind}")]


def test_each_call_is_masked() -> None:
    first, second = mask([("ask", f"use {KEY}"), (f"askuse {KEY} so", "done")])
    assert first == ("ask", "use " + "_" * len(KEY))
    assert second == ("askuse " + "_" * len(KEY) + " so", "done")


def test_a_token_that_holds_more_than_the_secret_is_masked_whole() -> None:
    given = episode("t", replace(say("", "abc"), completion_ids=(1, 2, 3)))
    pieces = {1: "key=", 2: f"'{KEY[:9]}", 3: f"{KEY[9:]}' and more"}
    assert masked_episode(given, given.task, pieces).calls[0].completion_ids == (1, MASKED, MASKED)


def test_output_and_error_are_masked_and_training_keeps_its_own() -> None:
    given = episode("t", say("", KEY), output=KEY, error=f"bad {KEY}")
    masked = masked_episode(given, given.task, {ord(each): each for each in KEY})
    assert (masked.output, masked.error) == (MASK, f"bad {MASK}")
    assert given.calls[0].completion_ids == tuple(map(ord, KEY))
