"""What a command says for itself."""

import re

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from harness.repair.remedies.command_line import given, is_off, sets, value_of


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("trl sft --config c.yaml --packing", {"config": "c.yaml", "packing": "true"}),
        ("t.py --num-workers=4 -lr 3", {"num_workers": "4", "lr": "3"}),
        ("t.py --no-packing --bf16", {"no_packing": "true", "packing": "false", "bf16": "true"}),
        (
            "x trainer.n_gpus=8 +a.b=1 ++c.d=2 ~e.f",
            {"trainer.n_gpus": "8", "a.b": "1", "c.d": "2", "e.f": "null"},
        ),
        ("bash -c 'python t.py --a 1 b=2'", {"a": "1", "b": "2"}),
        ("t.py \\\n  --model-path /m/x", {"model_path": "/m/x"}),
        ("python -m verl.trainer.main_ppo /data/x=1.csv", {}),
        ("", {}),
    ],
)
def test_flags_and_overrides(command: str, settings: dict[str, str]) -> None:
    assert given(command) == settings


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("num_workers", "num_workers"),
        ("data.num-workers", "num_workers"),
        ("model.override_config.attn", "model.override_config"),
        ("path", "model.path"),
        ("other.path", None),
        ("workers", None),
        ("model", None),
    ],
)
def test_the_same_setting_under_other_spellings(key: str, name: str | None) -> None:
    assert sets("t.py --num-workers 4 model.path=/m model.override_config={}", key) == name


def test_the_value_of_a_setting() -> None:
    assert value_of("t.py --model_revision v2", re.compile("(.*_)?revision")) == "v2"
    assert value_of("t.py", re.compile("revision")) is None
    assert all(map(is_off, ("false", "No", 0, None, "", False))) and not any(map(is_off, ("true", 1, "fa2")))


@drawn(st.text(max_size=60))
def test_no_command_is_too_odd(command: str) -> None:
    assert all(isinstance(value, str) for value in given(command).values())
