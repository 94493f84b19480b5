"""What a YAML text says, and what differs between two of them."""

import pytest

from harness.config import readings as config_readings
from harness.config.readings import Path, UnreadableConfigError, Value, readings, values


def changed(before: str, after: str) -> dict[Path, tuple[Value | None, Value | None]]:
    return config_readings.changed(readings(before), readings(after))


def test_anchors_and_merges_are_followed_and_the_own_key_wins() -> None:
    text = "base: &b {lr: 1, n: 2}\ntrain:\n  <<: *b\n  lr: 3\nsame: *b\n"
    found = values(text, (1, 2))
    assert found["train", "lr"] == Value("int", "3")
    assert found["train", "n"] == Value("int", "2")
    assert found["same", "lr"] == Value("int", "1")


def test_of_several_merged_mappings_the_first_wins() -> None:
    text = "a: &a {x: 1}\nb: &b {x: 2, y: 3}\nc:\n  <<: [*a, *b]\n"
    found = values(text, (1, 2))
    assert (found["c", "x"].text, found["c", "y"].text) == ("1", "3")


def test_one_edit_of_an_anchor_shows_everywhere_it_is_used() -> None:
    before = "a: &a {x: 1}\nb: *a\nc: {<<: *a}\n"
    assert set(changed(before, before.replace("x: 1", "x: 2"))) == {("a", "x"), ("b", "x"), ("c", "x")}


def test_places_in_lists_and_keys_with_dots_are_kept_apart() -> None:
    found = values("a.b: 1\na:\n  b:\n  - c: 2\n  - 3\n", (1, 2))
    assert set(found) == {("a.b",), ("a", "b", "[0]", "c"), ("a", "b", "[1]")}


@pytest.mark.parametrize("empty", ["a:", "a: {}", "a: null"])
def test_filling_an_empty_section_lists_only_what_stands_in_it(empty: str) -> None:
    assert set(changed(empty, "a: {b: 1}")) == {("a", "b")}
    assert set(changed("a: {b: 1}", empty)) == {("a", "b")}


def test_another_spelling_of_the_same_value_is_no_change() -> None:
    assert changed("a: True\nb: 1e-6\nc: ~\n", "a: true\nb: 1.0e-6\nc: null\n") == {}


def test_a_number_and_its_text_differ() -> None:
    assert set(changed("a: 1\nb: 1\n", "a: '1'\nb: 1.0\n")) == {("a",), ("b",)}


def test_what_only_an_older_reader_would_see_is_seen() -> None:
    assert changed("a: on\n", 'a: "on"\n'), "PyYAML reads the first as true"


@pytest.mark.parametrize(
    "text",
    [
        "a: &a\n  b: *a\n",
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
            for before, name in zip("abcdef", "bcdefg", strict=True)
        ),
        "? [1, 2]\n: 3\n",
        "a: [\n",
        "<<: 3\n",
    ],
    ids=["contains itself", "grows through aliases", "list as key", "no YAML", "merges a number"],
)
def test_a_text_that_cannot_be_judged_is_refused(text: str) -> None:
    with pytest.raises(UnreadableConfigError):
        values(text, (1, 2))


@pytest.mark.parametrize(
    "reference",
    [
        *(
            "${timeout}",
            "${run.timeout}",
            "${.timeout}",
            "${..run.timeout}",
            "${run[timeout]}",
            "${run['timeout']}",
        ),
        *("${run}", "${oc.select:run.timeout,3}", "${eval:'${run.timeout} * 2'}", "a ${run.timeout} b"),
        *("${middle}", "${${name}}", "${run.${name}}", "${job.run.timeout}"),
    ],
)
def test_what_refers_to_an_edited_value_is_found(reference: str) -> None:
    text = f'name: timeout\nmiddle: "${{run.timeout}}"\nrun:\n  timeout: 1\n  lr: "{reference}"\n'
    assert ("run", "lr") in config_readings.referring(values(text, (1, 2)), [("run", "timeout")])


@pytest.mark.parametrize(
    "reference", ["${oc.env:HOME}", "${other.key}", "${.port}", "timeout", "${run.retries}"]
)
def test_what_refers_to_something_else_is_not(reference: str) -> None:
    text = f'run:\n  timeout: 1\n  lr: "{reference}"\n'
    assert config_readings.referring(values(text, (1, 2)), [("run", "timeout")]) == {}


def test_references_in_circles_end() -> None:
    text = 'a: "${b}"\nb: "${a}"\nc: 1\nd: "${c}"\n'
    assert set(config_readings.referring(values(text, (1, 2)), [("c",)])) == {("d",)}
    assert set(config_readings.referring(values(text, (1, 2)), [("a",)])) == {("b",)}


def test_a_tag_creates_no_object_and_its_change_is_seen() -> None:
    assert (
        values("a: !!python/object/apply:os.getcwd []\n", (1, 2))["a",].kind
        == "python/object/apply:os.getcwd"
    )
    assert changed("a: 1\n", "a: !!str 1\n")
