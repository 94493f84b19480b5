"""Files and folders that are named and not there."""

from pathlib import Path

import pytest

from harness.doctor import paths
from tests.harness.doctor.planning import bad, examined, launch

GONE = [("problem", "path_not_found")]


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert bad(examined(paths.programs, launch(tmp_path, "python train.py"))) == []
    found = examined(paths.programs, launch(tmp_path, "python trian.py"))
    assert bad(found) == GONE and found[0].fix == "did you mean train.py?"


def test_a_script_that_a_prepare_command_may_make(tmp_path: Path) -> None:
    given = launch(tmp_path, "python train.py", prepare_command="git clone somewhere .")
    assert bad(examined(paths.programs, given)) == [("warning", "path_not_found")]


@pytest.mark.parametrize(
    ("command", "expected"), [("no-such-program-here x", GONE), ("./train", GONE), ("true && echo x", [])]
)
def test_programs(tmp_path: Path, command: str, expected: list[tuple[str, str]]) -> None:
    assert bad(examined(paths.programs, launch(tmp_path, command))) == expected


def test_a_path_that_only_the_shell_knows(tmp_path: Path) -> None:
    command = "PATH={}:$PATH no-such-program-here x"
    assert bad(examined(paths.programs, launch(tmp_path, command.format('"$(pwd)/bin"')))) == []
    assert bad(examined(paths.programs, launch(tmp_path, command.format("/opt/bin")))) == GONE


def test_a_program_that_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/bin/sh\n")
    assert bad(examined(paths.programs, launch(tmp_path, "./run"))) == [("problem", "permission")]
    (tmp_path / "run").chmod(0o755)
    assert bad(examined(paths.programs, launch(tmp_path, "./run"))) == []


VERL = "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=2 data.train_files={}"


def test_data_files_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_text("")
    assert bad(examined(paths.inputs, launch(tmp_path, VERL.format("train.parquet")))) == []
    found = examined(paths.inputs, launch(tmp_path, VERL.format("tran.parquet")))
    assert bad(found) == GONE and found[0].fix.endswith("train.parquet?")
    assert bad(examined(paths.inputs, launch(tmp_path, VERL.format("/data/none.parquet")))) == GONE


def test_paths_of_a_config(tmp_path: Path) -> None:
    config = "model_path: /models/none\noutput_dir: /not/made/yet\nname: a/b.json\n"
    config += "data:\n  train_file: ${root}/x.jsonl\n"
    found = examined(paths.inputs, launch(tmp_path, "python t.py config.yaml", config))
    assert bad(found) == GONE and "model_path" in found[0].text


def test_a_relative_path_of_an_unknown_program_is_only_warned_about(tmp_path: Path) -> None:
    found = examined(paths.inputs, launch(tmp_path, "python t.py config.yaml", "train_file: data/x.jsonl\n"))
    assert bad(found) == [("warning", "path_not_found")]


def test_names_of_the_hub_are_no_paths(tmp_path: Path) -> None:
    config = "model_name_or_path: org/name\ndataset_path: openai/gsm8k\n"
    assert examined(paths.inputs, launch(tmp_path, "python t.py config.yaml", config)) == []


def test_a_markdown_file_is_written(tmp_path: Path) -> None:
    config = "val_print_to_markdown_file_path: /none/validation.md\ntrain_file_path: /none/x.jsonl\n"
    found = examined(paths.inputs, launch(tmp_path, "python t.py config.yaml", config))
    assert ["train_file_path" in finding.text for finding in found] == [True]


def test_what_the_blueprint_names(tmp_path: Path) -> None:
    assert bad(examined(paths.surroundings, launch(tmp_path, "python t.py", "a: 1\n"))) == []
    assert bad(examined(paths.surroundings, launch(tmp_path / "none"))) == GONE
    for text in ("a: 1\n\tb: 2\n", "a: [1, 2\n", "a: 1\na: 2\n", "- 1\n"):
        found = examined(paths.surroundings, launch(tmp_path, "python t.py config.yaml", text))
        assert bad(found) == [("problem", "config_error")], text
    (tmp_path / "results").write_text("")
    assert bad(examined(paths.surroundings, launch(tmp_path))) == [("problem", "permission")]
