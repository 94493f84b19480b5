"""A language model writes what a careful colleague would add to a sweep's numbers.

In: the comparison of the sweep's runs, and a model. Out: sections by name as the journal keeps them, {} where
there are none. A draft that holds what cannot be cited goes back to the model, at most MAX_REFUSALS times;
then what can stand of it is kept. A model that fails costs the sweep nothing but the words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness import templating
from harness.actions import Action, WriteSections
from harness.providers.conversation import LONGEST_TEXT, Account, Answer, framed, talk
from harness.providers.model import Model
from harness.results.narrative import sections
from harness.results.narrative.evidence import listing

if TYPE_CHECKING:
    from harness.results.comparing.types import Comparison

MOST_CALLS = 6


async def narrate(comparison: Comparison, model: Model, account: Account) -> Mapping[str, Any]:
    """The sections by name, as `results.narrative.sections.tell` takes them."""
    errand = _Narrating(comparison)
    await talk(errand, model, account, asyncio.Event())
    return errand.written


class _Narrating:
    """The errand of writing the sections. `written`: what can stand of the newest draft."""

    handover = "write_sections"
    most_calls = MOST_CALLS

    def __init__(self, comparison: Comparison) -> None:
        from harness.results.narrative.sweep import SweepEvidence

        self._comparison = comparison
        self._evidence = SweepEvidence(comparison)
        self._refusals = 0
        self.written: dict[str, Any] = {}
        self.is_done = False

    @property
    def offered(self) -> Sequence[type[Action]]:
        return (WriteSections,)

    def system(self) -> str:
        return templating.render("prompts/sweep_narrate.md.j2")

    def opening(self) -> str:
        due = (self._evidence.resolve(finding) for finding in self._evidence.due)
        return templating.render(
            "prompts/sweep_results.md.j2",
            question=framed(self._comparison.study.question),
            metric=self._comparison.metric,
            facts=framed(listing(self._evidence)),
            added=[framed(sections.worded(item, "en")) for item in (*due, *self._evidence.cautions)],
        )

    def carry_out(self, call: Action) -> Answer:
        assert isinstance(call, WriteSections)
        self.written = sections.published(call.sections, self._evidence)["written"]
        fault = sections.refusal(call.sections, self._evidence)
        if fault is None or self._refusals == sections.MAX_REFUSALS:
            self.is_done = True
            return Answer("kept")
        self._refusals += 1
        return Answer(fault[:LONGEST_TEXT], is_error=True)
