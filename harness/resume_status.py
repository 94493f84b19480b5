"""What became of a run's training while nobody watched it, and what resuming will do about it, in a sentence.

In: the state that the journal gives, and a look at the newest attempt's files. Out: words for people;
nothing is decided or changed here.
"""

from dataclasses import replace
from pathlib import Path

from harness.actions import Launch
from harness.attempt import AttemptEnd, Diagnosis
from harness.guard import rules as guard
from harness.launching import last_checkpoint
from harness.observation import Observation
from harness.state import AttemptState, ExperimentState
from monitors.files import AttemptFiles
from monitors.metrics_file import MetricTable
from monitors.wait import describe


def aftermath(state: ExperimentState, result_dir: Path, now: float) -> str:
    """The sentence for an unfinished run that nobody watches; `now` in seconds since the epoch."""
    if state.finished_at is not None:
        return "it had ended; only its finish.flag was still to be written"
    attempt = state.attempt
    if attempt is None:
        return "no training had been launched yet"
    files = AttemptFiles(result_dir / "attempts" / f"{attempt.number:02d}", known=attempt.supervisor)
    who = f"its training (attempt {attempt.number})"
    if attempt.ended is not None:
        return f"{who} had ended already; what comes after it is left to do"
    found = files.state()
    if found == "running":
        return f"{who} goes on"
    if found == "ended":
        return f"{who} ended meanwhile: {describe(files.exit())}"
    if found == "not_started":
        return f"{who} had not started yet"
    return (
        f"{who} died with the machine, or its supervisor was killed; {_restart(state, attempt, files, now)}"
    )


def _restart(state: ExperimentState, attempt: AttemptState, files: AttemptFiles, now: float) -> str:
    """Whether the guard lets a lost attempt be started again, and from where."""
    _, places = MetricTable.read(files.metrics).placed()
    lost = replace(
        attempt,
        launched_at=attempt.launched_at or now,
        ended=AttemptEnd("lost", last_step=int(places[-1]) if places else None),
        diagnosis=Diagnosis("", "supervisor_lost", "it was lost", transient=True),
    )
    after = replace(state, attempts=(*state.attempts[:-1], lost), pending=None)
    again = Launch(
        attempt=attempt.number + 1, session=attempt.session, attempt_id=attempt.attempt_id, why="it was lost"
    )
    refusal = guard.check(again, Observation(after, now))
    if refusal is not None:
        return f"it is not started again: {refusal}"
    checkpoint = last_checkpoint(files)
    return f"it is started again {f'from checkpoint {checkpoint}' if checkpoint else 'from the beginning'}"
