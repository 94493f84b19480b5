"""What a job of a sweep is: the command that carries a run, in the environment that all runs share.

A run that has not begun is started from its blueprint; one that has is resumed; one that a person wants to
end is stopped. Which of them it is, the run's own folder says.
"""

from collections.abc import Mapping
from pathlib import Path

from harness import journal
from harness.journal.events import LetGo, OptionsGiven, Owner
from harness.options import RunOptions
from harness.self_command import HARNESS_WITHOUT_PYTHONPATH
from harness.sweep.folder import SweepFolder
from harness.sweep.hosts import Job, Lease

LEAST_TIME_S = 1.0


def lease_id(sweep_id: str, run: str, number: int) -> str:
    """The name of a job and of its lease: unique for ever, and the same whenever it is asked for."""
    return f"{sweep_id}-{run}-{number:02d}"


def has_begun(folder: SweepFolder, run: str) -> bool:
    """True if the run's own journal has begun."""
    return journal.has_begun(folder.result_dir(run) / "journal.jsonl")


def entries(folder: SweepFolder, run: str) -> int:
    """How much has happened in the run, by its own journal; who looked after it does not count."""
    try:
        read = journal.read(folder.result_dir(run) / "journal.jsonl")
    except (OSError, journal.JournalDamagedError):
        return 0
    return sum(not isinstance(entry.event, Owner | OptionsGiven | LetGo) for entry in read)


def job(
    folder: SweepFolder,
    run: str,
    number: int,
    lease: Lease,
    options: RunOptions,
    environment: Mapping[str, str],
    left_s: float | None,
    is_stopping: bool,
) -> Job:
    """The job that takes this run on. `left_s`: seconds left of the sweep's budget, None without one."""
    result_dir = folder.result_dir(run)
    if is_stopping or has_begun(folder, run):
        words: tuple[str, ...] = ("stop" if is_stopping else "resume", str(result_dir))
    else:
        limit = ("--max-time", f"{max(LEAST_TIME_S, left_s):.0f} s") if left_s is not None else ()
        words = ("run", str(folder.run_data(run)), *limit, *arguments(options))
    return Job(
        id=lease.id,
        run=run,
        folder=folder.job(run, number),
        result_dir=result_dir,
        command=(*HARNESS_WITHOUT_PYTHONPATH, *words),
        cwd=Path(options.settings_dir) if options.settings_dir else folder.dir,
        environment={**environment, **lease.environment()},
        lease=lease,
    )


def arguments(options: RunOptions) -> tuple[str, ...]:
    """The options as the command line of `harness run` takes them."""
    given: list[str] = ["--policy", options.policy]
    if options.policy == "llm" and options.model is not None:
        given += ["--model", options.model]
    if options.max_cost_usd is not None:
        given += ["--max-cost", str(options.max_cost_usd)]
    if options.max_calls is not None:
        given += ["--max-llm-calls", str(options.max_calls)]
    for name in options.pass_keys:
        given += ["--pass-key", name]
    return (*given, *(["--keep-session"] if options.keep_session else []))
