"""One run's own blueprint and config, as texts: what a person can read, and run alone.

In: the plan, the run, the blueprint that the sweep was made from. Out: the texts. A blueprint is read back
before it counts: it must mean what was meant, field by field.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import launching, templating
from harness.config import edit as config_edit
from harness.config.edit import ConfigEditError, Scalar
from harness.experiment import plan_of
from harness.sweep.folder import CANARY, SweepFolder
from harness.sweep.types import SweepError, SweepPlan, SweepRun
from harness.sweep.values import as_text, is_same
from harness.sweep.varying import command_line, settings

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_FIELDS = (
    *("purpose", "codebase_dir", "venv_exe", "yaml_path", "launch_command", "result_dir", "max_time_s"),
    *(
        "first_step_s",
        "metrics",
        "protected_keys",
        "code_changes",
        "prepare_command",
        "cleanup_command",
        "host",
    ),
)
_FENCE = re.compile(r"`{3,}")
_CONFIG = Path("/the/config/of/this/run.yaml")


@dataclass(frozen=True)
class Base:
    """What all runs are made from. `config`: its text, None where a command runs without one. `codebase`: the
    frozen code; `relocate` points the absolute paths of a command into it."""

    blueprint: "Blueprint"
    config: str | None
    codebase: Path
    relocate: Callable[[str], str] = str


@dataclass(frozen=True)
class Composed:
    """One run, before it is written. `config`: None where there is none."""

    blueprint: str
    config: str | None


def compose(plan: SweepPlan, run: SweepRun, base: Base, folder: SweepFolder) -> Composed:
    """The texts of a run. Raises SweepError where something cannot be set, or cannot be said in a
    blueprint."""
    wanted = settings.of_run(plan, run)
    config = None if base.config is None else _config(base.config, settings.of_kind(wanted, "config"), run)
    meant = _meant(plan, run, base, folder, wanted)
    return Composed(_blueprint_text(meant), config)


def _config(text: str, wanted: Mapping[str, Scalar], run: SweepRun) -> str:
    try:
        return config_edit.edit(text, wanted)
    except ConfigEditError as error:
        raise SweepError(f"run {run.name}: {error}") from error


def _meant(
    plan: SweepPlan, run: SweepRun, base: Base, folder: SweepFolder, wanted: Mapping[str, Scalar]
) -> "Blueprint":
    """The run's blueprint as it is to be understood."""
    given, relocate = base.blueprint, base.relocate
    config = folder.run_config(run.name) if base.config is not None else None
    prepare, cleanup = given.prepare_command, given.cleanup_command
    return replace(
        given,
        path=folder.run_blueprint(run.name),
        name=run.name,
        purpose="\n".join(filter(None, (given.purpose, _what_differs(plan, run)))),
        codebase_dir=base.codebase,
        yaml_path=config,
        launch_command=_command(base, config, wanted),
        result_dir=folder.result_dir(run.name),
        protected_keys=settings.protected_keys(plan, given.protected_keys),
        prepare_command=relocate(prepare) if prepare is not None else None,
        cleanup_command=relocate(cleanup) if cleanup is not None else None,
    )


def _command(base: Base, config: Path | None, wanted: Mapping[str, Scalar]) -> str | None:
    """The launch command with this run's config, flags and variables; None where the harness makes it."""
    flags, variables = settings.of_kind(wanted, "arg"), settings.of_kind(wanted, "env")
    given = base.blueprint.launch_command
    if given is None:
        if not variables:
            return None
        text = shlex.join([str(base.blueprint.venv_exe), "-m", "trainer_core.cli", "--conf", str(_CONFIG)])
    else:
        text = base.relocate(launching.command(plan_of(base.blueprint), _CONFIG if config else None))
    text = text.replace(str(_CONFIG), quoted(config)) if config else text
    for flag, value in flags.items():
        text = command_line.set_flag(text, flag, as_text(value))
    for name, value in variables.items():
        text = command_line.set_variable(text, name, as_text(value))
    return text


def quoted(path: Path) -> str:
    """A path as one quotation, so that a launch finds it in the command: `shlex.quote` writes several where
    an apostrophe is in it."""
    text = str(path)
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\]', text) else shlex.quote(text)


def _what_differs(plan: SweepPlan, run: SweepRun) -> str:
    """One sentence that tells this run from its siblings."""
    levels = plan.point(run.point).levels
    differs = [
        (key.name, as_text(levels[key.name]), as_text(key.baseline))
        for key in plan.keys
        if not is_same(levels[key.name], key.baseline)
    ]
    return templating.render(
        "sweeps/purpose.md.j2",
        sweep=plan.name,
        point=run.point,
        differs=differs,
        seed=run.seed,
        is_canary=run.name == CANARY,
    ).strip()


def _blueprint_text(meant: "Blueprint") -> str:
    """The blueprint as Markdown. Words that would be read as something else are put in a block."""
    refused = ""
    for is_in_blocks in (False, True):
        text, shown = _rendered(meant, is_in_blocks)
        refused = _misread(text, shown)
        if not refused:
            return text
    raise SweepError(f"the blueprint of run {meant.name} cannot be written: {refused}")


def _rendered(meant: "Blueprint", is_in_blocks: bool) -> tuple[str, "Blueprint"]:
    """The text, and what it is to be understood as."""
    from harness.wording import exact_duration

    fence = _fence(meant)
    notes, purpose = meant.notes, meant.purpose
    if is_in_blocks:
        notes = f"{fence}text\n{notes}\n{fence}" if notes else ""
        purpose = f"{fence}text\n{purpose}\n{fence}"
    text = templating.render(
        "sweeps/blueprint.md.j2",
        plan=replace(meant, purpose=purpose),
        notes=notes,
        fence=fence,
        max_time=exact_duration(meant.max_time_s),
        first_step=exact_duration(meant.first_step_s),
    )
    return text, replace(meant, notes=notes)


def _fence(meant: "Blueprint") -> str:
    """A code fence that none of the texts inside closes."""
    texts = (meant.launch_command, meant.prepare_command, meant.cleanup_command, meant.notes, meant.purpose)
    longest = max((len(found) for text in texts for found in _FENCE.findall(text or "")), default=2)
    return "`" * (longest + 1)


def _misread(text: str, meant: "Blueprint") -> str:
    """What the text would be understood as where that is not what was meant; ""."""
    from harness.blueprint import parse

    understood = parse(text, meant.path, meant.path.parent)
    for problem in understood.problems:
        if problem.severity == "error":
            return f"{problem.message} — {problem.fix}"
    for name in _FIELDS:
        if getattr(understood, name) != getattr(meant, name):
            was, would_be = getattr(meant, name), getattr(understood, name)
            return (
                f"its {name} {was!r} would be read as {would_be!r}; say it in simpler words in the blueprint"
            )
    if understood.notes.split() != meant.notes.split():
        return "its notes would be read as something else; say them in simpler words in the blueprint"
    return ""
