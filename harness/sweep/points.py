"""What every run of a sweep is: the blueprint that the sweep was made from, with this run's overrides.

In: the plan, the blueprint, the frozen code. Out: `plan/<run>/blueprint.json`, from which the run is started,
`config.yaml`, its own copy of the config, and `blueprint.md`, the same for readers. Each file appears whole
or not at all, and all can be written again.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import launching, templating
from harness.atomic_write import write_atomically, write_json
from harness.command import read
from harness.config import NOTHING, as_text
from harness.config import edit as config_edit
from harness.config.edit import ConfigEditError, Scalar
from harness.config.reader import UnreadableConfigError, text_of
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepError, SweepPlan, SweepRun
from harness.sweep.values import bare, kind_of
from harness.wording import exact_duration

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

MOST_ASKED = 4
"""Configs that the trainer is shown before the start: about a second each."""
_CONFIG = Path("/the/config/of/this/run.yaml")
_BACKTICKS = re.compile(r"`{3,}")

AskTrainer = Callable[["Blueprint"], "Blueprint"]
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
        from harness.blueprint.scaffold import render_config

        return render_config(blueprint.name, {})
    try:
        return text_of(blueprint.yaml_path)
    except UnreadableConfigError as error:
        raise SweepError(f"{blueprint.yaml_path} is {error}") from error
    except OSError as error:
        raise SweepError(f"the config {blueprint.yaml_path} cannot be read: {error}") from error


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
    """Write what every run, and the canary, is started from. Raises SweepError for a plan that cannot be
    carried out."""
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
    from harness.blueprint import check_trainer

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
        refused = [problem for problem in answered.problems if problem.severity == "error"]
        if refused:
            words = "; ".join(f"{problem.message} — {problem.fix}" for problem in refused)
            raise SweepError(f"the trainer refuses the config of run {name}: {words}")
