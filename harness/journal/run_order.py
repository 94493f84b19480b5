"""`RUN`: which entry of a run's journal may follow which."""

from __future__ import annotations

from typing import Any

from harness.journal.events import (
    ActionFailed,
    ApprovalAsked,
    Approved,
    AttemptEvent,
    ChangePrepared,
    Checked,
    Collected,
    CopyKept,
    Created,
    Denied,
    Detached,
    Diagnosed,
    Finish,
    Intent,
    JournalRepaired,
    Launched,
    LetGo,
    Looked,
    Noted,
    OptionsGiven,
    Owner,
    Paused,
    Prepared,
    Refused,
    Reported,
    SectionWritten,
    StopAsked,
    Stopped,
    Waited,
)
from harness.journal.model_events import (
    CallRejected,
    Consult,
    Consulted,
    LlmFailed,
    LlmReserved,
    LlmRetried,
    LlmSettled,
    ModelAvailable,
    ModelUnavailable,
    ViewShrunk,
)
from harness.journal.order import Order, Step


def _result(needs: str = "", bars: str = "", clears: str = "", sets: str = "") -> Any:
    """The row of an action's result: it closes the intent of just this action."""
    return lambda event: Step(f"acting:{event.action} {needs}", bars, f"acting {clears}", sets)


_ASIDE = Step()
RUN = Order(
    Created,
    {
        Created: Step(sets="begun"),
        OptionsGiven: _ASIDE,
        JournalRepaired: _ASIDE,
        StopAsked: _ASIDE,
        LetGo: _ASIDE,
        Detached: _ASIDE,
        Owner: Step(clears="acting calling"),
        Intent: lambda event: Step(bars="acting calling", sets=f"acting:{event.action}"),
        Refused: Step(bars="acting calling", clears="asking"),
        ActionFailed: lambda event: Step(f"acting:{event.action}", clears="acting"),
        ApprovalAsked: Step(bars="acting calling", sets="asking"),
        Approved: Step("asking", clears="asking"),
        Denied: Step("asking", clears="asking"),
        Looked: _result(),
        Noted: _result(),
        Prepared: _result(),
        Paused: _result(),
        ChangePrepared: _result(bars="running"),
        Checked: _result(bars="running"),
        Launched: _result(bars="running collected", sets="running launched"),
        Waited: lambda event: Step(
            "acting:wait running", clears="acting running" if event.ended is not None else "acting"
        ),
        Stopped: _result("running", clears="running"),
        Diagnosed: _result("launched", bars="running"),
        Collected: _result(bars="running", sets="collected"),
        SectionWritten: _result("collected"),
        Reported: _result("collected", sets="reported"),
        CopyKept: Step("acting:finish"),
        Finish: Step("acting:finish collected", bars="running", clears="acting", sets="finished"),
        AttemptEvent: Step("launched"),
        ModelAvailable: _ASIDE,
        ModelUnavailable: _ASIDE,
        Consult: Step(bars="consulting", sets="consulting"),
        Consulted: Step("consulting", clears="consulting"),
        ViewShrunk: Step("consulting"),
        CallRejected: Step("consulting"),
        LlmReserved: Step(bars="calling", sets="calling"),
        LlmRetried: Step("calling"),
        LlmSettled: Step("calling", clears="calling"),
        LlmFailed: Step("calling", clears="calling"),
    },
)
