"""`harness doctor` as a person calls it."""

import json
from pathlib import Path

import pytest

from harness.installation import templates_dir
from tests.harness.cli.typed import typed

PLAN = """# Exam
## [exp_purpose]
See what is wrong.
## [exp_codebase_dir]
- path: `./`
## [exp_launch_command]
- command: `python train.py --port 1`
"""


def called(folder: Path, source: str, *options: str) -> tuple[int, str]:
    (folder / "train.py").write_text(source)
    (folder / "exam.md").write_text(PLAN)
    return typed("doctor", folder / "exam.md", *options, columns=200)[:2]


def test_a_launch_that_would_fail(tmp_path: Path) -> None:
    status, output = called(tmp_path, "import module_of_nobody\n")
    assert status == 2
    for words in ("module_of_nobody", "put its folder on PYTHONPATH", "module_not_found"):
        assert words in output


def test_one_that_would_not(tmp_path: Path) -> None:
    status, output = called(tmp_path, "import json\n", "--json")
    report = json.loads(output)
    assert (status, report["can_run"]) == (0, True)
    fields = {"check", "severity", "text", "fix", "predicts", "remedies", "captures"}
    assert fields == set(report["findings"][0])
    assert "surroundings" in called(tmp_path, "", "--all")[1]
    assert "surroundings" not in called(tmp_path, "")[1]


def test_the_machine_alone_and_a_file_that_is_no_blueprint(tmp_path: Path) -> None:
    status, out, _ = typed("doctor", "--all")
    assert status == 0 and "surroundings" not in out
    assert all(name in out for name in ("disk", "memory", "open files", "tmux"))
    status, out, _ = typed("doctor", tmp_path / "none.md", columns=200)
    assert status == 2 and "none.md" in out


@pytest.mark.parametrize(
    "command", ["no-such-program-here x", "python trian.py", "python train.py data.path=data/nope.csv"]
)
def test_d19_what_names_a_program_or_data_that_is_not_there_cannot_run(tmp_path: Path, command: str) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "exam.md").write_text(PLAN.replace("python train.py --port 1", command))
    for name in ("check", "doctor"):
        status, out, err = typed(name, tmp_path / "exam.md", columns=200)
        assert (status == 2 and "does not exist" in out + err) or "not on PATH" in out + err, name
    assert typed("check", tmp_path / "exam.md")[1].endswith("cannot run\n")


def test_d19_doctor_names_the_sections_that_are_still_the_templates(tmp_path: Path) -> None:
    (tmp_path / "exam.md").write_text((templates_dir() / "blueprints" / "original.md").read_text())
    status, out, _ = typed("doctor", tmp_path / "exam.md", columns=300)
    assert status == 2 and "[exp_purpose], [exp_yaml_path], [exp_launch_command] are still" in out
