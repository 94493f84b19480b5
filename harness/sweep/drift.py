"""What came to differ between the runs of a sweep while they ran, told from their own files.

In: the result folders of finished runs. Out: one sentence per difference, for the report. What is compared is
what the sweep had made the same: configs leaf by leaf, code, packages, hardware, steps. The commit is not:
all runs use the frozen copy, which `snapshot.changed` compares.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.config import training as training_config
from harness.config.edit import ConfigEditError
from harness.results.comparing import provenances
from harness.results.raw import json_file
from harness.state import COUNTING
from harness.sweep.folder import SweepFolder
from harness.sweep.types import SweepError, SweepPlan
from harness.sweep.varying import settings
from harness.sweep.varying.current_values import leaves
from harness.wording import listed
from monitors.files import AttemptFiles
from monitors.logs import tail

_MOST_NAMED = 5
_CHANGED_FILE = re.compile(r"(?m)^\+\+\+ (?:after/)?(?P<name>[^\t\n]+)")
_CHANGES_STEPS = ("amount of training", "effective batch")
_ROWS_READ = 20


def afterwards(plan: SweepPlan, folder: SweepFolder) -> tuple[str, ...]:
    """Everything that differs between the finished runs beside what is varied; () where nothing does."""
    ends = {run.name: end for run in plan.runs if (end := _end(folder.result_dir(run.name)))}
    attempts = {name: _attempts(folder.result_dir(name)) for name in ends}
    records = provenances.records_of({name: folder.result_dir(name) for name in ends})
    well = [name for name, end in ends.items() if end.get("outcome") in COUNTING]
    return (
        *_repaired_configs(folder, attempts),
        *_corrected_code(attempts),
        *provenances.surroundings(records),
        *(() if _varies_steps(plan) else _steps({name: attempts[name] for name in well})),
    )


def _end(result_dir: Path) -> dict[str, Any] | None:
    """What the run's finish.flag says; None while there is none."""
    return json_file(result_dir / "finish.flag", "finish.flag", [])


def _attempts(result_dir: Path) -> list[AttemptFiles]:
    return [AttemptFiles(path) for path in sorted(result_dir.glob("attempts/[0-9]*")) if path.is_dir()]


def _repaired_configs(folder: SweepFolder, attempts: Mapping[str, list[AttemptFiles]]) -> Iterable[str]:
    """Keys whose value in the last attempt is not the planned one. What a launch sets itself (where outputs
    go) is set alike in both first, so that a folder that was moved differs in nothing."""
    for run, files in attempts.items():
        planned = folder.run_config(run)
        if not files or not planned.exists() or not files[-1].config.exists():
            continue
        try:
            before, after = (
                leaves(training_config.for_attempt(path.read_text(encoding="utf-8"), files[-1].dir))
                for path in (planned, files[-1].config)
            )
        except (ConfigEditError, SweepError, OSError) as error:
            yield f"run {run}: its last config cannot be compared with the planned one ({error})"
            continue
        differing = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        shown = [f"{key} {before.get(key, 'absent')} → {after.get(key, 'absent')}" for key in differing]
        if shown:
            told = listed(shown, _MOST_NAMED)
            yield f"run {run} was repaired and ended with another config than planned: {told}"


def _corrected_code(attempts: Mapping[str, list[AttemptFiles]]) -> Iterable[str]:
    """Runs whose code a repair has corrected: others ran without the correction."""
    for run, files in attempts.items():
        changes = [each.dir / "change.diff" for each in files]
        found = [
            match["name"]
            for path in changes
            if path.exists()
            for match in _CHANGED_FILE.finditer(path.read_text(encoding="utf-8", errors="replace"))
        ]
        if names := [name for name in dict.fromkeys(found) if name != "config.yaml"]:
            told = listed(names, _MOST_NAMED)
            yield f"run {run} was repaired and ended with other code than its siblings: {told}"


def _varies_steps(plan: SweepPlan) -> bool:
    """Whether a varied key decides how many steps a run trains."""
    return any(settings.is_about(key.name) in _CHANGES_STEPS for key in plan.keys)


def _steps(attempts: Mapping[str, list[AttemptFiles]]) -> Iterable[str]:
    last = {run: step for run, files in attempts.items() if (step := _last_step(files)) is not None}
    if len(set(last.values())) > 1:
        yield provenances.differs("the last step", last)


def _last_step(files: list[AttemptFiles]) -> int | None:
    """The last step that a run has rows for."""
    for attempt in reversed(files):
        for line in reversed(tail(attempt.metrics, _ROWS_READ) if attempt.metrics.exists() else []):
            try:
                step = json.loads(line.text).get("step")
            except (ValueError, AttributeError):
                continue
            if isinstance(step, int):
                return step
    return None
