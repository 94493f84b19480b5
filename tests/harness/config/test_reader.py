"""What is refused before anything is built from it, by each of the readers of settings files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config import edit, readings
from harness.config.reader import DEEPEST, UnreadableConfigError, text_of
from tests.harness.cli.typed import typed

Row = tuple[str, str, int]
LAUGHS = "a0: &a0 lol\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 13))
MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 10)}]\n  k{i}: {i}\n" for i in range(1, 41)
)
BOMBS: dict[str, Row] = {
    "billion laughs": (LAUGHS, "more than 10000 keys and values", 6),
    "merged mappings": (MERGES, "more than 10000 keys and values", 12),
    "a long text, often": (f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 9000}]\n", "larger than 1 MB", 2),
    "brackets": (f"a: {'[' * 3000}{']' * 3000}\n", "more than 100 deep", 1),
    "brackets left open": (f"a:\n  {'[' * 3000}\n", "more than 100 deep", 2),
    "nested keys": ("".join(f"{' ' * i}k:\n" for i in range(1200)), "more than 100 deep", 101),
    "dashes": ("- " * 3000 + "1\n", "more than 100 deep", 1),
    "a large scalar": (f"a: {'x' * 20_000_000}\n", "larger than 1 MB", 0),
    "many keys": ("".join(f"k{i}:\n" for i in range(50_000)), "more than 10000 keys and values", 5001),
    "a loop": ("a: &a\n  b: *a\n", "contains itself", 2),
    "a long number": (f"b: 1\na: 0x{'f' * 100_000}\n", "a number of 100002 digits", 2),
}


@pytest.mark.parametrize("read", [edit.leaves, lambda text: readings.values(text, (1, 1))])
@pytest.mark.parametrize(("text", "problem", "line"), BOMBS.values(), ids=BOMBS)
def test_what_grows_too_large_is_refused_with_its_line(
    text: str, problem: str, line: int, read: Callable[[str], object]
) -> None:
    with pytest.raises(UnreadableConfigError, match="not a config that can be read") as refused:
        read(text)
    assert problem in str(refused.value) and refused.value.line == line
    assert readings.numbers_as_text(text) == {}


@pytest.mark.parametrize("text", ["a: 2024-13-45\n", "a: !!int abc\n", f"a: {'1' * 5000}\n", "a: \0\n"])
def test_a_value_that_breaks_the_parser_is_no_config(text: str) -> None:
    with pytest.raises(UnreadableConfigError):
        edit.load(text)


def test_what_is_just_large_is_read() -> None:
    inner = "{k: 1}"
    for _ in range(DEEPEST - 2):
        inner = f"{{k: {inner}}}"
    text = f"deep: {inner}\nlist: [{', '.join(['1.5'] * 4000)}]\nx: &x {{p: 'q'}}\ny: {{<<: *x, z: *x}}\n"
    text += f"prompt: {'word ' * 10_000}\n"
    assert edit.read(text) == edit.load(text)
    assert readings.values(text, (1, 2))[("y", "p")].text == "q"


@pytest.mark.parametrize("data", [b"a: 1\nb: \xe9\n", b"x" * 2_000_000])
def test_a_file_is_read_only_as_far_as_a_config_goes(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c.yaml").write_bytes(data)
    with pytest.raises(UnreadableConfigError, match=r"UTF-8, line 2|larger than 1 MB"):
        text_of(tmp_path / "c.yaml")


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("text", [LAUGHS, BOMBS["nested keys"][0]])
def test_a_plan_with_such_a_config_cannot_run(tmp_path: Path, text: str, command: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    plan = tmp_path / "plan.md"
    plan.write_text(
        "## [exp_purpose]\nx\n## [exp_yaml_path]\nc.yaml\n## [exp_launch_command]\n`true --config c.yaml`\n"
    )
    status, _, said = typed(command, plan)
    assert status == 2 and "c.yaml is not a config that can be read" in said


def test_a_sweep_that_grows_too_large_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(LAUGHS)
    status, _, said = typed("sweep", tmp_path / "sweep.yaml")
    assert status == 2 and "sweep.yaml:6: it has more than 10000 keys and values" in said
