"""Reading YAML: the values that ruamel.yaml reads, a line for every key, one error type for all else."""

import json
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from trainer_core.config.problems import ConfigError, Problem
from trainer_core.config.yaml_source import read_yaml

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
    | st.sampled_from(
        ["on", "yes", "1e-6", "1:30", "2024-01-01", "null", "~", "0x1F", "${oc.env:HOME}", "*x", "="]
    )
)
names = st.text(st.sampled_from("abcxyz_019.-"), min_size=1, max_size=6)
trees = st.dictionaries(
    names,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(tree=trees)
def test_json_is_yaml(tree: dict[str, Any]) -> None:
    assert read_yaml(json.dumps(tree, ensure_ascii=False), "x").tree == tree


@settings(max_examples=150, deadline=None)
@given(tree=trees)
def test_reads_back_what_ruamel_writes(tree: dict[str, Any]) -> None:
    emitter = YAML(typ="safe", pure=True)
    emitter.default_flow_style = False
    text = StringIO()
    emitter.dump(tree, text)
    assert read_yaml(text.getvalue(), "x").tree == tree


YAML_LIKE = st.text(st.sampled_from("ab: \n-[]{}#&*!'\"|>%@`,?~=1e.\t<\\\x00é$"), max_size=60) | st.text(
    max_size=60
)


@settings(max_examples=400, deadline=None)
@given(text=YAML_LIKE)
def test_any_text_is_read_or_refused_with_a_config_error(text: str) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        read_yaml(text, "x.yaml")
    except ConfigError as error:
        problems = error.problems
    assert all(problem.where.startswith("x.yaml") and problem.fix for problem in problems)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("on", "on"),
        ("no", "no"),
        ("True", True),
        ("010", 10),
        ("0x1F", 31),
        ("2024-01-01", "2024-01-01"),
        ("1:30", "1:30"),
        ("~", None),
        ("'8'", "8"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    read = read_yaml(f"key: {text}", "x").tree["key"]
    assert read == value
    assert type(read) is type(value)


def test_every_key_knows_its_line() -> None:
    text = "a:\n  b: 1\n  # remark\n  c:\n    - d: 2\ne: {f: 3}\n"
    assert read_yaml(text, "x").lines == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 4,
        ("a", "c", "0", "d"): 5,
        ("e",): 6,
        ("e", "f"): 6,
    }


def test_anchors_and_merges_are_resolved_and_own_keys_win() -> None:
    text = "base: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\nuse:\n  b: 9\n  <<: [*base, *other]\n"
    source = read_yaml(text, "x")
    assert source.tree["use"] == YAML(typ="safe", pure=True).load(text)["use"] == {"a": 1, "b": 9, "c": 4}
    assert source.lines["use", "b"] == 4


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
)


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", "x:3", "first on line 1"),
        ("a:\n  b: 1\n\tc: 2\n", "x:3", "spaces instead of tabs"),
        ("a: [1\n", "x:2", "brackets"),
        ("a: b: c\n", "x:1", "quote a value"),
        ("a: 1\n---\nb: 2\n", "x:2", "one document"),
        ("a: *nowhere\n", "x:1", "anchor"),
        ("a: &x [*x]\n", "x:1", "contains itself"),
        ("a: !!python/object:os.system {}\n", "x:1", "tag"),
        ("a: !custom 3\n", "x:1", "tag"),
        ("? [a]\n: b\n", "x:1", "key"),
        ("a: !!int abc\n", "x:1", "not a int"),
        ("a: \x07\n", "x", "UTF-8"),
        ("[" * 1500, "x", "deep"),
        (LAUGHS, "x", "too large"),
        ("a" * 1_000_001, "x", "too long"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_a_mend(text: str, where: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "x")
    (problem,) = caught.value.problems
    assert problem.where.startswith(where)
    assert told in f"{problem.message} {problem.fix}"
