"""What `harness show` and `harness ls` tell of a run that goes on."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from harness import index
from harness.attempt import AttemptEnd
from harness.blueprint import read
from harness.cli.columns import fitted
from harness.cli.standing import sparkline, standing
from harness.journal import Journal
from harness.journal.events import AttemptEvent, Created, Intent, Launched, Waited
from harness.state import AttemptState
from tests.harness.cli.typed import typed

LAUNCH = {"attempt": 1, "session": "ajet_x-01", "attempt_id": "x-01", "why": "w"}
SAMPLE = {"time": 1.0, "cpu_percent": 187.4, "rss_bytes": 3 << 29}
GPU = {"index": 0, "name": "H", "busy_percent": 93.0, "memory_used_bytes": 20 << 30}


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """A run in the middle of its first attempt, with two alarms."""
    folder = tmp_path / "digits"
    folder.mkdir()
    (folder / "plan.md").write_text("## [exp_purpose]\nIs the validation loss lower?\n")
    with Journal(folder / "journal.jsonl", time.time) as journal:
        plan = read(folder / "plan.md")
        journal.append(Created("0123456789ab", "digits", time.time() + 60, "playbook", plan))
        journal.append(Intent("launch", LAUNCH))
        journal.append(Launched(time.time(), "train"))
        for kind in ("first_step", "nan", "nan"):
            journal.append(AttemptEvent(1, kind, time.time(), f"{kind} at step 7", 7))
    index.add(index.IndexedRun("0123456789ab", "digits", str(folder), time.time()))
    write_running(folder)
    return folder


def write_running(folder: Path) -> None:
    """What the first attempt has written so far."""
    attempt = folder / "attempts" / "01"
    attempt.mkdir(parents=True, exist_ok=True)
    rows = [{"loss": 9.0, "val_loss": float("nan") if n == 7 else 1 / (n + 1)} for n in range(30)]
    write_lines(attempt / "metrics.jsonl", [{"step": n, "values": row} for n, row in enumerate(rows)])
    write_lines(attempt / "resources.jsonl", [SAMPLE | {"gpus": [GPU]}])
    (attempt / "config.yaml").write_text("ajet: {trainer_common: {total_training_steps: 60}}\n")
    (attempt / "pane.log").write_text("first\n\x1b[31mepoch 1\x1b[0m\n 10%|#   | 1/9\r 20%|##  | 2/9")


def test_show_of_a_running_run_tells_how_it_goes(running: Path) -> None:
    lines = typed("show", "digits")[1].splitlines()[1:]
    facts = {line[:10].strip(): line[10:] for line in lines}
    assert facts["step"] == "step 29 of 60"
    assert facts["metric"].startswith("val_loss 0.03333 █▄") and "×" in facts["metric"]
    assert facts["alarm"] == "nan at step 7" and facts["log"] == "20%|## | 2/9"
    assert facts["uses"] == "CPU 187 %, memory 1.5 GiB, GPU 0 93 % 20.0 GiB"
    assert facts["rows"] == "step 27, loss 9, val_loss 0.03571" and "to the time limit" in facts["left"]
    told = json.loads(typed("show", "digits", "--json")[1])["now"]
    assert told["values"][7] is None and told["rows"][-1]["step"] == 29 and told["goal"] == "min"


def test_an_attempt_whose_folder_is_there_again_is_no_alarm(running: Path) -> None:
    with Journal(running / "journal.jsonl", time.time) as journal:
        journal.append(AttemptEvent(1, "folder_gone", time.time(), "it is gone"))
    assert "! nan" in typed("ls")[1] and "gone" not in typed("ls")[1]
    (running / "attempts").rename(running / "away")
    assert "! it is gone" in typed("ls")[1]


def test_show_tells_how_an_attempt_ended_that_left_no_status(running: Path) -> None:
    with Journal(running / "journal.jsonl", time.time) as journal:
        journal.append(Intent("wait"))
        journal.append(Waited("lost", ended=AttemptEnd("lost")))
    assert "ajet_x-01  lost\n" in typed("show", "digits")[1]


def test_ls_tells_it_in_a_line_below_the_run(running: Path) -> None:
    _, first, second = typed("ls")[1].splitlines()
    assert "0.033 val_loss" in first and first.split()[3] != "finished"
    assert "CPU 187 %" in second and "! nan at step 7" in second and "2/9" in second
    (row,) = json.loads(typed("ls", "--json")[1])
    assert (row["metric"], row["now"]["alarms"]) == ("val_loss", ["nan at step 7"])


def test_ls_tells_the_epoch_or_the_row_where_no_step_is_named(running: Path) -> None:
    metrics = running / "attempts" / "01" / "metrics.jsonl"
    for epochs, told in (((1.0, 2.5, 3), "epoch 3"), ((None, None), "row number 2")):
        rows = [{"step": None, "epoch": epoch, "values": {"val_loss": 0.5}} for epoch in epochs]
        write_lines(metrics, rows)
        assert f"  {told}  " in typed("ls")[1].splitlines()[1]
        (row,) = json.loads(typed("ls", "--json")[1])
        assert (row["step"], row["position"], row["now"]["position"]) == (None, told, told)


def test_batches_of_a_validation_are_no_steps(running: Path) -> None:
    rows = [
        {"step": 15, "epoch": 4.0, "values": {"loss": 0.1}, "steps_per_epoch": 16},
        {"step": 3, "epoch": None, "values": {"test/loss": 0.5}, "steps_per_epoch": 3, "split": "test"},
    ]
    write_lines(running / "attempts" / "01" / "metrics.jsonl", rows)
    assert "step      step 15 of 60, epoch 4" in typed("show", "digits")[1]


def test_the_time_left_is_that_of_the_steps_left(running: Path) -> None:
    started = running / "attempts" / "01" / "started"
    started.mkdir()
    about = {"attempt_id": "x-01", "pid": 1, "boot_id": "another", "command_started_at": 1000.0}
    (started / "supervisor.json").write_text(json.dumps(about))
    attempt = AttemptState(1, "s", "x-01", "w", launched_at=1000.0)
    assert standing(running, read(running / "plan.md"), attempt, [], 1300.0).left_s == pytest.approx(310)


def test_of_a_large_file_samples_of_the_whole_are_read(running: Path) -> None:
    records = [{"step": n, "values": {"val_loss": float(n), "pad": "x" * 90}} for n in range(100_000)]
    write_lines(running / "attempts" / "01" / "metrics.jsonl", records)
    attempt = AttemptState(1, "s", "x-01", "w", launched_at=1000.0)
    seen = standing(running, read(running / "plan.md"), attempt, [], 1300.0)
    assert (seen.values[0], seen.values[-1]) == (0, 99_999) and 1000 < len(seen.values) < 50_000
    assert sparkline(seen.values, 8) == "▁▂▃▄▅▆▇█"


def test_the_course_of_a_metric_in_a_line() -> None:
    assert sparkline([3.0]) == sparkline([5.0, 5.0])[:1] == "▁"
    assert sparkline([0, 1, float("inf"), 2, 7]) == "▁▂×▃█" and sparkline([]) == ""


ROWS = [(f"run-{n}", "done", f"/results/run-{n}") for n in range(20)]
TITLES = ("run", "state", "folder")
WIDE = ("x" * 70, "y" * 90, "/results/" + "z" * 90)


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_a_list_is_no_wider_than_the_terminal(width: int) -> None:
    lines = fitted([*ROWS, WIDE, ("  a line by itself " * 20,)], TITLES, width)
    assert max(map(len, lines)) <= width and len(lines) == len(ROWS) + 3
    assert lines[-2].endswith("z") and "…" in lines[-2]


def test_one_wide_row_does_not_widen_all_and_nothing_is_cropped_off_a_terminal() -> None:
    lines = fitted([*ROWS, WIDE], TITLES, None)
    assert lines[:-1] == fitted(ROWS, TITLES, None) and lines[-1].split() == list(WIDE)


def test_a_narrow_terminal_does_without_what_matters_least() -> None:
    assert fitted(ROWS, TITLES, 24, ["state"])[1].split() == ["run-0", "/results/run-0"]
