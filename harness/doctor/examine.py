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
    arguments,
    config_keys,
    config_run,
    data,
    gpus,
    hydra,
    interpreter,
    limits,
    machine,
    model,
    packages,
    paths,
    ports,
    script_data,
    sizes,
    terminal,
    trackers,
)
from harness.doctor.interpreter_probe import LIMIT_S
from harness.doctor.launch import PlannedLaunch, planned, this_machine
from harness.doctor.types import Check, Depth, Finding, warning
from harness.options import RunOptions
from harness.redaction import redact

_PROBE_S = LIMIT_S + 5.0
CHECKS = (
    Check("codebase", paths.codebase),
    Check("interpreter", interpreter.runs, _PROBE_S),
    Check("sources", interpreter.sources),
    Check("modules", packages.modules, _PROBE_S),
    Check("versions", packages.versions, _PROBE_S),
    Check("config", config_run.parses),
    Check("dry run", config_run.trainer_takes_it, TIMEOUT_S + _PROBE_S),
    Check("config is read", config_run.is_read),
    Check("other configs", config_run.other_files_parse),
    Check("open values", config_run.nothing_left_open),
    Check("numbers", config_run.numbers_are_numbers),
    Check("config keys", config_keys.are_there),
    Check("overrides", hydra.overrides_are_known, _PROBE_S),
    Check("flags", arguments.flags_are_known),
    Check("programs", paths.programs),
    Check("inputs", paths.inputs),
    Check("outputs", paths.outputs),
    Check("time limits", paths.time_limits),
    Check("clock", paths.clock, of_machine=True),
    Check("data rows", data.rows_parse),
    Check("data columns", data.columns_exist),
    Check("data size", data.enough_rows),
    Check("source files", script_data.files_exist),
    Check("source columns", script_data.columns_exist),
    Check("prompt lengths", data.prompts_fit),
    Check("model config", model.config_is_whole),
    Check("model weights", model.weights_are_whole),
    Check("chat template", model.chat_template),
    Check("hub", model.can_be_had),
    Check("batches", sizes.batches_divide),
    Check("parallelism", sizes.parallelism_fits),
    Check("lengths", sizes.lengths_fit),
    Check("disk", machine.disk_of_results, of_machine=True),
    Check("scratch", machine.disk_of_others, of_machine=True),
    Check("checkpoints", machine.disk_for_checkpoints),
    Check("memory", machine.memory, of_machine=True),
    Check("shared memory", machine.shared_memory, of_machine=True),
    Check("limits", limits.of_shell, of_machine=True),
    Check("inotify", limits.inotify, of_machine=True, depth="full"),
    Check("ports", ports.are_free),
    Check("servers", ports.servers_answer),
    Check("GPUs", gpus.enough, 30.0),
    Check("GPUs free", gpus.are_free, 30.0),
    Check("driver", gpus.driver_fits, 30.0),
    Check("trackers", trackers.have_keys),
    Check("tmux", terminal.tmux, of_machine=True),
    Check("same experiment", terminal.is_not_running),
)


def examine(
    plan: Mapping[str, Any] | None,
    result_dir: Path,
    draft: str | None = None,
    depth: Depth = "launch",
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
    return run([check for check in CHECKS if depth == "full" or check.depth == "launch"], launch)


def run(checks: Iterable[Check], launch: PlannedLaunch) -> list[Finding]:
    """The findings of these checks, run side by side."""
    started = time.monotonic()
    running = [_Running(check, launch) for check in checks]
    found: list[Finding] = []
    for item in running:
        found += item.result(started + item.check.limit_s - time.monotonic())
    return found


class _Running:
    """One check in a thread that nobody waits for longer than its limit."""

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
        return replace(finding, text=text, detail=detail, mend=redact(finding.mend), check=self.check.name)

    def _examine(self) -> None:
        try:
            self._found = list(self.check.examine(self._launch))
        except Exception as error:  # noqa: BLE001  # a broken check must not stop a launch
            text = f"the check of {self.check.name} broke: {type(error).__name__}: {error}"
            self._found = [warning(text, "the launch goes on without it; please report it")]
