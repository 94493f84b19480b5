"""`harness doctor` as a person calls it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from harness.cli.app import app

PLAN = """# Exam
## [exp_purpose]
See what is wrong.
## [exp_codebase_dir]
- path: `./`
## [exp_launch_command]
- command: `python train.py --port 1`
"""


def blueprint(folder: Path) -> Path:
    file = folder / "exam.md"
    file.write_text(PLAN)
    return file


def test_a_launch_that_would_fail(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import module_of_nobody\n")
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["doctor", str(blueprint(tmp_path))])
    assert done.exit_code == 2
    assert (
        "module_of_nobody" in done.output
        and "put its folder on PYTHONPATH" in done.output
        and "module_not_found" in done.output
    )


def test_one_that_would_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json\n")
    done = CliRunner().invoke(app, ["doctor", str(blueprint(tmp_path)), "--json"])
    said = json.loads(done.stdout)
    assert (done.exit_code, said["can_run"]) == (0, True)
    fields = {"check", "severity", "text", "fix", "predicts", "detail", "remedies", "captures"}
    assert fields == set(said["findings"][0])
    assert {item["check"] for item in said["findings"] if item["severity"] == "ok"} >= {
        "surroundings",
        "interpreter",
    }


def test_everything_is_shown_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    short = CliRunner().invoke(app, ["doctor", str(blueprint(tmp_path))]).output
    whole = CliRunner().invoke(app, ["doctor", str(blueprint(tmp_path)), "--all"]).output
    assert "surroundings" in whole and "surroundings" not in short


def test_the_machine_alone() -> None:
    done = CliRunner().invoke(app, ["doctor", "--all"])
    assert done.exit_code == 0 and "memory" in done.output


def test_a_file_that_is_no_blueprint(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["doctor", str(tmp_path / "none.md")])
    assert done.exit_code == 2 and "none.md" in done.output
