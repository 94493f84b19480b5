"""The actions that only look: bounded text of a result folder and a codebase, secrets masked.

In: an action and the experiment. Out: text, or why there is nothing to see.
The same files give the same text: nothing depends on the clock, and paths are relative.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.actions import (
    Action,
    MetricsSummary,
    ReadBlueprint,
    ReadConfig,
    ReadFile,
    ReadPane,
    SearchLog,
)
from harness.agent import disk_access, log_search, metric_table
from harness.agent.excerpts import (
    NotShownError,
    cut,
    fitted,
    known_secrets,
    masked,
    numbered,
    of_file,
    of_text,
    plain,
)
from harness.config.edit import ConfigEditError
from harness.experiment import Experiment
from harness.guard import file_access
from harness.journal.events import Looked
from harness.redaction import redact
from harness.repair import apply_changes
from monitors.files import AttemptFiles
from monitors.logs import is_progress_bar, last_useful_lines, tail

_PANE_HEAD = 0.2  # of a terminal the end matters most


def look(action: Action, experiment: Experiment) -> Looked:
    """What the action is to show."""
    try:
        return Looked(action.kind, _LOOKS[type(action)](action, experiment))
    except (NotShownError, ConfigEditError) as error:
        why = str(error)
    except OSError as error:
        why = f"this cannot be read: {error.strerror}"
    return Looked(action.kind, error=plain(redact(cut(why, 1_000), known_secrets())))


def _blueprint(action: ReadBlueprint, experiment: Experiment) -> str:
    path = experiment.dir / "blueprint.md"
    if not path.exists():
        raise NotShownError("the result folder holds no blueprint.md")
    return _whole(path.read_text(encoding="utf-8", errors="replace"), path.name)


def _config(action: ReadConfig, experiment: Experiment) -> str:
    if action.attempt is not None:
        path = _attempt(action.attempt, experiment).config
        if not path.exists():
            raise NotShownError(
                f"attempt {action.attempt} has no config.yaml: its command reads none that the harness knows"
            )
        return _whole(path.read_text(encoding="utf-8", errors="replace"), _relative(path, experiment))
    text = apply_changes.config_after(experiment) or apply_changes.config_before(experiment)
    if not text:
        raise NotShownError(
            "there is no config: the command of this experiment reads none that the harness knows of "
            "(read_blueprint shows it)"
        )
    return fitted("", of_text(text), lambda index: f"from line {index + 1} on")


def _whole(text: str, name: str) -> str:
    return fitted("", of_text(text), lambda index: f"ask read_file for {name} with first_line={index + 1}")


def _file(action: ReadFile, experiment: Experiment) -> str:
    path = disk_access.resolve_reading(action.path, experiment.dir, experiment.blueprint.codebase_dir)
    name, first = _relative(path, experiment), action.first_line
    lines, total = of_file(path, first, action.lines)
    if not lines:
        raise NotShownError(f"{name} has {total} lines, so nothing stands at line {first}")
    last = first + len(lines) - 1
    more = f"; for more ask with first_line={last + 1}" if last < total else ""
    title = f"{name}, lines {first} to {last} of {total}{more}"
    return fitted(title, numbered(lines, first), lambda index: f"ask with first_line={first + index}")


def _pane(action: ReadPane, experiment: Experiment) -> str:
    log, name = _log(action.attempt, experiment)
    lines = last_useful_lines(log, action.lines)
    if not lines:
        lines = [line for line in tail(log, 1_000) if is_progress_bar(line.text)][-1:]
    if not lines:
        raise NotShownError(f"it has printed nothing yet ({name} is empty)")
    numbers = [line.number for line in lines]
    width = len(str(numbers[-1]))
    texts = masked(line.text for line in lines)
    shown = [f"{number:>{width}}| {text}" for number, text in zip(numbers, texts, strict=True)]
    title = f"the last lines of {name}"
    return fitted(title, shown, lambda index: _further(log, name, numbers[index]), _PANE_HEAD)


def _search(action: SearchLog, experiment: Experiment) -> str:
    log, name = _log(action.attempt, experiment)
    found = log_search.search(log, action.pattern, action.around, action.most)
    width = len(str(found.lines[-1][0])) if found.lines else 1
    shown: list[str] = []
    numbers: list[int] = []
    texts = masked(text for _, text, _ in found.lines)
    for (number, _, hit), text in zip(found.lines, texts, strict=False):
        if numbers and number != numbers[-1] + 1:
            shown.append("--")
            numbers.append(number)
        shown.append(f"{'>' if hit else ' '} {number:>{width}}| {text}")
        numbers.append(number)
    title = log_search.title(found, action.most, name)
    return fitted(title, shown, lambda index: _further(log, name, numbers[index]))


def _further(log: Path, name: str, number: int) -> str:
    """How to see lines of a log that were left out."""
    if log.stat().st_size > file_access.LARGEST_BYTES:
        return "ask again for fewer"
    return f"ask read_file for {name} with first_line={number}"


def _metrics(action: MetricsSummary, experiment: Experiment) -> str:
    files = _attempt(action.attempt, experiment)
    number = int(files.dir.name)
    metrics = metric_table.read(files.metrics)
    if not metrics.courses:
        raise NotShownError(
            f"attempt {number} has no metrics: it has printed no line that was recognised as one; "
            "read_pane shows what it printed"
        )
    names = metric_table.choose(metrics, action.metrics)
    if not names:
        known = ", ".join(map(metric_table.shown_name, metric_table.choose(metrics, ())))
        raise NotShownError(f"attempt {number} has no metric of that name; it has {known}")
    rows = masked(metric_table.rows(metrics, names))
    title = f"attempt {number}: {metric_table.title(metrics)}"
    return fitted(title, rows, lambda index: "ask for fewer metrics with metrics=…", 1.0)


def _attempt(number: int | None, experiment: Experiment) -> AttemptFiles:
    known = [attempt.number for attempt in experiment.state.attempts]
    if not known:
        raise NotShownError(
            "nothing has been launched yet, so there is no attempt to look at; read_config without a number "
            "shows what the next launch would use"
        )
    if number is not None and number not in known:
        raise NotShownError(f"there is no attempt {number}; there are: {', '.join(map(str, known))}")
    return experiment.attempt_files(number or known[-1])


def _log(number: int | None, experiment: Experiment) -> tuple[Path, str]:
    """The log of an attempt, and how it is called."""
    files = _attempt(number, experiment)
    name = _relative(files.pane_log, experiment)
    if not files.pane_log.exists():
        raise NotShownError(f"attempt {int(files.dir.name)} has printed nothing yet ({name} is missing)")
    return files.pane_log, name


def _relative(path: Path, experiment: Experiment) -> str:
    """How the file is called: from the result folder or the codebase on."""
    for base in (experiment.dir, experiment.blueprint.codebase_dir):
        for root in (base.absolute(), base.resolve()):
            if path.is_relative_to(root):
                return str(path.relative_to(root))
    return path.name


_LOOKS: dict[type[Action], Callable[[Any, Experiment], str]] = {
    ReadBlueprint: _blueprint,
    ReadConfig: _config,
    ReadFile: _file,
    ReadPane: _pane,
    SearchLog: _search,
    MetricsSummary: _metrics,
}
