"""From a plan to what one attempt runs: its config, its command, its environment.

In: the blueprint as understood and the attempt's folder. Out: files in that folder and a
`LaunchSpec` for `monitors.launch`. The training's command is the person's own words, except that the config
file they name is replaced by the attempt's copy of it, and that standard input is empty.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import monitors
from harness.atomic_write import write_atomically
from harness.blueprint.scaffold import render_config
from harness.blueprint.types import Blueprint
from harness.command import paths_replaced, read_or_empty, with_values
from harness.config import training as training_config
from harness.config.edit import Scalar
from harness.config.reader import text_of
from harness.config.training import TrainingConfig
from harness.metric_files import remember
from harness.pending_changes import PendingChanges, diff
from harness.redaction import is_secret
from monitors.files import AttemptFiles
from monitors.launch import LaunchSpec

GRACE_S = 20.0
UNPICKLING = Path(monitors.__file__).with_name("evaluated")
"""What Python takes its `sitecustomize` from in an evaluation after changed code."""
_SAYS_ON = 190
LONGEST_END_S = GRACE_S + 400.0  # TERM, grace, KILL, and a cleanup command that uses all its time


@dataclass(frozen=True)
class LaunchRequest:
    """What was decided about one launch.

    `variables`: those of the run (`harness.environment`). `previous`: the attempt before it, None for the
    first. `draft`: what is changed for it. `environment`: variables set by repairs, of this launch and of
    those before. `arguments`: keys that the command sets, with other values. `codebase`: the
    working directory, which is a private copy where code is patched; then `code_diff` is what this draft
    changed in command and code, `relocate` points the command into the copy, and `contain` has it run in a
    sandbox. `limits`: those that repairs have raised. `is_smoke`: it is no attempt, so no change is kept.
    """

    session: str
    attempt_id: str
    deadline_uptime: float
    codebase: Path
    variables: Mapping[str, str]
    previous: AttemptFiles | None = None
    draft: PendingChanges = field(default_factory=PendingChanges)
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Scalar] = field(default_factory=dict)
    code_diff: str = ""
    relocate: Callable[[str], str] = str
    contain: Callable[[str], str] = str
    limits: frozenset[str] = frozenset()
    is_smoke: bool = False


def base_config(
    plan: Blueprint, previous: AttemptFiles | None, settings: Mapping[str, Scalar] | None
) -> str | None:
    """The config text a launch starts from; None when there is none that the command is known to read.

    The first attempt takes the config as it is now (or renders one from `settings`), a later one that of the
    attempt before it: what a person edits meanwhile is for their next experiment.
    """
    if previous is not None and previous.config.exists():
        return text_of(previous.config)
    if plan.yaml_path is not None:
        return text_of(plan.yaml_path) if uses_config(plan) else None
    return render_config(plan.name, settings or {}) if plan.launch_command is None else None


def has_config(plan: Blueprint) -> bool:
    """True if there is a config that the command is known to read: the author's, or one that is rendered."""
    return plan.launch_command is None if plan.yaml_path is None else uses_config(plan)


def write_config(plan: Blueprint, files: AttemptFiles, request: LaunchRequest) -> Path | None:
    """Write the attempt's config.yaml, with the draft's changes; None when there is none. What was changed to
    get here is kept as change.diff of the attempt before; before the first launch, of the first attempt,
    where the changes that follow it come behind. Can be repeated."""
    base = base_config(plan, request.previous, request.draft.settings)
    text = request.draft.apply(base) if base is not None else ""
    changes = diff(base or "", text, "config.yaml") + request.code_diff
    kept = (request.previous or files).dir / "change.diff"
    there = kept.read_text(encoding="utf-8") if kept.exists() else ""
    if changes and not request.is_smoke and not there.endswith(changes):
        write_atomically(kept, there + changes, mode=0o600)
    if base is None:
        return None
    write_atomically(files.config, training_config.for_attempt(text, files.dir), mode=0o600)
    return files.config


def command(plan: Blueprint, config: Path | None, arguments: Mapping[str, Scalar] | None = None) -> str:
    """The command line of the training, with the config replaced by the attempt's own copy, and with other
    values of `arguments`."""
    given = plan.launch_command
    if given is None:
        return shlex.join([str(plan.venv_exe), "-m", "trainer_core.cli", "--conf", str(config)])
    given = with_values(given, arguments or {})
    if config is None or plan.yaml_path is None:
        return given
    original = plan.yaml_path.resolve()
    bases = (plan.codebase_dir, plan.path.parent)

    def copy_of(path: str) -> str | None:
        return str(config) if any((base / path).resolve() == original for base in bases) else None

    return paths_replaced(given, copy_of)


def uses_config(plan: Blueprint) -> bool:
    """True if the launch command names the config, so that the attempt's copy is what it reads."""
    if plan.launch_command is None or plan.yaml_path is None:
        return True
    return "/attempt/config.yaml" in command(plan, Path("/attempt/config.yaml"))


def environment(
    plan: Blueprint,
    files: AttemptFiles,
    variables: Mapping[str, str],
    repairs: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of the training: those of the run (`harness.environment`), and those that repairs have
    set.

    The plan's interpreter comes first on PATH, so that a bare `python` in the command is the right one.
    """
    wanted, bin_dir = dict(variables), plan.venv_exe.parent
    wanted["PATH"] = f"{bin_dir}{os.pathsep}{wanted.get('PATH', os.defpath)}"
    if (bin_dir.parent / "pyvenv.cfg").exists():
        wanted["VIRTUAL_ENV"] = str(bin_dir.parent)
    wanted["HARNESS_ATTEMPT_DIR"] = str(files.dir)
    wanted.setdefault("PYTHONUNBUFFERED", "1")
    wanted.setdefault("GIT_TERMINAL_PROMPT", "0")  # git asks the terminal, whatever its input is
    return {**wanted, **(repairs or {})}


def last_checkpoint(files: AttemptFiles) -> str | None:
    """The checkpoint of the bundled trainer that an attempt after this one goes on from; None when there is
    none or the config wants a fresh start."""
    pointer = files.trainer / "checkpoints" / "latest"
    if not TrainingConfig.of_attempt(files.config).goes_on_from_checkpoints or not pointer.is_file():
        return None
    return pointer.read_text(encoding="utf-8").strip()


def carry_checkpoint(previous: AttemptFiles, files: AttemptFiles) -> str | None:
    """Give an attempt the last checkpoint of the one before, which it goes on from, and return its name. The
    files are hard links: nothing is copied, and the earlier attempt keeps its own. Can be repeated."""
    name, target = last_checkpoint(previous), files.trainer / "checkpoints"
    if name is not None and not (target / "latest").exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(previous.trainer / "checkpoints" / name, target / name, copy_function=os.link)
        write_atomically(target / "latest", name + "\n")
    return name


def _at_home(plan: Blueprint, request: LaunchRequest, text: str | None) -> str | None:
    """Preparing, evaluating and cleaning up is done in the author's own codebase, also where the training
    runs in a copy: what they install or fetch must outlive it, and what is measured must be the author's."""
    if text is None:
        return None
    if request.codebase != plan.codebase_dir:
        path = request.variables.get("PYTHONPATH", "")
        own = f"export PYTHONPATH={shlex.quote(path)}" if path else "unset PYTHONPATH"
        text = f"cd {shlex.quote(str(plan.codebase_dir))} || exit 1\n{own}\n{text}"
    return unattended(text)


def _evaluation(plan: Blueprint, request: LaunchRequest) -> str | None:
    """The author's own code measures; contained like a changed training, whose files it loads, and watched
    for what of them runs code."""
    text = plan.evaluate_command
    if text is not None and request.codebase != plan.codebase_dir:
        python_path = f"{shlex.quote(str(UNPICKLING))}${{PYTHONPATH:+:$PYTHONPATH}}"
        text = f"export PYTHONPATH={python_path} HARNESS_SAYS_ON={_SAYS_ON}\nexec {_SAYS_ON}>&1\n{text}"
    home = _at_home(plan, request, text)
    return None if home is None or request.is_smoke else request.contain(home)


def unattended(text: str) -> str:
    """The commands with nothing to read: a question that asks a person (a login, a yes) ends at
    once instead of waiting for ever. `COMMAND </dev/tty` reads from the terminal all the same, and those that
    ask for one by a flag (`docker run -it`) keep it."""
    return text if read_or_empty(text).asks_for_a_terminal else f"exec </dev/null\n{text}"


def launch_spec(plan: Blueprint, files: AttemptFiles, request: LaunchRequest) -> LaunchSpec:
    """Everything `monitors.launch` needs to start this attempt; writes the attempt's config on the way."""
    files.dir.parent.mkdir(mode=0o700, exist_ok=True)
    files.dir.mkdir(exist_ok=True)
    config = write_config(plan, files, request)
    if not TrainingConfig.read(files.config).is_ajet:
        remember(files.dir, request.codebase)
    variables = environment(plan, files, request.variables, request.environment)
    variables["HARNESS_TRAINING_DIR"] = str(request.codebase)
    return LaunchSpec(
        attempt_dir=files.dir,
        attempt_id=request.attempt_id,
        session_name=request.session,
        command=request.contain(unattended(request.relocate(command(plan, config, request.arguments)))),
        cwd=request.codebase,
        env=variables,
        secret_env={name: value for name, value in variables.items() if is_secret(name, value)},
        prepare=_at_home(plan, request, plan.prepare_command),
        evaluate=_evaluation(plan, request),
        cleanup=_at_home(plan, request, plan.cleanup_command),
        deadline_uptime=request.deadline_uptime,
        grace_s=GRACE_S,
        most_open_files="open_files" in request.limits,
        supervisor_python=sys.executable,
    )
