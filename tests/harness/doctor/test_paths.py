"""Files and folders that are named and not there."""

from pathlib import Path

import pytest

from harness.actions import AskPerson
from harness.doctor import outcome, paths
from harness.doctor.settings import similar
from harness.repair import repair_plan
from harness.repair.remedies import Situation, remedies_for
from tests.harness.doctor.planning import Bad, bad, launch

GONE = [("problem", "path_not_found")]
UNSURE = [("warning", "path_not_found")]
REFUSED = [("problem", "permission")]
VERL = "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=2 data.train_files={}"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py", []),
        ("python trian.py", GONE),
        ("no-such-program-here x", GONE),
        ("./train", GONE),
        ("./run", REFUSED),
        ("true && echo x", []),
        ('PATH="$(pwd)/bin":$PATH no-such-program-here x', []),  # only the shell knows
        ("PATH=/opt/bin:$PATH no-such-program-here x", GONE),
    ],
)
def test_programs(tmp_path: Path, command: str, expected: Bad) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run").write_text("#!/bin/sh\n")
    found = list(paths.programs(launch(tmp_path, command)))
    assert bad(found) == expected
    assert "trian" not in command or found[0].fix == "did you mean train.py?"
    (tmp_path / "train.py").unlink()
    given = launch(tmp_path, "python train.py", prepare_command="git clone somewhere .")
    assert bad(paths.programs(given)) == UNSURE, "it may make the script"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("train.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:a\n", "dataset_error"),
        ("train.csv", "\n<!DOCTYPE html>\n<html>", "dataset_error"),
        ("weights.pt", "<html><head>", "corrupt_weights"),
        ("page.html", "<!DOCTYPE html>\n<html>", ""),
        ("train.csv", "a,b\n<html>,1\n", ""),
    ],
)
def test_what_stands_for_a_file(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    found = bad(paths.inputs(launch(tmp_path, f"python train.py --data_path {name}")))
    assert found == ([("problem", expected)] if expected else [])


@pytest.mark.parametrize(
    ("command", "config", "expected", "words"),
    [
        (VERL.format("train.parquet"), "", [], ""),
        (VERL.format("tran.parquet"), "", GONE, "tran.parquet → train.parquet"),
        (VERL.format("/data/none.parquet"), "", GONE, ""),
        ("python t.py --data_path $HARNESS_ATTEMPT_DIR/rows.jsonl", "", [], ""),  # known at the launch
        ("python t.py config.yaml", "model_path: /no\noutput_dir: /x\nname: a/b.json\n", GONE, "model_path"),
        ("python t.py config.yaml", "data:\n  train_file: ${root}/x.jsonl\n", [], ""),
        ("python t.py config.yaml", "train_file: data/x.jsonl\n", GONE, ""),
        ("python t.py config.yaml", "train_dir: data/x\noutput: {data_file: data/y.csv}\n", UNSURE, ""),
        ("python t.py data.path=data/nope.csv", "", GONE, "data.path"),
        ("python t.py config.yaml", "data: {path: data/nope.csv}\n", GONE, "data.path"),
        ("python t.py config.yaml", "data: {path: data/deep}\n", [], ""),
        ("python t.py config.yaml", "model_name_or_path: org/name\ndataset_path: openai/gsm8k\n", [], ""),
        ("python t.py config.yaml", "val_print_to_markdown_file_path: /none/validation.md\n", [], ""),
        ("python t.py config.yaml", "train_file_path: /none/x.jsonl\n", GONE, ""),
    ],
)
def test_files_in_settings(tmp_path: Path, command: str, config: str, expected: Bad, words: str) -> None:
    (tmp_path / "train.parquet").write_text("")
    found = list(paths.inputs(launch(tmp_path, command, config or None)))
    assert bad(found) == expected and all(words in each.sentence for each in found)


@pytest.mark.parametrize(
    ("text", "there", "meant"),
    [
        ("dta/train.csv", ["data/train.csv", "data/test.csv"], "data/train.csv"),
        ("./dta/train.csv", ["data/train.csv"], "data/train.csv"),
        ("data/trian.csv", ["data/train.csv"], "data/train.csv"),
        ("train.csv", ["inputs/raw/train.csv", "venv/train.csv", ".old/train.csv"], "inputs/raw/train.csv"),
        ("train.csv", ["a/train.csv", "b/train.csv"], ""),
        ("dta/train.csv", ["data/train.csv", "data2/train.csv"], "data/train.csv"),
        ("data/part1.csv", ["data/part2.csv"], ""),
        ("data/train.csv", ["data/train.jsonl", "data/val.csv"], ""),
        ("../else/train.csv", ["data/else.csv"], ""),
    ],
)
def test_one_file_is_like_a_missing_one(tmp_path: Path, text: str, there: list[str], meant: str) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n1\n")
    assert similar(text, tmp_path) == meant
    assert similar(str(tmp_path / text), tmp_path) == (meant and str(tmp_path / meant))


@pytest.mark.parametrize(
    ("command", "config", "place"),
    [
        ("python t.py --data dta/x.csv", None, "the launch command: --data"),
        ("python t.py config.yaml", "data: {train_csv: dta/x.csv}\n", "config.yaml: data.train_csv"),
        ("python t.py --conf own.yaml", None, "own.yaml: data.file"),
    ],
)
def test_a_misspelt_path_stops_the_launch_with_the_edit(
    tmp_path: Path, command: str, config: str | None, place: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("a\n1\n")
    (tmp_path / "own.yaml").write_text("data: {file: dta/x.csv}\noutput_file: out/x.csv\n")
    [found] = paths.inputs(launch(tmp_path, command, config))
    assert found.severity == "problem" and f"{place} dta/x.csv → data/x.csv" in found.fix
    [cause] = outcome([found]).causes
    remedies = remedies_for(cause.remedies, Situation(cause, config or "", {}))
    if place.startswith("own.yaml"):  # no config of the run's: only a person can edit it
        assert not remedies
        return
    [edit] = repair_plan.actions_of(remedies[0], cause)
    assert isinstance(edit, AskPerson) and list(edit.changes.values()) == ["data/x.csv"]


def test_what_the_blueprint_names(tmp_path: Path) -> None:
    assert bad(paths.surroundings(launch(tmp_path, "python t.py", "a: 1\n"))) == []
    assert bad(paths.surroundings(launch(tmp_path / "none"))) == GONE
    for text in ("a: 1\n\tb: 2\n", "a: [1, 2\n", "a: 1\na: 2\n", "- 1\n"):
        found = list(paths.surroundings(launch(tmp_path, "python t.py config.yaml", text)))
        assert bad(found) == [("problem", "config_error")], text
    (tmp_path / "results").write_text("")
    assert bad(paths.surroundings(launch(tmp_path))) == REFUSED
