"""What a YAML text says, and what differs between two of them."""

import re

import pytest

from harness.config import readings as config_readings
from harness.config.readings import Path, UnreadableConfigError, Value, readings, values


def changed(before: str, after: str) -> dict[Path, tuple[Value | None, Value | None]]:
    return config_readings.changed(readings(before), readings(after))


def test_anchors_and_merges_are_followed_the_own_key_wins_and_then_the_first() -> None:
    found = values("base: &b {lr: 1, n: 2}\ntrain:\n  <<: *b\n  lr: 3\nsame: *b\n", (1, 2))
    assert found["train", "lr"] == Value("int", "3")
    assert found["train", "n"] == Value("int", "2")
    assert found["same", "lr"] == Value("int", "1")
    found = values("a: &a {x: 1}\nb: &b {x: 2, y: 3}\nc:\n  <<: [*a, *b]\n", (1, 2))
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


def test_another_spelling_of_the_same_value_is_no_change_but_another_type_or_reader_s_value_is() -> None:
    assert changed("a: True\nb: 1e-6\nc: ~\n", "a: true\nb: 1.0e-6\nc: null\n") == {}
    assert set(changed("a: 1\nb: 1\n", "a: '1'\nb: 1.0\n")) == {("a",), ("b",)}
    assert changed("a: on\n", 'a: "on"\n'), "PyYAML reads the first as true"


TENFOLD = "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
)
UNREADABLE = {
    "contains itself": "a: &a\n  b: *a\n",
    "grows through aliases": f"a: &a [{', '.join('x' * 10)}]\n{TENFOLD}",
    "list as key": "? [1, 2]\n: 3\n",
    "no YAML": "a: [\n",
    "merges a number": "<<: 3\n",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_a_text_that_cannot_be_judged_is_refused(text: str) -> None:
    with pytest.raises(UnreadableConfigError):
        values(text, (1, 2))


REFERENCES = """${timeout}|${run.timeout}|${.timeout}|${..run.timeout}|${run[timeout]}|${run['timeout']}
${oc.select:run.timeout,3}|${eval:'${run.timeout} * 2'}|a ${run.timeout} b|${middle}|${${name}}|${run.${name}}
${run}|${job.run.timeout}"""
OTHERS = "${oc.env:HOME} ${other.key} ${.port} timeout ${run.retries}"


@pytest.mark.parametrize("reference", re.split(r"[|\n]", REFERENCES))
def test_what_refers_to_an_edited_value_is_found(reference: str) -> None:
    text = f'name: timeout\nmiddle: "${{run.timeout}}"\nrun:\n  timeout: 1\n  lr: "{reference}"\n'
    assert ("run", "lr") in config_readings.referring(values(text, (1, 2)), [("run", "timeout")])


@pytest.mark.parametrize("reference", OTHERS.split())
def test_what_refers_to_something_else_is_not(reference: str) -> None:
    text = f'run:\n  timeout: 1\n  lr: "{reference}"\n'
    assert config_readings.referring(values(text, (1, 2)), [("run", "timeout")]) == {}


def test_references_in_circles_end() -> None:
    text = 'a: "${b}"\nb: "${a}"\nc: 1\nd: "${c}"\n'
    assert set(config_readings.referring(values(text, (1, 2)), [("c",)])) == {("d",)}
    assert set(config_readings.referring(values(text, (1, 2)), [("a",)])) == {("b",)}


def test_a_tag_creates_no_object_and_its_change_is_seen() -> None:
    tag = "python/object/apply:os.getcwd"
    assert values(f"a: !!{tag} []\n", (1, 2))["a",].kind == tag
    assert changed("a: 1\n", "a: !!str 1\n")
