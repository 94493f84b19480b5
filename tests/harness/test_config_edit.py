"""Edits keep comments, order and types, and say clearly what cannot be edited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import config_edit
from harness.config_edit import ConfigEditError

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


def test_no_change_is_byte_for_byte() -> None:
    odd = "a:    1\n\n\nb:   [1,   2]   # spaced\n"
    assert config_edit.edit(odd, {"a": 1}) == odd
    assert config_edit.edit(odd, {}) == odd


def test_true_and_one_are_different_values() -> None:
    assert config_edit.load(config_edit.edit("a: 1\n", {"a": True}))["a"] is True


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [1, 2", "line"),
        ("- 1\n- 2\n", "mapping"),
        ("a: 1\na: 2\n", "duplicate|line"),
        ("just words", "mapping"),
    ],
)
def test_what_is_not_a_config_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigEditError, match=complaint):
        config_edit.edit(text, {"b": 1})


def test_a_value_is_not_turned_into_a_mapping() -> None:
    with pytest.raises(ConfigEditError, match="a is the value 1"):
        config_edit.edit("a: 1\n", {"a.b": 2})


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}", fullmatch=True),
        st.integers()
        | st.text(max_size=12)
        | st.booleans()
        | st.none()
        | st.floats(allow_nan=False, allow_infinity=False),
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


def test_a_mapping_is_not_overwritten_by_a_value() -> None:
    with pytest.raises(config_edit.ConfigEditError, match="holds a mapping"):
        config_edit.edit("a: {b: 1}\n", {"a": 5})
