"""The errand of writing an experiment: carries out a model's calls, and holds the draft.

In: a `Brief` and the model's calls. Out: the answers, and the draft as it then stands. Nothing outside
temporary folders is written, and nothing is run but the trainer itself, to explain its keys or to check a
config.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from harness import templating
from harness.agent.excerpts import NotShownError
from harness.agent.trainer_keys import TrainerKeys
from harness.author import draft as drafts
from harness.author.calls import OFFERED, Check, Finish, ListKeys, Look, RenderBlueprint, RenderConfig
from harness.author.draft import (
    Brief,
    Draft,
    Findings,
    RefusedError,
    composed,
    refuse_blueprint,
    refuse_config,
)
from harness.author.lookups import look
from harness.blueprint.scaffold import Composed, ScaffoldError, place_for, render_config
from harness.earlier_runs import EarlierRun, in_folder
from harness.providers.conversation import LONGEST_TEXT, Answer, cut, framed
from harness.providers.tools import Action
from harness.wording import short_duration

MAX_CALLS = 25
MOST_METRICS = 30

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class DraftSession:
    """The draft, and what was found out about it; an `Errand`. `findings` is None while the draft has changed
    since the last check."""

    offered = OFFERED
    handover = "finish"
    most_calls = MAX_CALLS

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.draft = Draft()
        self.findings: Findings | None = None

    def system(self) -> str:
        return templating.render("prompts/author.md.j2")

    def opening(self) -> str:
        brief = self.brief
        try:
            files = look(".", 1, brief.cwd)
        except NotShownError as error:
            files = str(error)
        return templating.render(
            "prompts/author_request.md.j2",
            words=framed(brief.words),
            given={key: framed(value) for key, value in brief.given.items()},
            template=brief.template,
            files=framed(files),
            earlier=[_earlier(run) for run in in_folder(brief.cwd)],
            config=render_config("NAME", {}),
        )

    @property
    def is_done(self) -> bool:
        return self.draft.handover is not None

    def carry_out(self, call: Action) -> Answer:
        """Do what was asked for; what is refused or fails is answered as an error."""
        does: dict[type[Action], Callable[[Any], str]] = {
            Look: lambda call: look(call.path, call.lines, self.brief.cwd),
            ListKeys: lambda call: self.keys.search(call.words),
            RenderBlueprint: self._render_blueprint,
            RenderConfig: self._render_config,
            Check: self._check,
            Finish: self._finish,
        }
        try:
            _refuse_unprintable(call.model_dump())
            return Answer(cut(does[type(call)](call), LONGEST_TEXT))
        except (RefusedError, ScaffoldError, NotShownError) as error:
            return Answer(str(error), is_error=True)

    @cached_property
    def keys(self) -> TrainerKeys:
        return TrainerKeys.ask()

    def check(self) -> Findings:
        """The findings about the draft as it stands. Raises ScaffoldError, NoKeysError."""
        if self.findings is None:
            self.findings = drafts.check(self.draft, self.brief, self.keys)
        return self.findings

    def texts(self, draft: Draft | None = None) -> Composed:
        """The texts of the draft in the folder that it is meant for. Raises ScaffoldError."""
        draft = draft or self.draft
        return composed(draft, self.brief, place_for(draft.name, self.brief.folder, self.brief.cwd))

    def _render_blueprint(self, call: RenderBlueprint) -> str:
        refuse_blueprint(call, self.brief)
        draft = replace(self.draft, blueprint=call)
        text = self.texts(draft).blueprint
        self.draft, self.findings = draft, None
        return text

    def _render_config(self, call: RenderConfig) -> str:
        refuse_config(call, self.draft)
        draft = replace(self.draft, config=call)
        if draft.blueprint is None:
            text = render_config(draft.name, call.settings)
        else:
            text = self.texts(draft).config or ""
        self.draft, self.findings = draft, None
        return text

    def _check(self, call: Check) -> str:
        found = self.check()
        lines = [f"problem: {text}" for text in found.problems]
        lines += [f"this machine lacks something, the person is told: {text}" for text in found.needs]
        lines += [f"note: {text}" for text in found.warnings]
        lines.append(f"how long it takes: {found.takes}; it may take {self.draft.plan.max_time or 'a day'}")
        return "\n".join(["problems were found" if found.problems else "no problems", *lines])

    def _finish(self, call: Finish) -> str:
        if self.findings is None:
            raise RefusedError("what you rendered last has not been checked: call check first")
        draft = replace(self.draft, handover=call)
        self.texts(draft)
        self.draft = draft
        return "handed over"


def _earlier(run: EarlierRun) -> dict[str, str]:
    """What an earlier run in this folder tells, as data."""
    command, took = " ".join(run.state.command.split()), short_duration(run.took_s)
    metrics = ", ".join(run.metrics()[:MOST_METRICS]) or "none"
    return {"command": framed(command, 400), "took": took, "metrics": framed(metrics, 1000)}


def _refuse_unprintable(value: Any) -> None:
    """Text that a terminal would obey, or show in another order than it stands, is not written anywhere."""
    if isinstance(value, str) and _UNPRINTABLE.search(value):
        raise RefusedError("control characters are not written: use plain text, with line breaks only")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    for item in value if isinstance(value, list | tuple) else ():
        _refuse_unprintable(item)
