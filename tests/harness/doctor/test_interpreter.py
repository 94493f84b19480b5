"""Interpreters that are not there, do not run, or are whole; sources that cannot be read."""

from pathlib import Path

from harness.doctor import interpreter, paths
from tests.harness.doctor.planning import bad, examined, launch


def test_one_that_runs(tmp_path: Path) -> None:
    found = examined(interpreter.runs, launch(tmp_path))
    assert bad(found) == [] and "Python 3." in found[0].text


def test_one_that_does_not_exist(tmp_path: Path) -> None:
    found = examined(interpreter.runs, launch(tmp_path, venv_exe=str(tmp_path / "venv/bin/python")))
    assert bad(found) == [("problem", "path_not_found")]


def test_a_link_whose_target_is_gone(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(tmp_path / "removed/python3")
    found = examined(interpreter.runs, launch(tmp_path, venv_exe=str(python)))
    assert bad(found) == [("problem", "path_not_found")] and "removed/python3" in found[0].text


def test_one_that_is_no_program(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/nowhere/python\n")
    assert bad(examined(interpreter.runs, launch(tmp_path, venv_exe=str(python)))) == [
        ("problem", "permission")
    ]
    python.chmod(0o755)
    found = examined(interpreter.runs, launch(tmp_path, venv_exe=str(python)))
    assert bad(found) == [("problem", "path_not_found")] and "does not start" in found[0].text


def test_one_that_fails_tells_its_last_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Fatal Python error: no encodings' >&2\nexit 1\n")
    python.chmod(0o755)
    found = examined(interpreter.runs, launch(tmp_path, venv_exe=str(python)))
    assert "Fatal Python error: no encodings" in found[0].text


def test_a_command_without_python_needs_none(tmp_path: Path) -> None:
    assert examined(interpreter.runs, launch(tmp_path, "./train", venv_exe=str(tmp_path / "no"))) == []


def test_sources_that_parse_and_do_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import local\nprint(1)\n")
    (tmp_path / "local.py").write_text("x = 1\n")
    assert bad(examined(interpreter.sources, launch(tmp_path, "python train.py"))) == []
    (tmp_path / "local.py").write_text("def broken(:\n")
    found = examined(interpreter.sources, launch(tmp_path, "python train.py"))
    assert (
        bad(found) == [("problem", "config_error")]
        and "local.py" in found[0].text
        and "line 1" in found[0].text
    )


def test_a_variable_that_is_read_and_not_set(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nkey = os.environ['JUDGE_API_KEY']\n")
    assert bad(examined(interpreter.sources, launch(tmp_path, "python train.py"))) == [("warning", "auth")]
    given = launch(tmp_path, "python train.py", variables={"JUDGE_API_KEY": "x"})
    assert bad(examined(interpreter.sources, given)) == []
    assert bad(examined(interpreter.sources, launch(tmp_path, "JUDGE_API_KEY=x python train.py"))) == []


def test_a_variable_with_a_default_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os\nif 'A' in os.environ:\n    pass\na = os.environ['A']\nb = os.environ.get('B')\n"
    )
    assert bad(examined(interpreter.sources, launch(tmp_path, "python train.py"))) == []


def test_what_the_launch_sets_is_there(tmp_path: Path) -> None:
    reads = [f'os.environ["{name}"]' for name in ("HARNESS_ATTEMPT_DIR", "PYTHONUNBUFFERED")]
    (tmp_path / "train.py").write_text(f"import os\nprint({', '.join(reads)})\n")
    assert bad(examined(interpreter.sources, launch(tmp_path, "python train.py"))) == []
    command = "python train.py --data_path $HARNESS_ATTEMPT_DIR/rows.jsonl"
    assert bad(examined(paths.inputs, launch(tmp_path, command))) == [], "it is not known yet"
