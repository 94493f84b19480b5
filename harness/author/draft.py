"""The experiment while it is being written: what the person gave, what the model made of it, and the texts.

In: a `Brief` and the model's renders. Out: `Composed` texts. What the person gave with `--set` wins over the
model; what a model may not decide is refused here, before anything is composed.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import templating
from harness.author.calls import Finish, RenderBlueprint, RenderConfig
from harness.author.request_text import names_path
from harness.blueprint.scaffold import (
    Composed,
    ScaffoldError,
    compose,
    has_config,
    sort_answers,
)
from harness.config.edit import Scalar
from harness.config.keys import short_names
from harness.guard.science import refuse_settings


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


def refuse_blueprint(asked: RenderBlueprint, brief: Brief) -> None:
    """Raises RefusedError for what is not the model's to choose."""
    if brief.template not in (None, asked.template):
        raise RefusedError(f"the person chose the template {brief.template}")
    if asked.template == "grpo" and asked.launch_command:
        raise RefusedError(
            "with the template grpo the harness makes the command itself: leave out launch_command"
        )
    if asked.template == "grpo" and asked.metrics:
        raise RefusedError("the bundled trainer's metric lines are known: leave out metrics")
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
    """The texts for an experiment whose folder is `target`. Raises ScaffoldError."""
    blueprint = draft.blueprint
    assert blueprint is not None
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


def dotted(settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Settings with their keys written out."""
    return {short_names().get(key, key): value for key, value in settings.items()}


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
