"""Config and command line come together in one table."""

from hypothesis import given
from hypothesis import strategies as st

from harness.config.values import flatten
from harness.doctor.settings import flags, gather, overrides


def test_the_command_line_wins() -> None:
    found = gather(
        {"data": {"batch": 8, "files": ["a", "b"]}},
        ["data.batch=16", "+data.new=x", "--lr", "1e-6", "--fp16"],
    )
    assert found.values == {
        "data.batch": 16,
        "data.files": ["a", "b"],
        "data.new": "x",
        "lr": 1e-6,
        "fp16": True,
    }
    assert found.whole("data.nothing", "data.batch") == 16


def test_marks_of_overrides() -> None:
    assert [(item.key, item.mark) for item in overrides(["a.b=1", "+c=2", "++d=3", "~e=4", "--f=5"])] == [
        ("a.b", ""),
        ("c", "+"),
        ("d", "++"),
        ("e", "~"),
    ]


def test_flags_with_dashes() -> None:
    assert flags(["--per-device-batch", "4", "--name=x", "--on", "--last", "[1,2]"]) == {
        "per_device_batch": 4,
        "name": "x",
        "on": True,
        "last": [1, 2],
    }


@given(
    st.recursive(
        st.integers(), lambda inner: st.dictionaries(st.text("ab", min_size=1, max_size=3), inner, min_size=1)
    )
)
def test_flattening_keeps_every_leaf(tree: object) -> None:
    def leaves(node: object) -> list[int]:
        return (
            [leaf for value in node.values() for leaf in leaves(value)] if isinstance(node, dict) else [node]
        )  # type: ignore[list-item]

    if isinstance(tree, dict):
        assert list(flatten(tree).values()) == leaves(tree)


@given(st.lists(st.text(max_size=20), max_size=6))
def test_any_words_can_be_gathered(words: list[str]) -> None:
    assert isinstance(gather({}, words).values, dict)
