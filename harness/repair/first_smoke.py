"""The smoke run before the first launch: the real command for a step or a minute, apart from everything.

In: the plan, and the request of its first launch. Out: `SmokeRan`, with the cause where it failed. What it
writes into the folder of the code, and into output folders that are there, is dropped; other outputs go into
its own folder; where that cannot be, nothing is run. Known limits of steps are lowered; a failure counts only
if the command fails without them, too. Slowness is no failure.
"""

import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import environment, launching
from harness.attempt import AttemptEnd, Diagnosis
from harness.blueprint.types import Blueprint
from harness.command import CommandError, is_output, read_or_empty, with_values
from harness.config import as_text, edit, flatten, keys
from harness.config.reader import UnreadableConfigError
from harness.diagnosis import diagnose
from harness.diagnosis.signatures import load_usable
from harness.doctor import Finding
from harness.experiment import Experiment
from harness.journal.events import SmokeRan
from harness.machine.ports import a_free_port
from harness.options import RunOptions
from harness.redaction import redact
from harness.repair import advice
from harness.repair.apart import Apart
from harness.repair.smoke import Trial, request_of
from monitors.files import AttemptFiles
from monitors.launch import LaunchError, state_home
from monitors.processes import steady_time, uptime
from monitors.tmux import TmuxError, session_name

SECONDS = 60.0
_GRACE_S = 5.0
_TOO_SHORT_S = 5.0
_QUIET = {
    "WANDB_MODE": "disabled",
    "SWANLAB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "offline",
    "MLFLOW_TRACKING_URI": "{scratch}/mlflow",
    "TORCH_EXTENSIONS_DIR": "{scratch}/extensions",
}
"""Variables that keep a smoke run from being seen elsewhere, and from leaving the lock of a compilation."""
_TREES = (
    ("ajet", "ajet.", ""),
    ("verl", "arg:actor_rollout_ref.", "arg:"),
    ("verl", "actor_rollout_ref.", ""),
    ("huggingface", "arg:--per_device_train_batch_size", "arg:"),
)
"""Tree of keys, how a setting of it begins, and what stands before its keys where they are set."""
_OF_THE_END = ("reason", "status", "signal", "started_at", "ended_at", "prepare_status", "error")


@dataclass(frozen=True)
class _Plan:
    """What is tried. `scratch`: what is written goes there; `result_dir`: the run's, whose secrets are
    masked; `config`: the text that the command reads, "" for none that is known."""

    plan: Blueprint
    request: launching.LaunchRequest
    folder: Path
    scratch: Path
    result_dir: Path
    config: str

    @property
    def command(self) -> str:
        """With what repairs have changed in it; "" where the bundled trainer is launched."""
        return with_values(self.plan.launch_command or "", self.request.arguments)


async def run(experiment: Experiment, config: str, steps: int, seconds: float) -> SmokeRan:
    """Try the first launch of a run. `config`: what it will read. Raises PatchError."""
    number = experiment.state.smoke_runs + 1
    folder = experiment.dir / "smoke" / f"{number:02d}"
    request = request_of(experiment, AttemptFiles(folder), number, seconds)
    scratch = state_home() / "smoke" / request.attempt_id
    try:
        tried = _Plan(experiment.blueprint, request, folder, scratch, experiment.dir, config)
        return await _tried(tried, steps, seconds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


async def of_plan(plan: Blueprint, seconds: float = SECONDS) -> SmokeRan:
    """Try a plan of which there is no run."""
    identity = f"smoke-{uuid.uuid4().hex[:8]}"
    request = launching.LaunchRequest(
        session=session_name(f"smoke {plan.name}", identity[-4:], 1),
        attempt_id=identity,
        deadline_uptime=uptime() + seconds,
        codebase=plan.codebase_dir,
        variables=environment.of_training(None, RunOptions().hidden),
        is_smoke=True,
    )
    try:
        config = launching.base_config(plan, None, None) or ""
        with tempfile.TemporaryDirectory(prefix="smoke") as name:
            tried = _Plan(plan, request, Path(name) / "smoke" / "01", Path(name), plan.result_dir, config)
            return await _tried(tried, 1, seconds)
    except (OSError, UnreadableConfigError, LaunchError, TmuxError) as error:
        return SmokeRan(failed=False, error=str(error))


async def _tried(tried: _Plan, steps: int, seconds: float) -> SmokeRan:
    if tried.plan.prepare_command is not None:
        return SmokeRan(failed=False, error="[exp_prepare_command] is run for a launch alone")
    outputs = dict(_outputs(tried))
    folders = [path for path in outputs.values() if path.is_dir()]
    apart = Apart((tried.request.codebase, *folders), tried.scratch / "apart")
    if AttemptFiles(tried.folder).state() == "not_started" and not apart.works():
        why = f"{' or '.join(map(str, apart.folders))} cannot be kept from changes on this machine"
        return SmokeRan(failed=False, error=why)
    new = [name for name, path in outputs.items() if not path.is_dir()]
    moved = {name: str(tried.scratch / f"output-{number}") for number, name in enumerate(new)}
    limits = dict(_limits(tried, steps))
    ran = await _once(tried, tried.folder, {**moved, **limits}, apart, steps, seconds)
    left_s = seconds - ran.took_s
    if not ran.failed or not limits:
        return ran
    if left_s < _TOO_SHORT_S:
        return replace(ran, failed=False, cause=None, error="it failed with a limit of its steps")
    again = tried.folder.with_name(f"{tried.folder.name}-whole")
    return await _once(tried, again, moved, apart, steps, left_s)


async def _once(
    tried: _Plan, folder: Path, values: Mapping[str, Any], apart: Apart, steps: int, seconds: float
) -> SmokeRan:
    """One smoke run, with these values of the command and the config."""
    given, clock = read_or_empty(tried.command), steady_time
    names = {name for name in values if name.startswith(("arg:", "env:"))}
    for name in names:
        try:
            given = given.with_setting(name, as_text(values[name]))
        except CommandError:  # where it stands is not clear: it stays
            continue
    plan = replace(tried.plan, launch_command=given.text or None)
    edits = {name: value for name, value in values.items() if name not in names}
    draft = tried.request.draft
    files = AttemptFiles(folder)
    quiet = {name: value.format(scratch=tried.scratch) for name, value in _QUIET.items()}
    request = replace(
        tried.request,
        draft=replace(draft, config={**draft.config, **edits}),
        environment={**tried.request.environment, **quiet},
        deadline_uptime=min(tried.request.deadline_uptime, uptime() + seconds),
        attempt_id=f"{tried.request.attempt_id}{folder.name}",
        arguments={},
    )
    trial = Trial(plan, files, request, tried.result_dir, clock, apart, steps, seconds, _GRACE_S)
    ran = await trial.run()
    end = files.exit()
    if end is None:
        return replace(ran, failed=False)  # a slow shell, or the machine: nothing is known of the command
    if not ran.failed:
        return ran
    ended = AttemptEnd(**{name: getattr(end, name) for name in _OF_THE_END})
    return replace(ran, cause=_cause(files, ended, tried))


def _cause(files: AttemptFiles, ended: AttemptEnd, tried: _Plan) -> Diagnosis:
    """The diagnosis of its log, with what repairs before a launch have to know."""
    catalogue, _ = load_usable()
    found = advice.of_log(diagnose(files, ended, catalogue=catalogue), tried.config or None)
    captures = dict(found.captures)
    if "free_port" in found.remedies:
        captures["free_port"] = str(a_free_port())
    known = environment.known_secrets(tried.result_dir)
    shown = next((f" ({each.file}:{each.line}: {each.text.strip()[:200]})" for each in found.evidence), "")
    text = f"a smoke run of the command failed: {found.cause.rstrip('.')}{shown}"
    return replace(found, cause=redact(text, known), captures=captures, last_lines=())


def finding(ran: SmokeRan) -> Finding:
    """What `harness doctor` says of it."""
    if ran.error:
        return Finding("ok", f"no smoke run was made: {ran.error}")
    if ran.cause is None:
        return Finding("ok", f"a smoke run: {ran.text.partition(chr(10))[0]}")
    family = "" if ran.cause.family == "unknown" else ran.cause.family
    return Finding("warning" if ran.cause.transient else "problem", ran.cause.cause, ran.fix, family)


def _outputs(tried: _Plan) -> Iterator[tuple[str, Path]]:
    """Where the command and the config say that it writes, outside of the code: name and path."""
    for name, value in _settings(tried):
        if isinstance(value, str) and value.startswith("/") and "$" not in value and is_output(name):
            path = Path(value).resolve()
            if not path.is_relative_to(tried.request.codebase.resolve()):
                yield name, path


def _limits(tried: _Plan, steps: int) -> Iterator[tuple[str, Any]]:
    """What is to be shorter, or not to be done."""
    values = dict(_settings(tried))
    is_of_hf = read_or_empty(tried.command).is_of_hf_trainer
    for tree, start, lead in _TREES:
        if any(name.startswith(start) for name in values) or (tree == "huggingface" and is_of_hf):
            yield from ((f"{lead}{key}", to) for key, to in keys.smoke_limits_of(tree, steps).items())
            break
    for name, value in values.items():
        limit = keys.smoke_limit(name, value, steps)
        if limit is not None and not name.startswith("env:"):
            yield name, limit


def _settings(tried: _Plan) -> Iterator[tuple[str, Any]]:
    """(name, value) of the config, then of the command (`arg:--flag`, `env:NAME`)."""
    try:
        yield from flatten(edit.load(tried.config)).items()
    except UnreadableConfigError:
        pass
    for each in read_or_empty(tried.command).settings:
        if each.is_literal and not each.is_inside and each.kind in ("flag", "override", "variable"):
            is_whole = re.fullmatch(r"-?\d+", each.value)
            yield each.name, int(each.value) if is_whole else each.value.lower() == "true" or each.value
