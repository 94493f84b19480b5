"""The experiment while it is being written: what the person gave, what the model made of it, and the texts.

In: a `Brief` and the model's renders. Out: `Composed` texts, and the `Findings` of a check of them.
What the person gave with `--set` wins over the model; what a model may not decide is refused here, before
anything is composed.
"""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import templating
from harness.agent.trainer_keys import TrainerKeys
from harness.author.calls import Finish, RenderBlueprint, RenderConfig
from harness.author.request_text import names_path
from harness.blueprint import Blueprint, Problem, check_surroundings, check_trainer, read
from harness.blueprint.scaffold import (
    Composed,
    ScaffoldError,
    compose,
    dotted,
    has_config,
    sort_answers,
)
from harness.blueprint.surroundings import ask_own_trainer
from harness.config.edit import get, load
from harness.earlier_runs import estimate, metrics_of_program
from harness.guard.science import refuse_settings

_PACKAGE = "ajet_harness-*.dist-info"


class RefusedError(Exception):
    """A model may not decide this; the message says why and what to do instead."""


@dataclass(frozen=True)
class Brief:
    """What the person gave: the request, answers of `--set`, a template or None for any, where the new folder
    goes, and where the command was typed."""

    words: str
    given: Mapping[str, str] = field(default_factory=dict)
    template: str | None = None
    folder: Path = field(default_factory=Path)
    cwd: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True)
class Draft:
    """What has been rendered so far; `handover` is set at the end."""

    blueprint: RenderBlueprint | None = None
    config: RenderConfig | None = None
    handover: Finish | None = None

    @property
    def name(self) -> str:
        return self.blueprint.name if self.blueprint else "draft"

    @property
    def plan(self) -> RenderBlueprint:
        """The blueprint. Raises RefusedError while there is none."""
        if self.blueprint is None:
            raise RefusedError("there is no blueprint yet: call render_blueprint first")
        return self.blueprint


def refuse_blueprint(asked: RenderBlueprint, brief: Brief) -> None:
    """Raises RefusedError for what is not the model's to choose."""
    if brief.template not in (None, asked.template):
        raise RefusedError(f"the person chose the template {brief.template}")
    if asked.template == "grpo" and (asked.launch_command or asked.metrics):
        raise RefusedError(
            "the template grpo has its own command and metrics: leave out launch_command and metrics"
        )
    folder = asked.codebase_dir
    if folder not in ("", ".", "./", str(brief.cwd)) and not names_path(brief.words, folder):
        raise RefusedError(
            f"the request does not name the folder {folder!r}, and programs in the working directory are "
            "run: leave out codebase_dir, which takes the current directory"
        )


def refuse_config(asked: RenderConfig, draft: Draft) -> None:
    """Raises RefusedError for settings that are not the model's to choose."""
    if draft.blueprint and not has_config(draft.blueprint.template):
        raise RefusedError(f"the template {draft.blueprint.template} has no config")
    if why := refuse_settings(asked.settings):
        raise RefusedError(why)


def composed(draft: Draft, brief: Brief, target: Path) -> Composed:
    """The texts for an experiment whose folder is `target`. Raises ScaffoldError, RefusedError."""
    blueprint = draft.plan
    try:
        sections, settings = sort_answers(brief.given, blueprint.template)
    except ScaffoldError as error:
        raise ScaffoldError(f"{error} (the person gave this with --set)") from error
    made = dotted(draft.config.settings) if draft.config and has_config(blueprint.template) else {}
    return compose(
        draft.name,
        target,
        {**_sections(blueprint, draft.handover), **sections},
        {**made, **settings},  # by dotted key, so that a person's answer replaces the model's under any name
        blueprint.template,
        brief.cwd,
    )


def _sections(blueprint: RenderBlueprint, handover: Finish | None) -> dict[str, str]:
    assumptions = handover.assumptions if handover else ()
    names = ("purpose", "max_time", "first_step", "launch_command", "codebase_dir")
    sections = {name: str(getattr(blueprint, name)) for name in names}
    sections |= {
        "venv_exe": sys.executable if blueprint.python == "harness" else "",
        "metrics": "\n".join(blueprint.metrics),
        "protected_keys": "\n".join(blueprint.protected_keys),
        "notes": templating.render(
            "prompts/author_notes.md.j2",
            notes=blueprint.notes.strip(),
            assumptions=[" ".join(text.split()) for text in assumptions],
        ),
    }
    return {key: text for key, text in sections.items() if text.strip()}


# --- `harness check` of an experiment that is not written yet ---


@dataclass(frozen=True)
class Findings:
    """Sentences for people, each with what to do. `needs`: what this machine or this version does not have;
    the experiment is as it should be all the same. `takes`: how long it is expected to take; `metrics`:
    what earlier runs of the same program measured."""

    problems: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    takes: str = ""
    metrics: tuple[str, ...] = ()


def check(draft: Draft, brief: Brief, keys: TrainerKeys) -> Findings:
    """What is wrong with the draft. Raises ScaffoldError where it cannot even be composed.

    The texts are put into a temporary folder from which everything resolves as it will from the real one;
    nothing is run but the trainer's dry run. That trainer is the one installed beside the harness, unless the
    person named the codebase or the Python: a folder in which the command was merely typed may be anybody's.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent).resolve() / draft.name
        texts = composed(draft, brief, folder)
        folder.mkdir()
        for name, text in texts.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        plan = check_surroundings(read(folder / "blueprint.md", brief.cwd))
        plan = check_trainer(plan) if _is_named(draft, brief) else _checked_from_elsewhere(plan)
        config = texts.config or ""
        problems = [
            f"the protected key {key} is not a key of the trainer — write it in full, as list_keys shows it"
            for key in plan.protected_keys
            if config and not keys.knows(key)
        ]
        needs, warnings = list[str](), list[str]()
        for problem in plan.problems:
            if "ajet.backbone is refused" in problem.message:
                needs.append(_need(problem, config))
            else:
                text = f"{problem.message} — {problem.fix}".replace(f"{folder}/", "")
                (problems if problem.severity == "error" else warnings).append(text)
        takes = estimate(plan, config)
        known = takes.in_words if takes else "not known: no earlier run is like it"
        said = (tuple(problems), tuple(needs), tuple(warnings))
        return Findings(*said, known, metrics_of_program(plan))


def _is_named(draft: Draft, brief: Brief) -> bool:
    """True if the person named the folder or the Python, whose code is run then."""
    sections = sort_answers(brief.given, draft.plan.template)[0]
    has_own = draft.plan.codebase_dir not in ("", ".", "./", str(brief.cwd))  # refused unless it is named
    return has_own or bool(sections.get("codebase_dir") or sections.get("venv_exe"))


def _checked_from_elsewhere(plan: Blueprint) -> Blueprint:
    """`check_trainer` without running anything of the codebase: its Python is looked at, not started."""
    if plan.launch_command is not None or not plan.can_run:
        return plan
    python = plan.venv_exe
    plan = check_trainer(plan, ask=lambda python, config, codebase: ask_own_trainer(config, codebase))
    if python == Path(sys.executable):
        return plan
    if any(python.parent.parent.glob(f"lib/python*/site-packages/{_PACKAGE}")):
        what = f"{python} was not run: the check was made with the trainer installed beside the harness"
        unasked = Problem(1, what, "`harness check` asks this Python itself", "warning")
    else:
        what = f"the Python {python} of the codebase does not have the bundled trainer"
        fix = "use the one that runs the harness (python: harness), or name the one to use"
        unasked = Problem(1, what, fix)
    return replace(plan, problems=(*plan.problems, unasked))


def _need(problem: Problem, config: str) -> str:
    """A backbone that is not here, in words about machines."""
    data = load(config)
    backbone, gpus = get(data, "ajet.backbone"), get(data, "ajet.trainer_common.n_gpus_per_node")
    said = problem.message.partition("refused: ")[2]
    return (
        f"needs a machine with {gpus or ''} GPUs and a trainer that has the backbone {backbone}; here: {said}"
    )
