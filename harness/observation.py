"""What a policy sees, and what a policy is."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.actions import Action
from harness.state import ExperimentState
from monitors.rules import Health

if TYPE_CHECKING:
    from harness.results.narrative.evidence import Evidence


@dataclass(frozen=True)
class Progress:
    """How far a running attempt is. `share`: of its steps or epochs, None where their number is not known;
    `expected_s`: how long it will have trained at its pace, so far where that is not known."""

    expected_s: float
    share: float | None = None


@dataclass(frozen=True)
class Observation:
    """What a policy sees before it decides. Times are seconds since the epoch.

    `launched_unrecorded`: the newest attempt was launched by a harness that died before it could say so.
    `first_step_overdue`: the running attempt has shown no first step within its time although its metrics
    are known. `health`: what the running attempt shows; `progress`: how far it is, None before its first
    step. `config`: the text that the next launch would start
    from, without the draft's changes; "" when no attempt may follow or there is no config. `evidence`: what
    a narrative may cite, None before results were collected and for policies that write none.
    """

    state: ExperimentState
    now: float
    first_step_overdue: bool = False
    launched_unrecorded: bool = False
    health: Health = field(default_factory=Health)
    progress: Progress | None = None
    config: str = ""
    result_dir: Path = Path()
    evidence: "Evidence | None" = None

    def beyond_state(self) -> dict[str, Any]:
        """What the journal keeps of it beside the state, to make the decision once more from it."""
        kept: dict[str, Any] = {"now": self.now}
        if self.first_step_overdue or self.launched_unrecorded:
            kept |= {"overdue": self.first_step_overdue, "unrecorded": self.launched_unrecorded}
        if self.progress is not None and self.state.options.looks:
            kept["progress"] = asdict(self.progress)
        return kept if self.health == Health() else {**kept, "health": asdict(self.health)}


class Policy(Protocol):
    """Who decides the next action: the built-in playbook, or a language model."""

    name: str

    async def decide(self, observation: Observation) -> Action:
        """The next action. After a refusal the same observation comes again, with `state.refusals` filled."""
        ...

    async def try_out(self) -> str:
        """Why it cannot decide, tried before the first launch, once in a run; "" where it can."""
        ...
