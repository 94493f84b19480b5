"""Files and folders that are named and not there."""

import os
import time
from pathlib import Path

import pytest

from harness.doctor import paths
from tests.harness.doctor.planning import bad, examined, launch

GONE = [("problem", "path_not_found")]


def test_the_codebase(tmp_path: Path) -> None:
    assert bad(examined(paths.codebase, launch(tmp_path))) == []
    assert bad(examined(paths.codebase, launch(tmp_path / "none"))) == GONE


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert bad(examined(paths.programs, launch(tmp_path, "python train.py"))) == []
    found = examined(paths.programs, launch(tmp_path, "python trian.py"))
    assert bad(found) == GONE and found[0].mend == "did you mean train.py?"


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
    assert bad(found) == GONE and found[0].mend.endswith("train.parquet?")
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


def test_a_result_folder_below_a_file(tmp_path: Path) -> None:
    assert bad(examined(paths.outputs, launch(tmp_path))) == []
    (tmp_path / "results").write_text("")
    assert bad(examined(paths.outputs, launch(tmp_path))) == [("problem", "permission")]


def test_a_file_system_that_is_ahead(tmp_path: Path) -> None:
    given = launch(tmp_path)
    given.result_dir.mkdir()
    journal = given.result_dir / "journal.jsonl"
    journal.write_text("")
    assert bad(examined(paths.clock, given)) == []
    os.utime(journal, (time.time() + 3600, time.time() + 3600))
    assert bad(examined(paths.clock, given)) == [("warning", "time_limit")]


def test_time_limits(tmp_path: Path) -> None:
    assert (
        examined(paths.time_limits, launch(tmp_path, max_time_s=900.0)) == []
    )  # nobody chose the first step's
    chosen = launch(tmp_path, max_time_s=900.0, first_step_s=901.0)
    assert bad(examined(paths.time_limits, chosen)) == [("warning", "time_limit")]


def test_a_markdown_file_is_written(tmp_path: Path) -> None:
    config = "val_print_to_markdown_file_path: /none/validation.md\ntrain_file_path: /none/x.jsonl\n"
    found = examined(paths.inputs, launch(tmp_path, "python t.py config.yaml", config))
    assert ["train_file_path" in finding.text for finding in found] == [True]
