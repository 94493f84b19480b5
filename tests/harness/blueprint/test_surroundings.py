"""What the machine adds: missing paths, bad YAML, the trainer's own objections."""

import sys
from pathlib import Path

import pytest

from harness.blueprint import Blueprint, check_surroundings, check_trainer, parse, read
from tests.harness.blueprint.reading import errors

CONFIG = "ajet:\n  model: {path: tiny}\n  task_reader: {type: builtin}\n"


def text_of(tmp_path: Path, **sections: str) -> str:
    values = {"purpose": "x", "venv_exe": sys.executable, "result_dir": str(tmp_path / "out"), **sections}
    return "".join(f"## [exp_{name}]\n{value}\n" for name, value in values.items())


def plan(tmp_path: Path, **sections: str) -> Blueprint:
    return parse(text_of(tmp_path, **sections), tmp_path / "blueprint.md", tmp_path)


def python(folder: Path, command: str) -> str:
    """An interpreter that runs this instead."""
    (folder / "python").write_text(f"#!/bin/sh\nexec {command}\n")
    (folder / "python").chmod(0o755)
    return str(folder / "python")


def test_nothing_to_object_to(tmp_path: Path) -> None:
    assert check_surroundings(plan(tmp_path, launch_command="python a.py")).problems == ()


def test_missing_paths_are_named_with_the_line_of_their_value(tmp_path: Path) -> None:
    sections = {"codebase_dir": "- hint: x\n- path: /no/code", "venv_exe": "/no/python"}
    sections["yaml_path"] = "/no/c.yaml"
    lines = text_of(tmp_path, **sections).split("\n")
    found = errors(check_surroundings(plan(tmp_path, **sections)))
    for path in ("/no/code", "/no/python", "/no/c.yaml"):
        (line,) = [line for line, message in found if path in message and "does not exist" in message]
        assert path in lines[line - 1]


def test_an_interpreter_that_is_in_the_codebase_is_suggested(tmp_path: Path) -> None:
    python = tmp_path / "code" / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    asked = plan(tmp_path, codebase_dir=str(tmp_path / "code"), venv_exe="env/bin/python")
    assert str(python) in check_surroundings(asked).problems[0].fix


@pytest.mark.parametrize(
    ("section", "place", "words"),
    [
        ("venv_exe", "file", "cannot be executed"),
        ("codebase_dir", "file", "is not a folder"),
        ("result_dir", "file/out", "is a file"),
    ],
)
def test_files_in_the_way(tmp_path: Path, section: str, place: str, words: str) -> None:
    (tmp_path / "file").write_text("x")
    assert words in errors(check_surroundings(plan(tmp_path, **{section: str(tmp_path / place)})))[0][1]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\x9bb", "caf\udce9", "#(x);"])
def test_a_folder_with_control_characters_in_its_name_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    text = text_of(tmp_path, launch_command="python a.py", result_dir="./r")
    found = [message for _, message in errors(check_surroundings(parse(text, folder / "t.md", folder)))]
    assert [repr(str(folder)) in message for message in found] == [True] * (name[0] == "a")


@pytest.mark.parametrize("text", ["a: [1\n", "- a\n- b\n", "a: 1\na: 2\n"])
def test_a_config_must_be_a_yaml_mapping(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    (found,) = errors(check_surroundings(plan(tmp_path, yaml_path="c.yaml")))
    assert "not a config that can be read" in found[1]


def test_another_host_is_refused_and_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    assert "gpu1" in errors(check_surroundings(plan(tmp_path, host="me@gpu1")))[0][1]
    assert len(check_surroundings(read(tmp_path / "no" / "blueprint.md")).problems) == 1


class TestTrainer:
    def test_a_config_it_takes_and_a_key_it_does_not_know(self, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text(CONFIG)
        assert check_trainer(plan(tmp_path, yaml_path="c.yaml")).can_run
        (tmp_path / "c.yaml").write_text(CONFIG + "  rollout: {num_repeet: 4}\n")
        (problem,) = check_trainer(plan(tmp_path, yaml_path="c.yaml")).problems
        assert "ajet.rollout.num_repeet" in problem.message and "c.yaml:4" in problem.message
        assert "num_repeat" in problem.fix

    def test_data_that_a_preparation_may_still_bring(self, tmp_path: Path) -> None:
        files = "{training: {file_path: none.jsonl}, validation: {file_path: none.jsonl}}"
        reader = f"  task_reader: {{type: jsonl_dataset_file, jsonl_dataset_file: {files}}}\n"
        (tmp_path / "c.yaml").write_text(CONFIG.replace("  task_reader: {type: builtin}\n", reader))
        (problem,) = check_trainer(plan(tmp_path, yaml_path="c.yaml")).problems
        assert "none.jsonl" in problem.message and problem.severity == "error"
        assert check_trainer(plan(tmp_path, yaml_path="c.yaml", prepare_command="make data")).can_run

    def test_a_python_without_it(self, tmp_path: Path) -> None:
        bare = python(tmp_path, f'{sys.executable} -I -S "$@"')
        checked = check_trainer(plan(tmp_path, venv_exe=bare))
        assert "cannot run the bundled trainer" in errors(checked)[0][1]

    def test_a_config_of_something_else_needs_a_command_which_it_is_not_asked_about(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "c.yaml").write_text("lr: 1\n")
        assert "no `ajet:` tree" in errors(check_trainer(plan(tmp_path, yaml_path="c.yaml")))[0][1]
        blueprint = plan(tmp_path, yaml_path="c.yaml", launch_command="python a.py")
        assert check_trainer(blueprint) is blueprint

    def test_a_trainer_that_hangs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("harness.blueprint.surroundings.TIMEOUT_S", 0.1)
        checked = check_trainer(plan(tmp_path, venv_exe=python(tmp_path, "sleep 60")))
        assert "did not answer" in errors(checked)[0][1]
