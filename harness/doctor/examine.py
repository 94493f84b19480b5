"""The examination: every check, run side by side, each with its own time limit.

In: a plan and where its results go. Out: findings, in the order of the checks. A check that fails or takes
too long becomes a warning that says so; none stops another.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.blueprint.trainer import TIMEOUT_S
from harness.doctor import (
    config_run,
    data,
    gpus,
    model,
    paths,
    ports,
    program,
    resources,
    sizes,
    terminal,
    trackers,
)
from harness.doctor.asking import LIMIT_S
from harness.doctor.findings import Check, Finding, warning
from harness.doctor.launch import PlannedLaunch, planned, this_machine
from harness.options import RunOptions
from harness.redaction import redact

_LOOK_S = LIMIT_S + 5.0
CHECKS = (
    Check("surroundings", paths.surroundings),
    Check("interpreter", program.runs, _LOOK_S),
    Check("modules", program.modules, _LOOK_S),
    Check("start", program.starts, 2 * _LOOK_S),
    Check("dry run", config_run.trainer_takes_it, TIMEOUT_S + _LOOK_S),
    Check("config is read", config_run.is_read),
    Check("other configs", config_run.files_parse),
    Check("open values", config_run.nothing_left_open),
    Check("programs", paths.programs),
    Check("inputs", paths.inputs),
    Check("data", data.rows_parse),
    Check("model config", model.config_is_whole),
    Check("model weights", model.weights_are_whole),
    Check("hub", model.can_be_had),
    Check("batches", sizes.batches_divide),
    Check("parallelism", sizes.parallelism_fits),
    Check("lengths", sizes.lengths_fit),
    Check("disk", resources.disk_of_results, of_machine=True),
    Check("scratch", resources.scratch, of_machine=True),
    Check("checkpoints", resources.checkpoints),
    Check("memory", resources.memory, 45.0, of_machine=True),
    Check("shared memory", resources.shared_memory, of_machine=True),
    Check("limits", resources.limits, of_machine=True),
    Check("ports", ports.are_free),
    Check("servers", ports.servers_answer),
    Check("GPUs", gpus.enough, 45.0),
    Check("GPUs free", gpus.are_free, 45.0),
    Check("driver", gpus.driver_fits, 45.0),
    Check("trackers", trackers.have_keys),
    Check("tmux", terminal.tmux, of_machine=True),
    Check("same experiment", terminal.is_not_running),
)


def examine(
    plan: Mapping[str, Any] | None,
    result_dir: Path,
    draft: str | None = None,
    repairs: Mapping[str, str] | None = None,
    hidden: frozenset[str] = RunOptions().hidden,
) -> list[Finding]:
    """Examine one launch; without a plan the machine alone, as seen from `result_dir`.

    `draft`: the config that would be used, where it is not the blueprint's own. `repairs`: variables that
    repairs have set. `hidden`: variables of the caller that the training is not given.
    """
    if plan is None:
        launch = this_machine(result_dir)
        return run([check for check in CHECKS if check.of_machine], launch)
    launch = planned(plan, result_dir, draft, repairs, hidden)
    return run(CHECKS, launch)


def run(checks: Iterable[Check], launch: PlannedLaunch) -> list[Finding]:
    """The findings of these checks, run side by side."""
    started = time.monotonic()
    running = [_Running(check, launch) for check in checks]
    found: list[Finding] = []
    for item in running:
        found += item.result(started + item.check.limit_s - time.monotonic())
    return found


class _Running:
    """One check in a thread that is not waited for longer than its limit."""

    def __init__(self, check: Check, launch: PlannedLaunch) -> None:
        self.check = check
        self._launch = launch
        self._found: list[Finding] | None = None
        self._thread = threading.Thread(target=self._examine, name=f"check {check.name}", daemon=True)
        self._thread.start()

    def result(self, patience_s: float) -> list[Finding]:
        """What was found, once; a warning when it is not ready in time."""
        self._thread.join(max(0.0, patience_s))
        found = self._found
        if found is None:
            text = f"the check of {self.check.name} was not done within {self.check.limit_s:g} s"
            found = [warning(text, "look at it yourself: a disk or a program there does not answer")]
        return [self._cleaned(finding) for finding in found]

    def _cleaned(self, finding: Finding) -> Finding:
        """The finding with its check's name, and without what looks like a secret."""
        text, detail = redact(finding.text), redact(finding.detail)
        return replace(finding, text=text, detail=detail, fix=redact(finding.fix), check=self.check.name)

    def _examine(self) -> None:
        try:
            self._found = list(self.check.examine(self._launch))
        except Exception as error:  # noqa: BLE001  # a broken check must not stop a launch
            text = f"the check of {self.check.name} broke: {type(error).__name__}: {error}"
            self._found = [warning(text, "the launch goes on without it; please report it")]
