"""Secrets go, everything else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.redaction import MASK, redact, secret_values


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("OPENAI_API_KEY=sk-proj-abcdefghijklmnop", "sk-proj-abcdefghijklmnop"),
        ("api_key: hunter2hunter", "hunter2hunter"),
        ('{"password": "x y z", "lr": 1e-6}', "x y z"),
        ("password: 12345678", "12345678"),
        ("Authorization: Bearer abcdefghijkl.mno", "abcdefghijkl.mno"),
        ("git clone https://ada:pa55word@host/x", "pa55word"),
        ("train --hf-token abc123def --lr 3", "abc123def"),
        ("login with hf_abcdefghijklmnopqrstuvwxyz", "hf_abcdefghijklmnopqrstuvwxyz"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("Cookie: session=abc", "abc"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----", "MIIabc"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.sig", "eyJzdWIiOiIx"),
    ],
)
def test_secrets_are_masked(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text)
    assert MASK in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 100",
        "eos_token: <|im_end|>",
        "loss_agg_mode: token-mean",
        "token 5 of 7",
        "the secret is out",
        "tokens per second: 33",
        "api_key: $OPENAI_API_KEY",
        "api_key: null",
        "step:12 - actor/kl_loss:0.00123 - perf/throughput:2600.5",
        "attempts/01/trainer/validation.jsonl:1–256",
        "https://example.org:8080/path?a=b",
    ],
)
def test_harmless_text_is_kept(text: str) -> None:
    assert redact(text) == text


def test_known_values_are_masked_wherever_they_stand() -> None:
    known = secret_values({"MY_TOKEN": "correct-horse", "HOME": "/home/ada", "DB_PASSWORD": "short"})
    assert known == ("correct-horse",)
    assert redact("it printed correct-horse here", known) == f"it printed {MASK} here"


@given(st.text())
def test_twice_is_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(
    st.sampled_from(["api_key", "PASSWORD", "--token", "secret"]), st.sampled_from(["=", ": ", " = ", '": "'])
)
def test_twice_is_once_for_named_values(name: str, link: str) -> None:
    text = f'x {name}{link}abcdef123"456 y'
    assert redact(redact(text)) == redact(text)
    assert "abcdef123" not in redact(text)
