"""What the loop is told of a running attempt: here with raw files written by hand and a clock that stands."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.agent import monitoring
from harness.agent.monitoring import AttemptMonitor
from harness.attempt import AttemptEnd
from harness.diagnosis import ends
from harness.experiment import Experiment
from harness.journal.events import Waited
from harness.state import AttemptState
from monitors.files import AttemptFiles
from monitors.processes import boot_id, read_process
from monitors.wait import Wake, WakeReason
from tests.harness.agent.world import launch
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
    assert monitor.achieved(AttemptEnd()) == AttemptEnd(rows=26, last_step=9, reached="step 9")
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


# --- what cannot be read ----------------------------------------------------------------------------------


class Typist:
    """A tmux session that is there, and what is typed in it."""

    name = "ajet_x"

    def __init__(self) -> None:
        self.typed: list[str] = []

    def exists(self) -> bool:
        return True

    def type_line(self, line: str) -> None:
        self.typed.append(line)


class Wakes:
    """A waiter that always wakes for this reason."""

    def __init__(self, reason: WakeReason) -> None:
        self.reason = reason

    async def wait(self, deadline: float) -> Wake:
        return Wake(self.reason, "it is time", 1.0)


class Launched:
    """An attempt that was launched, with a supervisor (this process, or one that is dead) or without one, and
    the monitor that watches it; `now` is the experiment's clock."""

    def __init__(self, folder: Path, supervisor: str) -> None:
        self.now = START
        self.experiment = Experiment(folder / "run", lambda: self.now)
        plan = {"metrics": None, "first_step_s": 1200.0, "max_time_s": HOUR}
        record(
            self.experiment, "created", experiment_id="7f3a", name="x", deadline_at=START + HOUR, plan=plan
        )
        launch(self.experiment)
        self.files = self.experiment.attempt_files(1)
        self.files.dir.mkdir(parents=True)
        self.files.script.write_text("")
        if supervisor:
            entry = read_process(os.getpid())
            assert entry is not None
            self.files.started.mkdir()
            ticks = entry.start_ticks + (supervisor == "dead")
            info = {"attempt_id": "7f3a-01", "pid": os.getpid(), "start_ticks": ticks, "boot_id": boot_id()}
            info |= {"started_at": START, "command_started_at": START}
            self.files.supervisor_file.write_text(json.dumps(info))
        self.session = Typist()
        self.watch_again()

    def watch_again(self) -> None:
        """As a harness does that takes the run over."""
        attempt = self.experiment.state.attempt
        assert attempt is not None
        self.monitor = AttemptMonitor(self.experiment, attempt)
        self.monitor._session = self.session

    async def wakes(self, reason: WakeReason = WakeReason.TICK, after_s: float = 0.0) -> Waited:
        self.now += after_s
        self.monitor._waiter = Wakes(reason)
        return await self.monitor.wait()

    def close(self) -> None:
        self.monitor.watch.close()
        self.experiment.close()


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Launched]]:
    monkeypatch.setattr(monitoring, "REFUSED_LOOK_S", 0.0)
    (tmp_path / "run").mkdir()
    made: list[Launched] = []
    yield lambda supervisor: made.append(Launched(tmp_path, supervisor)) or made[0]
    made[0].close()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("gone", ["started", "."])
async def test_what_was_seen_to_run_is_not_given_up_when_its_files_are_gone(
    launched: Callable[[str], Launched], gone: str, again: bool
) -> None:
    attempt = launched("alive")
    await attempt.wakes()
    (attempt.files.dir / gone).resolve().rename(attempt.experiment.dir / "moved")
    if again:
        attempt.watch_again()
    for reason in (WakeReason.TICK, WakeReason.DEADLINE, WakeReason.SESSION_GONE, WakeReason.TICK):
        assert (await attempt.wakes(reason, after_s=400)).ended is None
    assert not attempt.session.typed and not attempt.files.started.exists()


async def test_a_dead_attempt_whose_folder_is_gone_is_not_judged(launched: Callable[[str], Launched]) -> None:
    attempt = launched("dead")
    await attempt.wakes()
    moved = attempt.files.dir.rename(attempt.experiment.dir / "moved")
    attempt.files.dir.mkdir()  # an empty mount point
    for reason in (WakeReason.LOST, WakeReason.EXITED):
        with pytest.raises(FileNotFoundError, match="attempts/01"):
            await attempt.wakes(reason)
    attempt.files.dir.rmdir()
    moved.rename(attempt.files.dir)
    ended = (await attempt.wakes(WakeReason.LOST)).ended
    assert ended is not None and ended.reason == "lost"


async def test_processes_of_a_launch_whose_supervisor_is_not_known_are_left_alone(
    launched: Callable[[str], Launched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a full disk did not take started/supervisor.json."""
    attempt = launched("")
    monkeypatch.setattr(monitoring, "members_of_attempt", lambda attempt_id: {1})
    monkeypatch.setattr(monitoring, "kill_leftovers", lambda attempt_id: pytest.fail("it was killed"))
    attempt.files.started.mkdir()
    assert (await attempt.wakes(WakeReason.LOST)).ended is None


async def test_a_shell_that_starts_slowly_is_waited_for_and_named_when_it_never_comes(
    launched: Callable[[str], Launched],
) -> None:
    attempt = launched("")
    waited = [await attempt.wakes(after_s=30) for _ in range(19)]
    assert not any(each.ended for each in waited)
    assert 0 < len(attempt.session.typed) < 6
    ended = (await attempt.wakes(after_s=60)).ended
    assert ended is not None and ended.reason == "not_started"
    found = ends.read(ended)
    assert "The line that starts the training was never run: the shell in tmux session" in found.cause
    assert not found.transient
