"""A language model writes what a careful colleague would add to a sweep's numbers: findings, limitations,
next steps.

In: the comparison as sweep.json has it, and a model. Out: sections of Markdown, {} where there are none. Each
draft is held to the comparison by the claims checker; what it does not bear out goes back to the model, at
most MAX_REFUSALS times, and is kept then: the report strikes it. A model that fails costs the sweep nothing
but the words.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from harness import templating
from harness.agent.actions import Action
from harness.providers.conversation import LONGEST_TEXT, Account, Answer, Asked, framed, talk

if TYPE_CHECKING:
    from harness.results.claims import Checked

MAX_REFUSALS = 2
MOST_CALLS = 6
LONGEST_COMPARISON = 60_000
_DIGITS = 6
_OF_RUN = ("value", "outcome", "why_not", "last_step", "hours", "deviations")
_KEPT = (
    "metric",
    "threshold",
    "best",
    "keys",
    "interactions",
    "points",
    "expected",
    "missing",
    "confounds",
    "notes",
)
_LEFT_OUT = frozenset({"method", "degrees", "area", "planned"})

Text = Annotated[str, Field(max_length=6000)]


class WriteSections(Action):
    """Write the sections of the report. Every number and every claim of difference in them is checked against
    the comparison; what it does not bear out comes back with the reason."""

    doing: ClassVar[str] = "writing about the results"
    kind: Literal["write_sections"] = "write_sections"
    findings: Annotated[
        Text, Field(min_length=1, description="What the comparison says about the question. Markdown.")
    ]
    limitations: Annotated[
        Text, Field(min_length=1, description="What it cannot say, and which runs are missing and why.")
    ]
    next_steps: Annotated[Text, Field(description="What to run next, and what it would settle.")] = ""


async def narrate(
    comparison: Mapping[str, Any],
    model: Asked,
    account: Account,
    interrupted: asyncio.Event | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, str]:
    """The sections by name. `comparison`: as `comparing.as_json.to_json` gives it."""
    errand = _Narrating(comparison)
    await talk(errand, model, account, interrupted or asyncio.Event(), say)
    return errand.sections


class _Narrating:
    """The errand of writing the sections. `sections`: the newest draft."""

    handover = "write_sections"
    most_calls = MOST_CALLS

    def __init__(self, comparison: Mapping[str, Any]) -> None:
        from harness.results.claims import evidence_of_comparison
        from harness.results.comparing.as_json import from_json

        self._comparison = comparison
        self._evidence = evidence_of_comparison(from_json(comparison))
        self._refusals = 0
        self.sections: dict[str, str] = {}
        self.is_done = False

    @property
    def offered(self) -> Sequence[type[Action]]:
        return (WriteSections,)

    def system(self) -> str:
        return templating.render("prompts/sweep_narrate.md.j2")

    def opening(self) -> str:
        shown = json.dumps(seen(self._comparison), ensure_ascii=False, separators=(",", ":"))
        return templating.render(
            "prompts/sweep_results.md.j2",
            question=framed(str(self._comparison["study"]["question"])),
            comparison=framed(shown[:LONGEST_COMPARISON]),
            is_cut=len(shown) > LONGEST_COMPARISON,
        )

    def carry_out(self, call: Action) -> Answer:
        from harness.results.claims import check_sections

        assert isinstance(call, WriteSections)
        written = {
            name: str(getattr(call, name)).strip() for name in ("findings", "limitations", "next_steps")
        }
        self.sections = {name: text for name, text in written.items() if text}
        checked = check_sections(self.sections, self._evidence)
        if checked.ok or self._refusals == MAX_REFUSALS:
            self.is_done = True
            return Answer("kept")
        self._refusals += 1
        return Answer(_faults(checked)[:LONGEST_TEXT], is_error=True)


def seen(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison as the model sees it: without curves and folders, numbers to six digits, nothing that is
    empty."""
    study = comparison["study"]
    found: dict[str, Any] = _short(
        {
            "design": study["design"],
            "goal": study["goal"],
            "varied": study["keys"],
            "metric_was_chosen_afterwards": comparison["chosen_afterwards"],
            "only_one_seed_per_point": comparison["is_single_seed"],
            **{name: comparison[name] for name in _KEPT},
            "runs": [
                {"run": run["run"]["name"], **{name: run[name] for name in _OF_RUN}}
                for run in comparison["runs"]
            ],
            "not_run": study["not_run"],
        }
    )
    return found


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        items = ((key, _short(item)) for key, item in value.items() if key not in _LEFT_OUT)
        return {key: item for key, item in items if item is not None and item not in ("", [], {})}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


def _faults(checked: Checked) -> str:
    """What the comparison does not bear out, one line each."""
    lines = [f"- “{claim.sentence or claim.text}”: {claim.why}" for claim in checked.wrong]
    lines += [f"- the text {omission.text}" for omission in checked.omissions]
    return templating.render("prompts/sweep_refused.md.j2", lines=lines)
