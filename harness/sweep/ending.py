"""The end of a sweep: the report, the outcome, and finish.flag, each found again after a crash in between.

In: a sweep whose runs are all over. Out: a `Verdict`, in the journal and in finish.flag.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from harness.environment import known_secrets
from harness.journal.events import Finish
from harness.redaction import Secrets
from harness.state import Outcome, Verdict
from harness.sweep.events import SweepReported
from harness.sweep.state import RunState, Sweep, SweepState
from harness.wording import listed

Reporter = Callable[[Sweep], Awaitable[SweepReported]]
"""Builds the report; returns what the journal keeps of it."""

SUCCESSES = ("succeeded", "succeeded_with_changed_code", "stopped_early")
"""Outcomes of a run that did what it was to do."""
MOST_NAMED = 6


async def finish(sweep: Sweep, reporter: Reporter | None) -> Verdict:
    """Report, record the end, write finish.flag; returns how the sweep ended."""
    if sweep.state.reported is None and reporter is not None:
        sweep.record(await reporter(sweep))
    if sweep.state.verdict is None:
        judged = verdict(sweep.state)
        sweep.record(Finish(judged.outcome, judged.reason))
    seal(sweep)
    assert sweep.state.verdict is not None
    return sweep.state.verdict


def verdict(state: SweepState) -> Verdict:
    """How a sweep ended whose runs are all over: `succeeded` only when every planned run did."""
    runs = state.compared
    unusable = tuple(run for run in runs if run.outcome not in SUCCESSES)
    if state.stop_asked:
        return Verdict(Outcome.CANCELLED, f"stopped by {state.stop_asked}; {_tally(runs)}")
    if not unusable and not state.closing:
        return Verdict(Outcome.SUCCEEDED, _tally(runs))
    is_out_of_time = all(
        run.outcome == "timed_out" or (run.status == "not_run" and state.is_out_of_budget) for run in unusable
    )
    outcome = Outcome.TIMED_OUT if is_out_of_time else Outcome.FAILED
    reason = f"{state.closing}; {_tally(runs)}" if state.closing else _tally(runs)
    failed = [run.name for run in unusable if run.status == "ended"]
    return Verdict(outcome, f"{reason} ({listed(failed, MOST_NAMED)})" if failed else reason)


def ending(state: SweepState) -> tuple[str, str]:
    """Outcome and reason as a report has them; "" and where it stands while runs are still to end."""
    if state.verdict is None and (state.of("queued") or state.of("running")):
        running = len(state.of("running"))
        return "", f"not finished ({state.phase}): {_tally(state.compared)}, {running} running"
    judged = state.verdict or verdict(state)
    return judged.outcome.value, judged.reason


def seal(sweep: Sweep) -> None:
    """Write finish.flag, the last file of a finished sweep, unless it is there."""
    from harness.results.manifest import fingerprints

    folder, state = sweep.folder, sweep.state
    if folder.finish_flag.exists():
        return
    own = [folder.blueprint, folder.spec, folder.plan, folder.journal, folder.proposal, folder.transcript]
    shared = [*sorted(folder.snapshot.glob("*.json")), *sorted(folder.dir.glob("plan/*/*"))]
    shared += sorted(folder.dir.glob("next/*"))
    ends = [folder.result_dir(name) / "finish.flag" for name in state.runs]
    manifest = fingerprints(folder.dir, [*own, *shared, *ends])
    sweep.write_finish_flag({**sweep_flag(state, known_secrets(folder.dir)), "manifest": manifest})


def sweep_flag(state: SweepState, known: Secrets) -> dict[str, Any]:
    """What finish.flag says of a sweep that has ended, its manifest left out."""
    from harness.results.manifest import flag_of

    runs = {run.name: run.outcome or run.status for run in state.compared}
    return flag_of(state, known, sweep_id=state.sweep_id, runs=runs)


def _tally(runs: tuple[RunState, ...]) -> str:
    """Such as `34 of 36 runs succeeded, 1 failed, 1 not run`."""
    counts = Counter(run.outcome or "not_run" for run in runs if run.status in ("ended", "not_run"))
    succeeded = f"{counts.pop('succeeded', 0)} of {len(runs)} runs succeeded"
    return ", ".join([succeeded, *(f"{n} {outcome.replace('_', ' ')}" for outcome, n in counts.items())])
