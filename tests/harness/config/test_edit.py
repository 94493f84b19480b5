"""Edits keep comments, order and types, and say clearly what cannot be edited."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from harness.config import edit as config_edit
from harness.config.edit import ConfigEditError

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = """\
# top
ajet:
  trainer_common:   # how to train
    optim: {lr: 1e-6}
    test_freq: 20 # often enough
  data:
    train_batch_size: 32
"""


def test_comments_order_and_untouched_values_survive() -> None:
    edited = config_edit.edit(TEXT, {"ajet.trainer_common.test_freq": 5, "ajet.experiment_dir": "/x/y"})
    assert "# top" in edited
    assert "# how to train" in edited
    assert "test_freq: 5  # often enough" in edited
    assert edited.index("trainer_common") < edited.index("train_batch_size") < edited.index("experiment_dir")
    assert "lr: 1e-6" in edited
    assert config_edit.get(config_edit.load(edited), "ajet.trainer_common.optim.lr") == 1e-6


@pytest.mark.parametrize("odd", ["a:    1\n\n\nb:   [1,   2]   # spaced\n", '{"a":    1}\n'])
def test_no_change_is_byte_for_byte(odd: str) -> None:
    assert config_edit.edit(odd, {"a": 1}) == odd
    assert config_edit.edit(odd, {}) == odd


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("a: 1\n", True, "a: true\n"),
        ('{"a": 1.0}', 1, '{"a": 1}'),
        ("{a: 1}\n", 2, "{a: 2}\n"),  # YAML in braces is no JSON
        ('{"lr": 1, "a": 2}', 1e-6, '{"lr": 1, "a": 1e-06}'),
    ],
)
def test_values_of_another_type_are_other_values(before: str, value: object, after: str) -> None:
    assert config_edit.edit(before, {"a": value}) == after


@pytest.mark.parametrize(
    ("text", "changes", "complaint"),
    [
        ("a: [1, 2", {"b": 1}, "line"),
        ("- 1\n- 2\n", {"b": 1}, "mapping"),
        ("a: 1\na: 2\n", {"b": 1}, "duplicate|line"),
        ("just words", {"b": 1}, "mapping"),
        ("a: 1\n", {"a.b": 2}, "a is the value 1"),
        ("a: {b: 1}\n", {"a": 5}, "holds a mapping"),
        ('{"a": 1}', {"a": float("nan")}, "JSON"),
    ],
)
def test_what_cannot_be_edited_is_refused(text: str, changes: dict, complaint: str) -> None:
    with pytest.raises(ConfigEditError, match=complaint):
        config_edit.edit(text, changes)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}", fullmatch=True),
        st.integers() | st.text(max_size=12) | st.booleans() | st.none() | FINITE,
        max_size=4,
    )
)
def test_what_is_set_is_read_back(changes: dict) -> None:
    keys = sorted(changes)
    if any(longer.startswith(shorter + ".") for shorter in keys for longer in keys):
        return
    data = config_edit.load(config_edit.edit(TEXT.replace("ajet", "root"), changes))
    for key, value in changes.items():
        assert config_edit.get(data, key, "missing") == value


def test_removing_everything_around_a_comment_leaves_yaml_that_still_says_the_same() -> None:
    text = "# kept\na: 1\nb: {c: 2, d: text}   # inside\n"
    edited = config_edit.edit(text, {"b.new.deep": 0}, ["a", "b"])
    assert config_edit.load(edited) == {"b": {"new": {"deep": 0}}}


JSON = """\
{
    "lr": 1e-5,
    "train": {
        "batch": 4,
        "decay": 0.950,
        "workers": 8
    },
    "fp16": true,
    "name": "ä/b",
    "note": null
}
"""


def test_json_stays_json_with_its_indent_and_its_numbers() -> None:
    edited = config_edit.edit(JSON, {"train.workers": 0, "extra.deep": "x", "note": False}, ["fp16"])
    expected = JSON.replace('"workers": 8', '"workers": 0').replace('    "fp16": true,\n', "")
    more = '"note": false,\n    "extra": {\n        "deep": "x"\n    }\n'
    assert edited == expected.replace('"note": null\n', more)
    assert config_edit.load(edited) == json.loads(edited)
    short = config_edit.edit('{"a": 1, "b": {"c": 1e-5}}', {"b.d": 2.5})
    assert short == '{"a": 1, "b": {"c": 1e-5, "d": 2.5}}'


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["x", "a b", "1", ""]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        ),
    ),
    st.sampled_from([None, 2, 4]),
)
def test_any_json_is_edited_as_json(value: object, indent: int | None) -> None:
    before = {"top": value, "a": 1}
    edited = config_edit.edit(json.dumps(before, indent=indent), {"a": 2, "new.key": "x"})
    assert json.loads(edited) == {**before, "a": 2, "new": {"key": "x"}}


@pytest.mark.parametrize("value", ["\x85", "\u2028", "a\u2029b", "\t", "a\nb", "\x07", "\ufeff", "\xa0"])
def test_characters_that_yaml_takes_for_line_breaks_are_read_back(value: str) -> None:
    assert config_edit.load(config_edit.edit("a: 1\n", {"a": value})) == {"a": value}


@given(st.floats(allow_nan=False))
def test_a_number_is_one_for_readers_of_yaml_1_1_and_1_2(value: float) -> None:
    for text in ("a: 0\n", "b: {a: 0}\na: x  # a rate\n", "a: 1e-9\n"):
        edited = config_edit.edit(text, {"a": value})
        for read in (yaml.safe_load, YAML(typ="safe").load):
            found = read(edited)["a"]
            assert (type(found), found) == (float, value)


def test_numbers_that_are_not_set_keep_their_spelling() -> None:
    text = "lr: 1e-6\nwd: 1.0E-3  # decay\nn: 1\n"
    assert config_edit.edit(text, {"n": 2}) == text.replace("n: 1", "n: 2")
