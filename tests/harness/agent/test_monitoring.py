"""What the loop is told of a running attempt: here with raw files written by hand and a clock that stands."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.agent.monitoring import AttemptMonitor
from harness.experiment import Experiment
from harness.state import AttemptState
from monitors.files import AttemptFiles
from monitors.processes import boot_id, read_process
from tests.harness.runs import record

START = 1_000_000.0
HOUR = 3600.0
CONFIG = "ajet:\n  trainer_common:\n    total_training_steps: 10\n"


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[Experiment]:
    made = Experiment(tmp_path, lambda: START)
    plan = {"metrics": None, "first_step_s": 1200.0, "max_time_s": 10 * HOUR}
    record(made, "created", experiment_id="7f3a", name="x", deadline_at=START + 10 * HOUR, plan=plan)
    yield made
    made.close()


def attempt_of(experiment: Experiment, config: str | None = None) -> tuple[AttemptState, AttemptFiles]:
    """An attempt with an exit record, so that `ended` reads what there is and has nothing to kill."""
    files = experiment.attempt_files(1)
    files.trainer.mkdir(parents=True)
    files.started.mkdir()
    record = {"attempt_id": "a", "pid": 1, "started_at": START, "command_started_at": START}
    files.supervisor_file.write_text(json.dumps(record))
    files.exit_file.write_text(json.dumps({"attempt_id": "a", "reason": "exited", "status": 0}))
    if config is not None:
        files.config.write_text(config)
    return AttemptState(1, "ajet_x", "a", "first", launched_at=START), files


def test_healthy_attempt_whose_steps_are_known(experiment: Experiment) -> None:
    attempt, files = attempt_of(experiment, CONFIG)
    files.trainer_metrics.write_text('{"step": 4, "loss": 0.5}\n')
    monitor = AttemptMonitor(experiment, attempt)
    assert monitor.health(attempt, START + 9 * HOUR).second_half is False
    monitor.ended()
    health = monitor.health(attempt, START + 9 * HOUR)
    assert (health.fatal, health.plateau, health.second_half) == ((), None, False)
    with files.trainer_metrics.open("a") as file:
        file.write('{"step": 5, "loss": 0.5}\n')
    monitor.ended()
    assert monitor.health(attempt, START + 1).second_half is True
    monitor.watch.close()


async def test_an_attempt_is_not_lost_before_its_long_log_is_read_to_its_end(experiment: Experiment) -> None:
    attempt, files = attempt_of(experiment)
    files.exit_file.unlink()
    entry = read_process(os.getpid())
    assert entry is not None
    record = {"attempt_id": "a", "pid": os.getpid(), "start_ticks": entry.start_ticks, "boot_id": boot_id()}
    record |= {"started_at": START, "command_started_at": START}
    files.supervisor_file.write_text(json.dumps(record))
    broken = "".join(f"step:{step} - loss:nan\n" for step in range(5))
    files.pane_log.write_text(f"{broken}{'noise ' * 20_000}\n" * 5 + "step:9 - loss:0.5\n")
    monitor = AttemptMonitor(experiment, attempt)
    waiting = asyncio.ensure_future(monitor.wait())
    judged = []
    while not waiting.done():
        await asyncio.sleep(0)
        judged.append(monitor.health(attempt, START + 1).fatal)
    assert len(judged) > 3 and set(judged) == {()}
    assert monitor.achieved() == (26, 9, "step 9")
    monitor.watch.close()


def test_foreign_attempt_is_judged_by_its_time_and_its_console(experiment: Experiment) -> None:
    attempt, files = attempt_of(experiment)
    flat = "".join(f"step:{step} - val/task_pass_rate@1:0.5\n" for step in range(1, 8))
    files.pane_log.write_text(flat + "".join(f"step:{step} - loss:nan\n" for step in (8, 9, 10)))
    monitor = AttemptMonitor(experiment, attempt)
    monitor.ended()
    early, late = (monitor.health(attempt, START + hours * HOUR) for hours in (4, 6))
    assert (early.second_half, late.second_half) == (False, True)
    assert early.plateau is not None and "0.5 at step 7" in early.plateau
    assert len(early.fatal) == 1 and "line 10 of pane.log" in early.fatal[0]
    monitor.watch.close()
