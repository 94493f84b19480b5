"""Carries out the calls of a model that writes an experiment.

In: a call. Out: the text the model is told, and the draft as it then stands. Nothing outside temporary
folders is written, and nothing is run but the trainer itself, to explain its keys or to check a config.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness.agent.actions import Action
from harness.author import checking
from harness.author.calls import Check, Finish, ListKeys, Look, RenderBlueprint, RenderConfig
from harness.author.checking import Findings
from harness.author.draft import Brief, Draft, RefusedError, composed, dotted, refuse_blueprint, refuse_config
from harness.author.looking import NotShownError, look
from harness.author.trainer_keys import NoKeysError, TrainerKeys
from harness.blueprint.scaffold import ScaffoldError, place_for, render_config

LONGEST_TEXT = 8_000

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Answer:
    """What the model is told of its call."""

    text: str
    is_error: bool = False


class Desk:
    """The draft, and what was found out about it. `findings` is None while the draft has changed since the
    last check."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.draft = Draft()
        self.findings: Findings | None = None

    @cached_property
    def keys(self) -> TrainerKeys:
        return TrainerKeys.ask()

    def carry_out(self, call: Action) -> Answer:
        """Do what was asked for; what is refused or fails is told as an error."""
        does: dict[type[Action], Callable[..., str]] = {
            Look: self._look,
            ListKeys: self._list_keys,
            RenderBlueprint: self._render_blueprint,
            RenderConfig: self._render_config,
            Check: self._check,
            Finish: self._finish,
        }
        try:
            _refuse_unprintable(call.model_dump())
            text = does[type(call)](call)
        except (RefusedError, ScaffoldError, NotShownError, NoKeysError) as error:
            return Answer(str(error), is_error=True)
        return Answer(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n… cut")

    def check(self) -> Findings:
        """The findings about the draft as it stands. Raises ScaffoldError, NoKeysError."""
        if self.findings is None:
            self.findings = checking.check(self.draft, self.brief, self.keys)
        return self.findings

    def _look(self, call: Look) -> str:
        return look(call.path, call.lines, self.brief.cwd)

    def _list_keys(self, call: ListKeys) -> str:
        return self.keys.search(call.words)

    def _render_blueprint(self, call: RenderBlueprint) -> str:
        refuse_blueprint(call, self.brief)
        target = place_for(call.name, self.brief.folder, self.brief.cwd)
        draft = replace(self.draft, blueprint=call)
        texts = composed(draft, self.brief, target)
        self.draft, self.findings = draft, None
        return texts.blueprint

    def _render_config(self, call: RenderConfig) -> str:
        refuse_config(call, self.draft)
        draft = replace(self.draft, config=call)
        if draft.blueprint is None:
            text = render_config(draft.name, dotted(call.settings))
        else:
            target = place_for(draft.name, self.brief.folder, self.brief.cwd)
            text = composed(draft, self.brief, target).config or ""
        self.draft, self.findings = draft, None
        return text

    def _check(self, call: Check) -> str:
        if self.draft.blueprint is None:
            raise RefusedError("there is no blueprint yet: call render_blueprint first")
        found = self.check()
        lines = [f"problem: {text}" for text in found.problems]
        lines += [f"this machine lacks something, the person is told: {text}" for text in found.needs]
        lines += [f"note: {text}" for text in found.warnings]
        verdict = "problems were found" if found.problems else "no problems"
        return "\n".join([verdict, *lines])

    def _finish(self, call: Finish) -> str:
        if self.draft.blueprint is None:
            raise RefusedError("nothing was rendered: there is nothing to hand over")
        if self.findings is None:
            raise RefusedError("what you rendered last has not been checked: call check first")
        draft = replace(self.draft, handover=call)
        composed(draft, self.brief, place_for(draft.name, self.brief.folder, self.brief.cwd))
        self.draft = draft
        return "handed over"


def _refuse_unprintable(value: Any) -> None:
    """Text that a terminal would obey, or show in another order than it stands, is not written anywhere."""
    if isinstance(value, str):
        if _UNPRINTABLE.search(value):
            raise RefusedError("control characters are not written: use plain text, with line breaks only")
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            _refuse_unprintable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_unprintable(item)
