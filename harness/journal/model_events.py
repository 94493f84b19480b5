"""What a run's journal keeps of the language model: its questions, calls and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from harness.journal.order import Event


class ModelAvailable(Event, kind="model_available"):
    """The model decides again."""

    model: str


class ModelUnavailable(Event, kind="model_unavailable"):
    """The playbook decides, although a model was asked for."""

    why: str


class ModelTried(Event, kind="model_tried", bars="calling"):
    """One small request before anything was launched. `trouble`: why it was not answered, "" where it was."""

    model: str
    trouble: str = ""


class Consult(Event, kind="consult", bars="consulting", sets="consulting"):
    """A question to the model is opened. `topic` names it for good; `facts` fill its prompt."""

    topic: str
    why: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Consulted(Event, kind="consulted", needs="consulting", clears="consulting"):
    """The question is closed. `gave_up`: no launch may follow; `drops_draft`: what it had changed for the
    next launch is dropped; `unanswered`: for want of an answer, or as the program goes on by itself, so it
    may be put again."""

    topic: str
    why: str
    gave_up: bool = False
    drops_draft: bool = False
    unanswered: bool = False


class ViewShrunk(Event, kind="view_shrunk", needs="consulting"):
    """The request did not fit the model; the next one is half as long."""

    topic: str
    why: str


class CallRejected(Event, kind="call_rejected", needs="consulting"):
    """An answer that is no usable tool call. `call`: number of the call."""

    call: int
    why: str


class LlmReserved(Event, kind="llm_reserved", bars="calling", sets="calling"):
    """A call is about to be made. `reserved_usd`: the most it can cost, None where the price is not known;
    `request`: the hash by which the transcript has it."""

    call: int
    reserved_usd: float | None
    model: str
    request: str


class LlmRetried(Event, kind="llm_retried", needs="calling"):
    """The provider did not answer; the call is tried again. `cost_usd`: of all tries so far."""

    call: int
    error: str
    tries: int = 1
    cost_usd: float | None = None
    reserved_usd: float | None = None


class LlmSettled(Event, kind="llm_settled", needs="calling", clears="calling"):
    """The model answered. `usage`: tokens by kind; `calls`: tool calls, each {id, name, arguments}."""

    call: int
    cost_usd: float | None
    usage: Mapping[str, int]
    stop: str
    text: str = ""
    calls: tuple[Mapping[str, str], ...] = ()
    is_estimated: bool = False
    tries: int = 1


class LlmFailed(Event, kind="llm_failed", needs="calling", clears="calling"):
    """The call came to nothing; what it cost is `is_estimated` where it was cut off."""

    call: int
    cost_usd: float | None
    error: str
    is_estimated: bool = False
    tries: int = 1


OF_THE_MODEL = (LlmReserved, LlmRetried, LlmSettled, LlmFailed, CallRejected, ViewShrunk, Consult, Consulted)
"""What a policy that asks a model records by itself."""
