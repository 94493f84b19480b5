"""Nothing makes the reader raise, and what was written is either read back or complained about."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from harness.blueprint import Blueprint, read
from harness.codec import decode
from harness.wording import exact_duration
from tests.harness.blueprint.reading import CWD, errors, read_text, section

WORDS = r"""
## #_[exp_purpose] [exp_codebase_dir] [exp_max_time] [exp_launch_command] [exp_yaml_path]
[exp_metrics] [exp_protected_keys] [exp_code_changes] [exp_host] 【exp_venv_exe】 [exp_x] exp_ [ ] **
` ``` ~~~ - 1. > : ： <!-- --> --- === /home/x ./ ~ ~root/ $HOME ${ \ && [a](b) <x> " ' “ ( ) , 。 NA
default 路径 12 小时 c.yaml -5 0 9e999 (?P<a> |
"""
SPACED = "## |# |\n|\n\n|\r\n|\\\n| |    |\t|- |> |python a.py|12 hours|"
SPACED += "Other Notes|hint: |path: |command: |first step"
FRAGMENTS = st.sampled_from([*SPACED.split("|"), "\u2028", "\ufeff", *WORDS.split()])
SOUP = st.lists(FRAGMENTS, max_size=40).map("".join)
LETTERS = "abcdefghijklmnopqrstuvwxyzXYZ0123456789_-."
WORD = st.text(LETTERS, min_size=1, max_size=8).filter(lambda word: word.strip("._-"))
PATHS = st.lists(WORD, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
PATH = PATHS.filter(lambda path: path[-1] not in ".:")
PROGRAMS = "python train.py|torchrun --nproc-per-node 2 t.py|bash run.sh|A=1 ./run.sh|/py/bin/python -m trl"
FLAG = st.tuples(WORD, WORD).map(lambda pair: f"--{pair[0].strip('-_.') or 'x'} {pair[1]}")
PARTS = st.tuples(st.sampled_from(PROGRAMS.split("|")), st.lists(FLAG, max_size=3))
COMMAND = PARTS.map(lambda pair: " ".join([pair[0], *pair[1]]))
SECONDS = st.integers(1, 400_000)

HEADINGS = [
    *("## [{name}]", "### {name}", "## 3. [{name}] Some remark (absolute path):", "**[{name}]**"),
    *("## 【{name}】说明", r"## \[{name}\]", "# `{name}`"),
]
VALUES = [
    *("{0}", "`{0}`", "- content 1: {0}", "- content 1: `{0}`", "```\n{0}\n```", "    {0}"),
    *("- value:\n    - {0}", "- description: some words\n- value: {0}\n- hint: other words", "它是`{0}`。"),
]


@st.composite
def written(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """A blueprint in a random dialect, and what it says."""
    said = {f"exp_{name}": draw(PATH) for name in ("codebase_dir", "venv_exe", "yaml_path", "result_dir")}
    said["exp_yaml_path"] += draw(st.sampled_from([".yaml", ".yml"]))
    said |= {"exp_launch_command": draw(COMMAND), "exp_max_time": exact_duration(draw(SECONDS))}
    heading = draw(st.sampled_from(HEADINGS))
    text = heading.format(name="exp_purpose") + "\nA purpose\n\n"
    for name in draw(st.permutations(list(said))):
        text += heading.format(name=name) + "\n" + draw(st.sampled_from(VALUES)).format(said[name]) + "\n\n"
    wrap = draw(st.sampled_from(["{0}", "```markdown\n{0}```\n", "Here it is:\n\n~~~~\n{0}\n~~~~\n"]))
    text = wrap.replace("{0}", text)
    if draw(st.booleans()):
        text = "\n".join(f"    {line}" for line in text.split("\n"))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))), said


def understood(blueprint: Blueprint, name: str) -> str:
    if name == "exp_max_time":
        return exact_duration(blueprint.max_time_s)
    return str(getattr(blueprint, name.removeprefix("exp_")))


def check_round_trip(text: str, said: dict[str, str]) -> None:
    blueprint = read_text(text)
    for name, value in said.items():
        meant = os.path.normpath(value) if value.startswith("/") and name != "exp_launch_command" else value
        assert understood(blueprint, name) == meant or errors(blueprint), text


def check_soup(text: str) -> None:
    blueprint = read_text(text)
    lines = text.count("\n") + text.count("\r") + 1
    assert all(1 <= problem.line <= lines for problem in blueprint.problems)
    assert all(problem.message and problem.fix for problem in blueprint.problems)
    assert blueprint.max_time_s > 0 and blueprint.first_step_s > 0 and blueprint.launch_command != ""
    paths = (blueprint.codebase_dir, blueprint.venv_exe, blueprint.result_dir)
    assert all(path.is_absolute() for path in paths)
    blueprint.as_json()


@settings(max_examples=300, deadline=None)
@given(st.one_of(SOUP, st.text(max_size=200)))
@example("[exp_launch_command]##./python a.py")
def test_any_text_is_read(text: str) -> None:
    check_soup(text)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_any_file_is_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p.md").write_bytes(data)
    read(tmp_path / "p.md", cwd=CWD)


@settings(max_examples=300, deadline=None)
@given(written())
def test_what_is_written_is_read_back_without_complaint(case: tuple[str, dict[str, str]]) -> None:
    check_round_trip(*case)
    assert errors(read_text(case[0])) == [], case[0]


TWO = "{0}\n\n{1}|- path: {0}\n- path: {1}|- `{0}`\n- `{1}`|{0} or {1}|use {0} or {1}|```\n{0}\n{1}\n```"


@settings(max_examples=100, deadline=None)
@given(PATH, PATH, st.sampled_from(TWO.split("|")))
def test_two_paths_are_never_silently_one(first: str, second: str, form: str) -> None:
    assume(os.path.normpath(first) != os.path.normpath(second))
    assert read_text(section("exp_result_dir", form.format(first, second))).problems


HOSTILE = ["[" * 20_000, "> " * 5_000 + "x", "- " * 5_000 + "x", "`" * 20_000, "*" * 20_000 + "a"]
HOSTILE += ["## [exp_codebase_dir]\n" + "/a " * 8_000, "## [exp_launch_command]\n" + "a='" * 8_000]
HOSTILE += ["## [exp_max_time]\n" + "1 " * 8_000, "[exp_purpose]\n" * 2_000]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_take_little_time(text: str) -> None:
    start = time.process_time()
    read_text(text)
    assert time.process_time() - start < 5


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None)
@given(st.one_of(SOUP, st.text(max_size=400)))
def test_any_text_is_read_soak(text: str) -> None:
    check_soup(text)


@pytest.mark.soak
@settings(max_examples=10_000, deadline=None)
@given(written())
def test_what_is_written_is_read_back_soak(case: tuple[str, dict[str, str]]) -> None:
    check_round_trip(*case)


def test_blueprints_survive_the_journal() -> None:
    blueprints = [read(path) for path in Path("blueprints").glob("*/blueprint.md")]
    assert blueprints
    for blueprint in blueprints:
        assert decode(Blueprint, json.loads(json.dumps(blueprint.as_json()))) == blueprint
