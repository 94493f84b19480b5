"""What a policy can do: typed arguments for each action. How an action is carried out stands in
`hands.py`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.state import Outcome

StopReason = Literal["first_step_timeout", "fatal_error", "person"]


class Action(BaseModel):
    """One step that a policy asks for; `kind` names it in the journal."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: str


class Prepare(Action):
    """Write provenance and everything the run needs before its first launch."""

    kind: Literal["prepare"] = "prepare"


class Preflight(Action):
    """Check in seconds what would otherwise fail after minutes: interpreter, config, paths, disk, tmux."""

    kind: Literal["preflight"] = "preflight"


class Launch(Action):
    """Start the training in its own tmux session. Asking twice for the same attempt launches once."""

    kind: Literal["launch"] = "launch"
    attempt: Annotated[int, Field(ge=1, description="number of the attempt, counting from 1")]
    session: Annotated[str, Field(description="name of the tmux session, beginning with ajet_")]
    attempt_id: Annotated[str, Field(description="identity that every process of the attempt carries")]
    why: Annotated[str, Field(description="one sentence: why this launch")]


class Wait(Action):
    """Wait until something happens: an end, a first step, an error, a deadline, or the next back-off
    check."""

    kind: Literal["wait"] = "wait"


class Pause(Action):
    """Let time pass before the next launch, because the cause of the failure is expected to go away."""

    kind: Literal["pause"] = "pause"
    until: Annotated[float, Field(description="seconds since the epoch")]
    why: str


class Stop(Action):
    """End the running attempt: TERM, then KILL, to everything it started."""

    kind: Literal["stop"] = "stop"
    why: StopReason
    detail: Annotated[str, Field(description="one sentence with the evidence")] = ""


class Diagnose(Action):
    """Find the cause of the newest attempt's end, with lines of its log as evidence."""

    kind: Literal["diagnose"] = "diagnose"


class Collect(Action):
    """Judge the run and gather what the attempts left behind."""

    kind: Literal["collect"] = "collect"


class Report(Action):
    """Write the report and check every number in it against the raw files."""

    kind: Literal["report"] = "report"


class Finish(Action):
    """Close the session and write finish.flag; nothing happens in the experiment after this."""

    kind: Literal["finish"] = "finish"
    outcome: Outcome
    reason: str


AnyAction = Annotated[
    Prepare | Preflight | Launch | Wait | Pause | Stop | Diagnose | Collect | Report | Finish,
    Field(discriminator="kind"),
]
