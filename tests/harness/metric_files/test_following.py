"""Rows of files that a training writes, as a watch follows them: which file, since when, what is kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.metric_files import FollowedFiles, remember, source_in
from harness.metric_files.discovery import written_by
from monitors.files import AttemptFiles
from monitors.processes import ATTEMPT_VARIABLE
from monitors.watch import Watch
from tests.harness.metric_files.test_readers import read
from tests.monitors.metric_records import read_metrics

WRITTEN = Path(__file__).parent / "written"
LAUNCHED = 1_000_000.0


class Training:
    """A codebase, an attempt that was launched in it, and the time there."""

    def __init__(self, folder: Path, named: str = "", wanted: str = "") -> None:
        self.code = folder / "code"
        self.code.mkdir()
        self.files = AttemptFiles(folder / "attempts" / "01")
        self.files.started.mkdir(parents=True)
        record = {"attempt_id": "a", "pid": 1, "started_at": LAUNCHED, "command_started_at": LAUNCHED}
        self.files.supervisor_file.write_text(json.dumps(record))
        self.files.pane_log.write_text("downloading data\n")
        os.utime(self.files.pane_log, (LAUNCHED, LAUNCHED))
        self.now = LAUNCHED + 10
        self.is_shared = False
        place = (self.files, self.code, named, wanted)
        self.followed = FollowedFiles(*place, lambda since: self.is_shared, clock=lambda: self.now)
        self.watch = Watch(self.files, clock=lambda: self.now, other_rows=self.followed)

    def write(self, name: str, text: str, at: float | None = None) -> None:
        """Append to a file of the codebase."""
        path = self.code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        when = self.now if at is None else at
        os.utime(path, (when, when))

    def poll(self, final: bool = False) -> list[str]:
        self.now += 60
        return [event.kind for event in self.watch.poll(final)]

    @property
    def rows(self) -> list[dict[str, object]]:
        return read_metrics(self.files.metrics)

    @property
    def places(self) -> list[tuple[str, int]]:
        """File and line that each row was taken from."""
        sources = [row["source"] for row in self.rows]
        return [(source["file"], source["line"]) for source in sources]  # type: ignore[index]


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    made = Training(tmp_path)
    yield made
    made.watch.close()


def test_a_table_is_followed_as_it_grows(training: Training) -> None:
    assert training.poll() == []
    training.write("runs/metrics.csv", "step,train_loss,val_acc\n1,0.5,\n")
    assert training.poll() == ["first_step"]
    training.write("runs/metrics.csv", "2,,0.25\n")
    assert training.poll() == []
    assert training.watch.rows.values == {"train_loss": 0.5, "val_acc": 0.25}
    assert training.places == [("metric_source/metrics.csv", 2), ("metric_source/metrics.csv", 3)]
    assert training.watch.next_look == training.now + 5


def test_a_training_that_writes_to_its_file_is_not_silent(training: Training) -> None:
    for step in range(1, 90):  # a row a minute, and nothing in the log
        training.write("log.jsonl", f'{{"step": {step}, "loss": 0.5}}\n')
        assert "hang" not in training.poll()
    assert training.watch.rows.count == 89
    assert any("hang" in training.poll() for _ in range(31))


def test_lasting_nan_is_fatal_and_names_the_file(training: Training) -> None:
    training.write("log.jsonl", '{"step": 0, "loss": 0.5}\n')
    training.write("log.jsonl", "".join(f'{{"step": {step}, "loss": NaN}}\n' for step in range(1, 80)))
    training.poll()
    (why,) = training.watch.fatal(training.now)
    assert "line 2 of metric_source/log.jsonl" in why


def test_nan_in_a_file_is_told_while_it_runs(training: Training) -> None:
    training.write("log.jsonl", '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": NaN}\n')
    assert training.poll() == ["first_step", "nan"]


def test_rows_of_the_log_count_before_those_of_files_and_are_never_mixed_with_them(
    training: Training,
) -> None:
    training.write("metrics.csv", "step,loss\n1,0.5\n2,0.4\n")
    training.poll()
    assert len(training.rows) == 2
    with training.files.pane_log.open("a") as log:
        log.write("step:7 - loss:0.125\n")
    training.poll()
    training.write("metrics.csv", "3,0.3\n")
    training.poll(final=True)
    assert [(row["step"], row["source"]) for row in training.rows] == [(7, {"file": "pane.log", "line": 2})]
    assert source_in(training.files.dir / "metric_source") is None


def test_at_the_end_the_file_with_most_rows_is_taken_and_copied(training: Training) -> None:
    training.write("early.csv", "step,loss\n1,0.5\n")
    training.poll()
    training.write("results/all.jsonl", "".join(f'{{"step": {step}, "loss": 0.5}}\n' for step in range(5)))
    training.poll()
    assert {file for file, _ in training.places} == {"metric_source/early.csv"}  # it keeps to the first
    training.poll(final=True)
    assert training.places == [("metric_source/all.jsonl", line) for line in range(1, 6)]
    copied = source_in(training.files.dir / "metric_source")
    assert copied is not None and [row.step for _, _, row in copied.rows()] == [0, 1, 2, 3, 4]
    assert (training.files.dir / "metric_source/all.jsonl").stat().st_mode & 0o777 == 0o600
    training.poll(final=True)
    assert len(training.rows) == 5


def test_what_the_training_did_not_write_does_not_count(training: Training) -> None:
    rows = "step,loss\n1,0.5\n"
    training.write("old.csv", rows, at=LAUNCHED - 100)
    for name in (".git/a.csv", ".venv/a.csv", "node_modules/a.csv", "exp_results/x/a.csv", "env9/a.csv"):
        training.write(name, rows)
    training.write("env9/pyvenv.cfg", "")
    training.write("other_run/journal.jsonl", '{"step": 1, "loss": 1}\n')
    training.write("other_run/attempts/01/metrics.jsonl", '{"step": 1, "loss": 1}\n')
    (training.files.dir / "resources.jsonl").write_text('{"step": 1, "loss": 1}\n')
    assert training.poll(final=True) == []
    assert training.watch.rows.count == 0


def test_tables_and_json_lines_of_other_things_are_no_metrics(training: Training) -> None:
    training.write("predictions.jsonl", '{"id": 1, "score": 0.5, "text": "a"}\n' * 50)
    training.write("data.csv", "x,y,label\n1,2,0\n" * 50)
    training.write("sizes.csv", "step,bytes\n1,5\n")
    training.poll(final=True)
    assert training.watch.rows.count == 0


def test_rows_of_earlier_runs_in_a_file_that_is_appended_to_are_left_out(training: Training) -> None:
    training.write("log.jsonl", '{"step": 1, "loss": 9}\n{"step": 2, "loss": 9}\n', at=LAUNCHED - 100)
    training.write("again.csv", "step,loss\n1,9\n", at=LAUNCHED - 100)
    remember(training.files.dir, training.code)
    training.write("log.jsonl", '{"step": 1, "loss": 0.5}\n')
    training.poll()
    assert training.places == [("metric_source/log.jsonl", 3)]
    (training.code / "again.csv").write_text(
        "step,loss\n1,0.5\n2,0.4\n3,0.3\n"
    )  # written anew, not appended to
    os.utime(training.code / "again.csv", (training.now, training.now))
    training.poll(final=True)
    assert training.places == [("metric_source/again.csv", line) for line in (2, 3, 4)]


def test_the_file_that_the_plan_names_counts_and_the_log_does_not(tmp_path: Path) -> None:
    training = Training(tmp_path, named="out/*.csv")
    training.write("metrics.csv", "step,loss\n" + "1,0.5\n" * 9)
    training.write("out/mine.csv", "it,quality\n1,0.5\n")
    with training.files.pane_log.open("a") as log:
        log.write("step:7 - loss:0.125\n")
    training.poll(final=True)
    assert training.places == [("metric_source/mine.csv", 2)]
    assert training.rows[0]["values"] == {"it": 1.0, "quality": 0.5}


def test_event_files_of_training_and_validation_are_one_source(training: Training) -> None:
    (events,) = WRITTEN.glob("events*")
    for side in ("train", "validation"):
        folder = training.code / "logs" / side
        folder.mkdir(parents=True)
        shutil.copy(events, folder / events.name)
        os.utime(folder / events.name, (training.now, training.now))
    training.poll(final=True)
    assert training.followed.source is not None
    assert training.followed.source.place == training.code / "logs"
    assert {"train/loss/train", "validation/loss/train"} <= set(training.watch.rows.values)
    copied = source_in(training.files.dir / "metric_source")
    assert copied is not None
    copy = training.files.dir / "metric_source" / "validation" / events.name
    assert read(copy)[0][1].values.keys() == {"validation/loss/train"}  # as anybody reads it later
    assert repr([row.values for *_, row in copied.rows()]) == repr([row["values"] for row in training.rows])


def test_of_a_trainers_checkpoints_the_newest_state_counts(training: Training) -> None:
    state = json.loads((WRITTEN / "hf/trainer_state.json").read_text())
    for step, entries in ((8, 3), (16, 6)):
        shorter = {**state, "log_history": state["log_history"][:entries]}
        training.write(f"out/checkpoint-{step}/trainer_state.json", json.dumps(shorter, indent=2))
        training.poll()
        assert len(training.rows) == entries
    assert training.watch.rows.values["eval_accuracy"] == 0.875
    training.poll(final=True)
    assert len(training.rows) == 6


def test_where_others_train_too_only_what_this_training_has_open_counts(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: set[Path] = set()
    monkeypatch.setattr("harness.metric_files.following.written_by", lambda attempt_id: own)
    training.is_shared = True
    training.write("theirs.csv", "step,loss\n" + "1,9\n" * 9)
    training.write("ours.csv", "step,loss\n1,0.5\n")
    training.poll()
    assert training.watch.rows.count == 0
    own.add(training.code / "ours.csv")
    training.poll()
    training.poll(final=True)
    assert training.places == [("metric_source/ours.csv", 2)]
    beside = training.files.dir / "out.csv"
    beside.write_text("step,loss\n1,0.5\n2,0.4\n")
    os.utime(beside, (training.now, training.now))
    training.poll(final=True)
    assert training.places == [("metric_source/out.csv", 2), ("metric_source/out.csv", 3)]


def test_the_files_that_a_training_has_open_are_found(tmp_path: Path) -> None:
    code = "import sys; r = open(sys.argv[1]); w = open(sys.argv[2], 'a'); print(flush=True); input()"
    read, written = tmp_path / "data.csv", tmp_path / "metrics.csv"
    read.touch()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(read), str(written)],
        env={**os.environ, ATTEMPT_VARIABLE: "files-7f3a"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as training:
        assert training.stdout is not None and training.stdout.readline()
        found = written_by("files-7f3a")
        training.communicate(b"\n")
    assert written in found and read not in found
