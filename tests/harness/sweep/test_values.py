"""Keys and values as a person writes them on the command line."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config import same_value
from harness.sweep.design import LONGEST_NAME, point_name
from harness.sweep.plan import SweepError
from harness.sweep.spec_text import checked, fields_of


def varied(text: str) -> tuple[str, list[object]]:
    """What `--vary` makes of a text."""
    ((key, values),) = fields_of([text])["vary"].items()
    return key, values


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("a.lr=1e-4,3e-4", "a.lr", [1e-4, 3e-4]),
        ("a.on=on,true,null", "a.on", ["on", True, None]),
        ("a.n=4, 8 ,16", "a.n", [4, 8, 16]),
        ("a.text='x,y',\"z,\\\"w\",it's", "a.text", ["x,y", 'z,"w', "it's"]),
        ("a.url=http://h:1/p?q=1,b", "a.url", ["http://h:1/p?q=1", "b"]),
        ("arg:--lr=1e-4,3e-4", "arg:--lr", ["1e-4", "3e-4"]),
        ("arg:-n=01,1", "arg:-n", ["01", "1"]),
        ("arg:trainer.lr=1_0,true", "arg:trainer.lr", ["1_0", "true"]),
        ("arg:+trainer.new/x='[1,2]','[3]'", "arg:+trainer.new/x", ["[1,2]", "[3]"]),
        ("env:X_1=a,''", "env:X_1", ["a", ""]),
        ("lr=0,false,'0'", "lr", [0, False, "0"]),
    ],
)
def test_a_config_is_typed_and_a_command_keeps_the_very_text(
    text: str, key: str, values: list[object]
) -> None:
    found = varied(text)
    assert found == (key, values)
    assert list(map(type, found[1])) == list(map(type, values))
    assert checked({"blueprint": "b.md", **fields_of([text])}).vary[key].values == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.lr", "KEY=v1,v2"),
        ("=1,2", "KEY=v1,v2"),
        ("a.lr=1,,2", "put quotes"),
        ("a.lr=[1,2],[3,4]", "list"),
        ("arg:--x={a:1},b", "quotes"),
        ("a.lr='1,2", "quotes"),
        ("a.lr='1'2,3", "quotes"),
        ("a.lr=.nan,1", "finite"),
        ("a.lr=.inf,1", "finite"),
        ("a.day=2024-01-01,x", "date"),
        ("a.colour=#fff,#000", "put quotes"),
        ("a.text=one #two,three", "put quotes"),
        ("a.x=*alias,1", "put quotes"),
        ("a.x=!!int a,1", "put quotes"),
        ("a.x=a: b,1", "list or mapping"),
        ("a.x=1", "nothing is varied"),
        ("a.x=1,1.0", "twice"),
        ('a.x=a,"b\\n"', "cannot be seen"),
        ("--lr=1,2", "arg:--lr"),
        ("args:--lr=1,2", "arg:--flag"),
        ("arg:=1,2", "names no flag"),
        ("arg:--lr 3=1,2", "names no flag"),
        ("env:A-B=1,2", "names no environment variable"),
        ("env:HF_TOKEN=1,2", "secret"),
        ("env:CUDA_VISIBLE_DEVICES=0,1", "each.gpus"),
        ("a..b=1,2", "no config key"),
        ("a b=1,2", "no config key"),
        ("ajet.experiment_dir=a,b", "set anew"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(SweepError, match=re.escape(said)):
        checked({"blueprint": "b.md", **fields_of([text])})


def test_a_setting_has_one_value() -> None:
    assert fields_of(settings=["a.b=3", "a.c='1,2'"]) == {"set": {"a.b": 3, "a.c": "1,2"}}
    with pytest.raises(SweepError, match="gives 2 values"):
        fields_of(settings=["a.b=1,2"])


@given(st.lists(st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1), min_size=2, max_size=5))
def test_quoted_texts_come_back_whatever_is_in_them(texts: list[str]) -> None:
    for key in ("a.b", "arg:--b", "env:B"):
        quoted = ",".join(json.dumps(text, ensure_ascii=False) for text in texts)
        assert varied(f"{key}={quoted}") == (key, texts)


def test_equal_numbers_are_one_value_and_true_is_not_one() -> None:
    assert same_value(1, 1.0) and not same_value(1, True) and not same_value("1", 1)


@given(
    st.integers(1, 2000),
    st.lists(st.tuples(st.text(max_size=8), st.text() | st.integers() | st.floats() | st.none()), max_size=5),
)
def test_point_names_are_safe_folders_whatever_is_varied(number: int, parts: list[tuple[str, str]]) -> None:
    name = point_name(number, 2, parts)
    assert re.fullmatch(r"p\d{2,}(?:-[A-Za-z0-9_.-]*)?", name) and len(name) <= LONGEST_NAME
    assert name.partition("-")[0] == f"p{number:02d}" and name[-1] not in "-."


def test_point_names_can_be_read() -> None:
    kl = [("kl_loss_coef", 0.01), ("num_repeat", 8)]
    assert point_name(3, 2, kl) == "p03-kl_loss_coef-0.01-num_repeat-8"
    assert point_name(3, 3, [("path", "/data/a model/7B/")]) == "p003-path-7B"
