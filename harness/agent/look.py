"""The actions that only look: bounded text of a result folder and a codebase, secrets masked.

In: an action and the experiment. Out: text, or why there is nothing to see.
The same files give the same text: nothing depends on the clock, and paths are relative.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import actions
from harness.agent import (
    code_changes,
    disk_access,
    facts,
    installed,
    log_search,
    metric_table,
    source_tree,
)
from harness.agent.excerpts import (
    NotShownError,
    cut,
    fitted,
    masked,
    numbered,
    of_text,
    part_of_file,
    plain,
)
from harness.agent.trainer_keys import TrainerKeys
from harness.config.edit import ConfigEditError
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.guard import file_access
from harness.journal.events import Looked
from harness.redaction import redact
from harness.repair import apply_changes
from harness.results.narrative.evidence import Evidence
from monitors.files import AttemptFiles
from monitors.logs import is_progress_bar, last_useful_lines, tail

_PANE_HEAD = 0.2  # of a terminal the end matters most


def look(action: actions.Action, experiment: Experiment, evidence: Evidence | None = None) -> Looked:
    """What the action is to show. `evidence`: what a narrative may cite, None before there are results."""
    try:
        if (cites := _CITES.get(type(action))) is None:
            return Looked(action.kind, _LOOKS[type(action)](action, experiment))
        if evidence is None:
            raise NotShownError("there are no results yet; metrics_summary shows the metrics of an attempt")
        return Looked(action.kind, cites(action, experiment, evidence))
    except (NotShownError, ConfigEditError) as error:
        why = str(error)
    except OSError as error:
        why = f"this cannot be read: {error.strerror}"
    return Looked(action.kind, error=plain(redact(cut(why, 1_000), known_secrets(experiment.dir))))


def _config(action: actions.ReadConfig, experiment: Experiment) -> str:
    if action.attempt is None:
        text, further = apply_changes.next_config(experiment) or None, "from line {} on"
        missing = "there is no config: the command of this experiment reads none that the harness knows of"
    else:
        file = _attempt(action.attempt, experiment).config
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else None
        further = f"ask read_file for {file.relative_to(experiment.dir)} with first_line={{}}"
        missing = (
            f"attempt {action.attempt} has no config.yaml: its command reads none that the harness knows"
        )
    if text is None:
        raise NotShownError(missing)
    lines = of_text(text, known_secrets(experiment.dir))
    return fitted("", lines, lambda index: further.format(index + 1))


def _file(action: actions.ReadFile, experiment: Experiment) -> str:
    codebase = experiment.blueprint.codebase_dir
    path = disk_access.resolve_reading(action.path, experiment.dir, codebase)
    roots = (root for root in (experiment.dir.resolve(), codebase.resolve()) if path.is_relative_to(root))
    name = str(path.relative_to(next(roots)))
    return part_of_file(path, name, action, experiment)


def _pane(action: actions.ReadPane, experiment: Experiment) -> str:
    log, name = _log(action.attempt, experiment)
    lines = last_useful_lines(log, action.lines)
    if not lines:
        lines = [line for line in tail(log, 1_000) if is_progress_bar(line.text)][-1:]
    if not lines:
        raise NotShownError(f"it has printed nothing yet ({name} is empty)")
    numbers = [line.number for line in lines]

    def further(index: int) -> str:
        if log.stat().st_size > file_access.LARGEST_BYTES:
            return "ask again for fewer"
        return f"ask read_file for {name} with first_line={numbers[index]}"

    shown = numbered(masked((line.text for line in lines), known_secrets(experiment.dir)), numbers)
    return fitted(f"the last lines of {name}", shown, further, _PANE_HEAD)


def _search(action: actions.SearchLog, experiment: Experiment) -> str:
    log, name = _log(action.attempt, experiment)
    (found,) = log_search.search([log], action.pattern, action.around, action.most, experiment.dir)
    shown = log_search.shown(found, known_secrets(experiment.dir))
    title = log_search.title(found, action.most, name)
    return fitted(title, shown, lambda index: "ask for fewer with most=… or around=…")


def _metrics(action: actions.MetricsSummary, experiment: Experiment) -> str:
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
    rows = masked(metric_table.rows(metrics, names), known_secrets(experiment.dir))
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
    name = f"attempts/{files.dir.name}/{files.pane_log.name}"
    if not files.pane_log.exists():
        raise NotShownError(f"attempt {int(files.dir.name)} has printed nothing yet ({name} is missing)")
    return files.pane_log, name


_LOOKS: dict[type[actions.Action], Callable[[Any, Experiment], str]] = {
    actions.ReadConfig: _config,
    actions.ReadFile: _file,
    actions.ReadPane: _pane,
    actions.SearchLog: _search,
    actions.MetricsSummary: _metrics,
    actions.ListFiles: source_tree.list_files,
    actions.SearchCode: source_tree.search_code,
    actions.ReadInstalled: installed.read_installed,
    actions.ShowChanges: code_changes.show_changes,
    actions.ListKeys: lambda action, experiment: TrainerKeys.ask().search(action.words),
}
_CITES: dict[type[actions.Action], Callable[[Any, Experiment, Evidence], str]] = {
    actions.Facts: facts.facts,
    actions.Compare: facts.compare,
}
