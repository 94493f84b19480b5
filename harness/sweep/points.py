"""What every run of a sweep is: the blueprint that the sweep was made from, with this run's overrides.

In: the plan, the blueprint, the frozen code. Out: `plan/<run>/blueprint.json`, from which the run is started,
`config.yaml`, its own copy of the config, and `blueprint.md`, the same for readers. Each file appears whole
or not at all, and all can be written again. Refused are keys that would be varied in vain: nothing reads
them, or something else holds against them.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness import launching, templating
from harness.atomic_write import write_atomically, write_json
from harness.blueprint import Blueprint, check_trainer
from harness.blueprint.scaffold import render_config
from harness.command import check_reaches, is_output, read, read_or_empty
from harness.command.launch_command import bare
from harness.config import NOTHING, as_text
from harness.config import edit as config_edit
from harness.config import keys as config_keys
from harness.config.edit import ConfigEditError, Scalar
from harness.config.reader import UnreadableConfigError, text_of
from harness.sweep.plan import SweepError, SweepFolder, SweepPlan, SweepRun
from harness.sweep.spec import kind_of
from harness.wording import did_you_mean, exact_duration

MOST_ASKED = 4
"""Configs that the trainer is shown before the start: about a second each."""
_CONFIG = Path("/the/config/of/this/run.yaml")
_BACKTICKS = re.compile(r"`{3,}")
_READS_ARGUMENTS = re.compile(r"\$(?:[@*1-9]|\{[@*1-9])|getopts")
_PASSED_ON = ("verl.", "trinity.")
"""Parts of an `ajet:` config that other programs read, whose keys only they know."""
_CONSEQUENCES = {
    "effective batch": "changes how many samples a step uses: equal steps are not equal data",
    "amount of training": "changes how long a run trains: the points differ in compute, and so may schedules",
    "validation": "changes how the result is measured: values of different points may not mean the same",
    "prompt or response length": "changes what a step costs and what is cut off: equal steps are not equal "
    "compute",
    "model": "changes what a step costs: equal steps are not equal compute",
    "data": "changes the data: make sure that all points are validated on the same tasks",
}
"""What a reviewer would say about a varied key, by what the key is about."""

AskTrainer = Callable[[Blueprint], Blueprint]
"""The blueprint with the trainer's objections to its config added, as `harness.blueprint.check_trainer`."""


@dataclass(frozen=True)
class Base:
    """What all runs are made from. `config`: its text, None where a command runs without one. `codebase`: the
    frozen code; `relocate` points the absolute paths of a command into it."""

    blueprint: Blueprint
    config: str | None
    codebase: Path
    relocate: Callable[[str], str] = str


# --- what the blueprint has now -----------------------------------------------------------------------------


def current(blueprint: Blueprint, key: str) -> object:
    """The value that the blueprint has now for this key, NOTHING where it names none. Raises CommandError
    where the launch command does not show it clearly."""
    kind, name, command = kind_of(key), bare(key), blueprint.launch_command or ""
    if kind == "config":
        return leaves(config_text(blueprint) or "").get(key, NOTHING)
    found = read(command).value(key)
    if found is None and kind == "env":
        found = os.environ.get(name)
    return NOTHING if found is None else found


def config_text(blueprint: Blueprint) -> str | None:
    """The config that runs of this blueprint are made from; None where the command runs without one."""
    if blueprint.yaml_path is None:
        if blueprint.launch_command is not None:
            return None
        return render_config(blueprint.name, {})
    with reading(blueprint.yaml_path):
        return text_of(blueprint.yaml_path)


@contextmanager
def reading(config: Path) -> Iterator[None]:
    """What cannot be read of this config is a SweepError."""
    try:
        yield
    except UnreadableConfigError as error:
        raise SweepError(f"{config} is {error}") from error
    except OSError as error:
        raise SweepError(f"the config {config} cannot be read: {error}") from error


def leaves(text: str) -> dict[str, object]:
    """The values of a config by dotted key. Raises SweepError for text that is no YAML."""
    try:
        return dict(config_edit.leaves(text))
    except UnreadableConfigError as error:
        raise SweepError(f"the config is {error}") from error


# --- one run ------------------------------------------------------------------------------------------------


def run_of(plan: SweepPlan, run: SweepRun, base: Base, folder: SweepFolder) -> tuple[Blueprint, str | None]:
    """The run's blueprint and the text of its config. Raises SweepError where something cannot be set."""
    given = base.blueprint
    wanted = plan.overrides(run)
    config = None
    if base.config is not None:
        in_config = {key: value for key, value in wanted.items() if kind_of(key) == "config"}
        try:
            config = config_edit.edit(base.config, in_config)
        except ConfigEditError as error:
            raise SweepError(f"run {run.name}: {error}") from error
    path = folder.run_config(run.name) if config is not None else None
    made = replace(
        given,
        path=folder.run_blueprint(run.name),
        name=run.name,
        purpose="\n".join(filter(None, (given.purpose, _what_differs(plan, run)))),
        codebase_dir=base.codebase,
        yaml_path=path,
        launch_command=_command(base, path, wanted),
        result_dir=folder.result_dir(run.name),
        protected_keys=_protected(plan, given.protected_keys),
        prepare_command=base.relocate(given.prepare_command) if given.prepare_command else None,
        evaluate_command=base.relocate(given.evaluate_command) if given.evaluate_command else None,
        cleanup_command=base.relocate(given.cleanup_command) if given.cleanup_command else None,
        problems=(),
        lines={},
    )
    return made, config


def _command(base: Base, config: Path | None, wanted: Mapping[str, Scalar]) -> str | None:
    """The launch command with this run's config, flags and variables; None where the harness makes it."""
    given = base.blueprint.launch_command
    if given is None:
        if not any(kind_of(key) == "env" for key in wanted):
            return None
        text = shlex.join([str(base.blueprint.venv_exe), "-m", "trainer_core.cli", "--conf", str(_CONFIG)])
    else:
        text = base.relocate(launching.command(base.blueprint, _CONFIG if config else None))
    if config is not None:
        text = text.replace(str(_CONFIG), _quoted(config))
    found = read(text)
    for key, value in sorted(wanted.items(), key=lambda item: kind_of(item[0])):  # variables last
        if kind_of(key) != "config":
            found = found.with_setting(key, as_text(value))
    return found.text


def _quoted(path: Path) -> str:
    """A path as one quotation, so that a launch finds it in the command: `shlex.quote` writes several where
    an apostrophe is in it."""
    text = str(path)
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\]', text) else shlex.quote(text)


def _protected(plan: SweepPlan, given: Sequence[str]) -> tuple[str, ...]:
    """The blueprint's own protected keys and everything that the sweep sets, named as a repair would name
    it: a flag `--lr` by `lr`, a variable by its name."""
    names = (re.sub("[/@]", ".", bare(key).lstrip("-+")) for key in (*plan.varied_keys, *plan.settings))
    return tuple(dict.fromkeys((*given, *names)))


def _what_differs(plan: SweepPlan, run: SweepRun) -> str:
    """One sentence that tells this run from its siblings."""
    changed, own = plan.point(run.point).changed(plan.keys), {key.name: key.baseline for key in plan.keys}
    differs = [(key, as_text(level), as_text(own[key])) for key, level in changed.items()]
    return templating.render(
        "sweeps/purpose.md.j2",
        sweep=plan.name,
        point=run.point,
        differs=differs,
        seed=run.seed,
        is_canary=run.is_canary,
    ).strip()


def for_readers(made: Blueprint) -> str:
    """The blueprint as Markdown, which reads back."""
    texts = (made.launch_command, made.prepare_command, made.evaluate_command, made.cleanup_command)
    longest = max((len(found) for text in texts for found in _BACKTICKS.findall(text or "")), default=2)
    return templating.render(
        "sweeps/blueprint.md.j2",
        plan=made,
        fence="`" * (longest + 1),
        max_time=exact_duration(made.max_time_s),
        first_step=exact_duration(made.first_step_s),
    )


# --- all runs -----------------------------------------------------------------------------------------------


def write_runs(plan: SweepPlan, base: Base, folder: SweepFolder, ask: AskTrainer | None = None) -> None:
    """Write what every run, and the canary, is started from. Raises SweepError."""
    made: dict[str, Blueprint] = {}
    for run in plan.all_runs:
        made[run.name], config = run_of(plan, run, base, folder)
        folder.run_blueprint(run.name).parent.mkdir(parents=True, exist_ok=True)
        if config is not None:
            write_atomically(folder.run_config(run.name), config, mode=0o600)
        write_atomically(folder.run_blueprint(run.name), for_readers(made[run.name]), mode=0o600)
        write_json(folder.run_data(run.name), made[run.name].as_json(), mode=0o600)
    if base.blueprint.launch_command is None:
        _ask_trainer(plan, made, ask)


def _ask_trainer(plan: SweepPlan, made: Mapping[str, Blueprint], ask: AskTrainer | None) -> None:
    """Refuse what the trainer would refuse, before the first run does. It is asked about as few configs as
    hold every level, and about no more than MOST_ASKED."""
    left = {
        run.name: {item for item in plan.overrides(run).items() if item[0] != plan.seed_key}
        for run in plan.all_runs
    }
    seen: set[tuple[str, Scalar]] = set()
    for number in range(min(MOST_ASKED, len(left))):
        name = max(left, key=lambda each: len(left[each] - seen))
        if number and left[name] <= seen:
            return
        seen |= left.pop(name)
        answered = (ask or check_trainer)(replace(made[name], launch_command=None))
        if answered.errors:
            raise SweepError(f"the trainer refuses the config of run {name}: {answered.errors}")


# --- keys that would be varied in vain, and what follows from varying the others ----------------------------


def check_keys(plan: SweepPlan, blueprint: Blueprint, config: str | None) -> None:
    """Refuse a plan with a key that would change nothing. `config`: the text the runs are made from. Raises
    SweepError, CommandError."""
    for key in dict.fromkeys((*plan.varied_keys, *plan.settings, *plan.canary)):
        if kind_of(key) == "env":
            check_reaches(blueprint.launch_command or "", bare(key), blueprint.codebase_dir)
        elif kind_of(key) == "arg":
            _check_flag(key, blueprint)
        else:
            _check_config_key(key, blueprint, config)


def _check_flag(key: str, blueprint: Blueprint) -> None:
    """Refuse a flag that would not arrive at the training."""
    if blueprint.launch_command is None:
        raise SweepError(
            f"{key}: the blueprint has no launch command, so there are no flags; what the bundled trainer is "
            "to do stands in its config: vary a config key, as ajet.trainer_common.optim.lr"
        )
    script = read(blueprint.launch_command).script_given(key)
    path = blueprint.codebase_dir / script if script is not None else None
    if path is None or not path.is_file():
        return
    if not _READS_ARGUMENTS.search(path.read_text(encoding="utf-8", errors="replace")):
        raise SweepError(
            f'{key}: {script} would be given {bare(key)} and reads no arguments; write "$@" behind the '
            "command in it that trains"
        )


def _check_config_key(key: str, blueprint: Blueprint, config: str | None) -> None:
    if config is None:
        raise SweepError(
            f"{key}: the blueprint names no config, so there is no such key; name the config under "
            "[exp_yaml_path], or vary a flag of the command as arg:--NAME"
        )
    if not launching.uses_config(blueprint):
        raise SweepError(
            f"{key}: the launch command does not name the config {blueprint.yaml_path}, so a run's own "
            "copy of it would not be read; write its path into the command, or vary a flag as arg:--NAME"
        )
    command = read(blueprint.launch_command or "")
    held = [text for name, text in command.values.items() if kind_of(name) == "env"]  # ARGS="--lr 1"
    for given in (command, *(read(f"program {text}") for text in held)):
        if given.sets(key) is not None:
            found = given.setting_of(key)
            raise SweepError(
                f"{key}: the launch command sets it itself, which holds against the config; vary "
                f"{found.name if found else 'that flag as arg:--NAME'} instead"
            )
    known = leaves(config)
    if key not in known and not any(other.startswith(f"{key}.") for other in known):
        _refuse_unknown(key, known)


def _refuse_unknown(key: str, known: Mapping[str, object]) -> None:
    """Refuse a key that the config does not have, unless the trainer is known to have a default for it."""
    is_ajet = any(name.startswith("ajet.") for name in known)
    hint = did_you_mean(key, known)
    if is_ajet and key.startswith(_PASSED_ON):
        return
    if is_ajet and key.startswith("ajet."):
        if config_keys.meaning((key,), is_ajet=True).role != "unknown":
            return
        meant = config_keys.nearest_own_key(key)
        hint = f"; did you mean {meant}?" if meant else ""
    hint = hint or "; write it there with its present value if it is read"
    raise SweepError(f"{key}: the config has no such key, so nothing may read it{hint}")


def warnings(plan: SweepPlan, base: Base) -> tuple[str, ...]:
    """What follows from varying these keys, one sentence each; and folders that all runs would write to."""
    kinds = {key.name: config_keys.about(key.name) for key in plan.keys}
    asked = [f"{key} {_CONSEQUENCES[kind]}" for key, kind in kinds.items() if kind in _CONSEQUENCES]
    settings = leaves(base.config) if base.config is not None else {}
    if any(name.startswith("ajet.") for name in settings):
        return tuple(asked)
    given = {**settings, **read_or_empty(base.blueprint.launch_command or "").values}
    shared = [
        f"{bare(key).lstrip('-')} is {value} in all runs, which may overwrite each other's files there: give "
        'it as "$HARNESS_ATTEMPT_DIR/…" in the launch command, a folder of each run\'s own'
        for key, value in given.items()
        if is_output(key) and isinstance(value, str) and "$" not in value and key not in plan.varied_keys
    ]
    return (*asked, *shared)
