"""How Trinity is looked for, started and ended; in its place stands a program that says what it is told."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainer_core.backbone.main import train
from trainer_core.backbone.trinity import look, read_task
from trainer_core.config.schema import Config
from trainer_core.types import TrainingError

FOUND = {"version": "0.6.0", "ray": [2, 60], "gpus": 2, "vllm": True, "problem": None}
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Makes an interpreter that answers `check` with the given, and `run` by a line of shell; a Ray beside it
    notes its process id."""

    def made(run: str = "true", ray: bool = True, **found: Any) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        answer = json.dumps(FOUND | found)
        programs = {"python": f"case \"$3\" in check) echo noise; echo '{answer}';; run) {run};; esac"}
        if ray:
            programs["ray"] = f'case "$1" in start) echo $$ > {tmp_path}/pid; exec sleep 600;; esac'
        for name, lines in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
            (folder / name).chmod(0o755)
        return folder / "python"

    return made


def config(tmp_path: Path, python: Path | str | None, **common: Any) -> Config:
    tree = {
        "backbone": "trinity",
        "experiment_dir": str(tmp_path / "run"),
        "model": {"path": str(tmp_path)},
        "task_reader": {"type": "builtin", "builtin": {"digits": 2, "num_validation_tasks": 4}},
        "data": {"train_batch_size": 8},
        "trainer_common": {"trinity_python": python and str(python), "n_gpus_per_node": 2, **common},
    }
    return Config.model_validate({"ajet": tree})


def test_a_look_says_whether_trinity_has_seen_it(tmp_path: Path, install: Install) -> None:
    looked = look(config(tmp_path, install()), 3)
    assert looked["checked"] == f"validated by Trinity-RFT 0.6.0 at {tmp_path}/bin/python"
    assert looked["config"]["trainer"]["total_steps"] == 3
    assert (
        "not validated: there is no interpreter /no/python"
        in look(config(tmp_path, "/no/python"), 3)["checked"]
    )


def test_a_look_where_trinity_is_not_installed(tmp_path: Path) -> None:
    checked = look(config(tmp_path, None), 3)["checked"]
    assert checked.startswith(f"not validated: trinity is not installed at {sys.executable}")


def test_a_look_tells_what_trinity_refuses(tmp_path: Path, install: Install) -> None:
    with pytest.raises(TrainingError, match=r"Trinity-RFT 0\.6\.0 refuses the configuration: no such key"):
        look(config(tmp_path, install(problem="no such key")), 3)


def test_everything_that_is_missing_is_named_at_once(
    tmp_path: Path, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    python = install(ray=False, gpus=1, vllm=False)
    assert train(config(tmp_path, python, nnodes=2)) == 1
    told = capsys.readouterr().err
    for number, each in enumerate(
        ("vLLM is not", "no `ray` beside", "2 GPUs and 1 are", "--with-ray-cluster"), 1
    ):
        assert each in told.split(f"\n  {number}. ")[1]
    assert str(tmp_path / "run" / "trinity.yaml") in told


def test_it_is_followed_to_its_end_and_nothing_is_left(
    tmp_path: Path, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    python = install('echo "step:1 - loss:0.5 $RAY_ADDRESS" "$4"')
    assert train(config(tmp_path, python)) == 0
    said, run = capsys.readouterr().out, tmp_path / "run"
    assert "step:1 - loss:0.5 127.0.0.1:" in said
    assert f"{run}/trinity.yaml" in said
    rows = [json.loads(line) for line in (run / "tasks" / "train.jsonl").read_text().splitlines()]
    assert read_task(rows[0]["task"]).main_query
    assert len((run / "tasks" / "test.jsonl").read_text().splitlines()) == 4
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_its_failure_is_ours_and_its_last_lines_are_told(
    tmp_path: Path, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(config(tmp_path, install("echo the engine died; exit 3"))) == 1
    assert "Trinity failed" in (told := capsys.readouterr().err)
    assert "the engine died" in told


def test_a_signal_ends_it_with_all_it_started(tmp_path: Path, install: Install) -> None:
    python = install(f"echo $$ > {tmp_path}/trinity; exec sleep 600")
    (tmp_path / "config.json").write_text(
        config(tmp_path, python).model_dump_json(exclude={"hydra", "defaults"})
    )
    program = (
        "import sys; from trainer_core.backbone.main import train; from trainer_core.config import Config; "
        f"sys.exit(train(Config.model_validate_json(open('{tmp_path}/config.json').read())))"
    )
    process = psutil.Popen([sys.executable, "-c", program], env={**os.environ})
    deadline = time.monotonic() + 60
    while not (started := tmp_path / "trinity").is_file() or not started.read_text():
        assert time.monotonic() < deadline and process.is_running()
        time.sleep(0.05)
    process.terminate()
    assert process.wait(60) == 143
    assert not any(psutil.pid_exists(int((tmp_path / name).read_text())) for name in ("trinity", "pid"))
