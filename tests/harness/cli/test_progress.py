"""What the live lines of a run say: positions as they are, and the metrics that this run has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli.progress import _Look, _table, figures
from harness.cli.standing import sparkline
from harness.journal import Entry
from harness.journal.events import AttemptEvent
from harness.state import AttemptState
from monitors.metrics import Row
from monitors.rows import Rows
from tests.harness.cli.test_standing import write_running
from tests.harness.runs import state_with


def seen(*rows: Row, purpose: str = "", total: int | None = None) -> dict[str, str]:
    """The figures of a run whose watch has seen these rows."""
    found = Rows()
    for row in rows:
        found.add(row)
    attempt = AttemptState(1, "ajet_x-01", "a-1", "first", launched_at=1.0)
    state = state_with({"purpose": purpose}, attempts=(attempt,), created_at=0.0, deadline_at=100.0)
    watch = SimpleNamespace(rows=found, last_line="busy")
    monitor: Any = SimpleNamespace(watch=watch, total=total, remaining_s=lambda now: None)
    experiment = SimpleNamespace(state=state, clock=lambda: 60.0)
    executor: Any = SimpleNamespace(experiment=experiment, current_monitor=monitor)
    return figures(executor)


def test_d16_a_supervised_run_shows_its_loss_and_the_leading_metric_with_its_best() -> None:
    rows = [
        Row(None, {"loss": 1.5 / at, "val_acc": acc}, float(at)) for at, acc in ((1, 0.5), (2, 0.9), (3, 0.8))
    ]
    now = seen(*rows)
    assert now["position"] == "epoch 3"
    assert (now["training"], now["leading"]) == ("loss 0.5", "val_acc 0.8 (best so far 0.9)")


def test_d16_nothing_is_shown_that_the_run_does_not_have() -> None:
    now = seen(Row(1, {"loss": 2.0}))
    assert (now["position"], now["training"], now["leading"]) == ("step 1", "", "loss 2")
    assert seen(Row(1, {"reward": 0.5}))["training"] == ""
    assert seen()["position"] == "–"
    assert seen(Row(1, {"speed": 2.0}))["leading"] == ""


@pytest.mark.parametrize("value", [1e308, -1e308, float("nan"), float("inf"), 1e-320, -5.0])
def test_no_number_breaks_the_display(value: float) -> None:
    now = seen(*(Row(at * 10**17, {"reward": value, "loss": -value}) for at in (1, 2)))
    assert all(len(words) < 80 for words in now.values())
    assert len(sparkline([value, -value, 1.0])) == 3


def test_the_metric_that_the_purpose_names_leads_while_it_runs() -> None:
    values = {"loss": 1.0, "eval_loss": 0.5, "eval_accuracy": 0.75}
    assert seen(Row(4, values), purpose="How low does eval_loss get?")["leading"] == "eval_loss 0.5"


@pytest.mark.parametrize(
    ("rates", "words"), [([0.25], "pass rate 0.250"), ([0.25, 0.5], "pass rate 0.250 → 0.500")]
)
def test_the_bundled_trainer_shows_reward_and_pass_rate(rates: list[float], words: str) -> None:
    rows = [
        Row(at, {"critic/rewards/mean": 0.5, "val/task_pass_rate@1": rate}) for at, rate in enumerate(rates)
    ]
    now = seen(*rows, total=40)
    assert (now["training"], now["leading"]) == ("reward 0.500", words)
    assert now["position"] == f"step {len(rates) - 1} of 40"


def test_the_picture_has_the_facts_of_show_and_reads_the_files_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_running(tmp_path)
    attempt = AttemptState(1, "ajet_x-01", "x-01", "first", launched_at=1.0)
    plan = {"purpose": "How low is val_loss?"}
    state = state_with(plan, attempts=(attempt,), created_at=0.0, deadline_at=100.0)
    nan = Entry(1, 1.0, AttemptEvent(1, "nan", 1.0, "val_loss is nan", 7))
    experiment = SimpleNamespace(
        state=state, clock=lambda: 60.0, dir=tmp_path, journal=SimpleNamespace(entries=[nan])
    )
    executor: Any = SimpleNamespace(experiment=experiment, current_monitor=None)
    look = _Look(executor)
    told = look()
    assert (
        told["alarms"] == "val_loss is nan" and told["uses"].startswith("CPU 187 %") and "▁" in told["course"]
    )
    rows = _table(figures(executor) | told).columns[0].cells
    assert {"course", "alarms", "uses"} <= set(rows)
    monkeypatch.setattr("harness.cli.progress.of_experiment", None)
    assert look() is told, "the files are not read again at once"
