"""The actions that only look: text of bounded size out of the blueprint, configs, files, logs and metrics.

In: an action and the experiment. Out: `{"text": …}`, or `{"error": …}` with what to do instead. The same
files give the same text: nothing depends on the clock, and paths are relative.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.agent import excerpts
from harness.agent.actions import (
    Action,
    MetricsSummary,
    ReadBlueprint,
    ReadConfig,
    ReadFile,
    ReadPane,
    SearchLog,
)
from harness.agent.looking import log_search, metric_table
from harness.config.edit import ConfigEditError
from harness.experiment import Experiment
from harness.guard import file_access
from harness.redaction import redact
from harness.repair import apply_changes
from monitors.files import AttemptFiles
from monitors.logs import is_progress_bar, last_useful_lines, tail

_PANE_HEAD = 0.2  # of a terminal the end matters most


class NothingToShowError(Exception):
    """There is nothing to look at; the message says why and what would do."""


def look(action: Action, experiment: Experiment) -> dict[str, Any]:
    """What the action is to show, as `{"text": …}`, secrets masked; `{"error": …}` says why there is
    nothing."""
    try:
        return {"text": _LOOKS[type(action)](action, experiment)}
    except (
        NothingToShowError,
        log_search.SearchError,
        file_access.PlaceRefusedError,
        ConfigEditError,
    ) as error:
        why = str(error)
    except OSError as error:
        why = f"this cannot be read: {error.strerror}"
    return {"error": excerpts.plain(redact(excerpts.cut(why, 1_000), excerpts.known_secrets()))}


def _blueprint(action: ReadBlueprint, experiment: Experiment) -> str:
    text = _text(experiment.dir / "blueprint.md", "the result folder holds no blueprint.md")
    return excerpts.fitted("", excerpts.of_text(text), _ask_for("blueprint.md"))


def _config(action: ReadConfig, experiment: Experiment) -> str:
    if action.attempt is not None:
        files = _attempt(action.attempt, experiment)
        missing = (
            f"attempt {action.attempt} has no config.yaml: its command reads none that the harness knows of"
        )
        source = _relative(files.config, experiment)
        return excerpts.fitted("", excerpts.of_text(_text(files.config, missing)), _ask_for(source))
    text = apply_changes.config_after(experiment) or apply_changes.config_before(experiment)
    if not text:
        raise NothingToShowError(
            "there is no config: the command of this experiment reads none that the harness knows of "
            "(read_blueprint shows it)"
        )
    return excerpts.fitted("", excerpts.of_text(text), _say_left_out)


def _file(action: ReadFile, experiment: Experiment) -> str:
    path = file_access.resolve_reading(action.path, experiment.dir, experiment.plan)
    name = _relative(path, experiment)
    lines, total = excerpts.of_file(path, action.first_line, action.lines)
    if not lines:
        raise NothingToShowError(f"{name} has {total} lines, so nothing stands at line {action.first_line}")
    last = action.first_line + len(lines) - 1
    more = f"; for more ask with first_line={last + 1}" if last < total else ""
    shown = excerpts.numbered(lines, action.first_line)
    title = f"{name}, lines {action.first_line} to {last} of {total}{more}"
    return excerpts.fitted(title, shown, _ask_from(action.first_line))


def _pane(action: ReadPane, experiment: Experiment) -> str:
    files = _attempt(action.attempt, experiment)
    name = _relative(files.pane_log, experiment)
    lines = last_useful_lines(files.pane_log, action.lines)
    if not lines:
        lines = [line for line in tail(files.pane_log, 1_000) if is_progress_bar(line.text)][-1:]
    if not lines:
        raise NothingToShowError(
            f"attempt {_number(files)} has printed nothing yet ({name} is empty or missing)"
        )
    texts = excerpts.masked(line.text for line in lines)
    width = len(str(lines[-1].number))
    shown = [f"{line.number:>{width}}| {text}" for line, text in zip(lines, texts, strict=True)]

    def left_out(index: int, count: int) -> str:
        return f"… {count} lines left out: {_further(files.pane_log, name, lines[index].number)} …"

    return excerpts.fitted(f"the last lines of {name}", shown, left_out, _PANE_HEAD)


def _search(action: SearchLog, experiment: Experiment) -> str:
    files = _attempt(action.attempt, experiment)
    name = _relative(files.pane_log, experiment)
    if not files.pane_log.exists():
        raise NothingToShowError(f"attempt {_number(files)} has printed nothing yet ({name} is missing)")
    found = log_search.search(files.pane_log, action.pattern, action.around, action.most)
    title = _search_title(found, action, name)
    shown: list[str] = []
    numbers: list[int] = []
    width = len(str(found.lines[-1][0])) if found.lines else 1
    for block in log_search.blocks(found.lines):
        if shown:
            shown.append("--")
            numbers.append(block[0][0])
        texts = excerpts.masked(text for _, text, _ in block)
        for (number, _, hit), text in zip(block, texts, strict=True):
            shown.append(f"{'>' if hit else ' '} {number:>{width}}| {text}")
            numbers.append(number)

    def left_out(index: int, count: int) -> str:
        return f"… {count} lines left out: {_further(files.pane_log, name, numbers[index])} …"

    return excerpts.fitted(title, shown, left_out)


def _further(log: Path, name: str, number: int) -> str:
    """How to see lines of a log that were left out."""
    if log.stat().st_size > file_access.LARGEST_BYTES:
        return "ask again for fewer"
    return f"ask read_file for {name} with first_line={number}"


def _search_title(found: log_search.Found, action: SearchLog, name: str) -> str:
    said = f"{found.count} of {found.searched} lines of {name} match"
    if found.count > action.most:
        said += f"; the first {action.most} are shown"
    if found.literal:
        said += "; found as plain text, not as a regular expression"
    if found.skipped:
        first, last = found.skipped
        said += f"; lines {first} to {last} were not searched, because the log is too large"
    if not found.complete:
        said += (
            f"; the time was up at line {found.last + 1}, and the rest was not searched: use a simpler "
            "pattern, or read_pane for the end"
        )
    return said


def _metrics(action: MetricsSummary, experiment: Experiment) -> str:
    files = _attempt(action.attempt, experiment)
    number = _number(files)
    metrics = metric_table.read(files.metrics)
    if not metrics.courses:
        raise NothingToShowError(
            f"attempt {number} has no metrics: it has printed no line that was recognised as one; "
            "read_pane shows what it printed"
        )
    names = metric_table.choose(metrics, action.metrics)
    if not names:
        known = ", ".join(map(metric_table.shown_name, metric_table.choose(metrics, ())))
        raise NothingToShowError(f"attempt {number} has no metric of that name; it has {known}")
    shown = names[: metric_table.MOST_METRICS]
    steps = f", steps {metrics.steps[0]} to {metrics.steps[1]}" if metrics.steps else ", without steps"
    title = f"attempt {number}: {metrics.rows} rows{steps}; course: values at even distances, first to last"
    left = len(names) - len(shown)
    rows = [*metric_table.HEADER, *(metric_table.row(name, metrics.courses[name]) for name in shown)]
    if left:
        rows.append(f"… {left} more metrics left out: ask for parts of names with metrics=…")
    if metrics.unnamed:
        rows.append(f"… {metrics.unnamed} values left out: there are too many different names")

    def left_out(index: int, count: int) -> str:
        return f"… {count} of these lines left out for their length: ask for fewer metrics with metrics=… …"

    return excerpts.fitted(title, excerpts.masked(rows), left_out, 1.0)


def _attempt(number: int | None, experiment: Experiment) -> AttemptFiles:
    known = [attempt.number for attempt in experiment.state.attempts]
    if not known:
        raise NothingToShowError(
            "nothing has been launched yet, so there is no attempt to look at; read_config without a number "
            "shows what the next launch would use"
        )
    if number is not None and number not in known:
        raise NothingToShowError(f"there is no attempt {number}; there are: {', '.join(map(str, known))}")
    return experiment.attempt_files(number or known[-1])


def _number(files: AttemptFiles) -> int:
    return int(files.dir.name)


def _text(path: Path, missing: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise NothingToShowError(missing) from error


def _relative(path: Path, experiment: Experiment) -> str:
    """How the file is called: from the result folder or the codebase on."""
    for base in (experiment.dir, Path(experiment.plan.get("codebase_dir", experiment.dir))):
        for root in (base.absolute(), base.resolve()):
            if path.is_relative_to(root):
                return str(path.relative_to(root))
    return path.name


def _ask_for(source: str) -> excerpts.Marker:
    return lambda index, count: (
        f"… {count} lines left out: ask read_file for {source} with first_line={index + 1} …"
    )


def _ask_from(first: int) -> excerpts.Marker:
    return lambda index, count: f"… {count} lines left out: ask with first_line={first + index} …"


def _say_left_out(index: int, count: int) -> str:
    return f"# … {count} lines left out, from line {index + 1} on …"


_LOOKS: dict[type[Action], Callable[[Any, Experiment], str]] = {
    ReadBlueprint: _blueprint,
    ReadConfig: _config,
    ReadFile: _file,
    ReadPane: _pane,
    SearchLog: _search,
    MetricsSummary: _metrics,
}
