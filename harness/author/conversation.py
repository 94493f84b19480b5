"""A model carries out an errand: request, one tool call at a time, answer, until it hands over.

In: an `Errand` (`converse`: a new experiment on a `Desk`) and a model. Out: `Ended`; what was made stands
with the errand. Every request is the one before with something added. The conversation ends by itself: after
its errand's most calls, after MAX_TROUBLES answers in a row that led nowhere, and when the model cannot be
asked; what was made by then stays.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness import templating
from harness.agent.actions import Action
from harness.agent.tools import CallError, action_of, tools_of
from harness.author.calls import OFFERED, Check
from harness.author.desk import Answer, Desk
from harness.author.looking import NotShownError, look
from harness.blueprint.scaffold import render_config
from harness.providers.chat import (
    AssistantTurn,
    ProviderError,
    Reply,
    Request,
    StopReason,
    ToolCall,
    ToolResultTurn,
    Turn,
    UserTurn,
)
from harness.providers.cost import Spending, after
from harness.providers.model import AskError, InterruptedAskError

MAX_CALLS = 25
MAX_TROUBLES = 5
PATIENCE_S = 60.0


class Asked(Protocol):
    """What is needed of a `harness.providers.Model`."""

    async def ask(
        self,
        request: Request,
        spending: Spending,
        *,
        patience_s: float,
        interrupted: asyncio.Event | None = None,
    ) -> Reply: ...


class Account:
    """What the conversation has cost so far: `record` is what its Model writes to."""

    def __init__(self) -> None:
        self.spending = Spending()

    def record(self, kind: str, **data: Any) -> None:
        self.spending = after(self.spending, kind, data)


@dataclass(frozen=True)
class Ended:
    """How the conversation ended. `trouble`: why the model did not hand over, "" when it did."""

    trouble: str = ""
    interrupted: bool = False


class Errand(Protocol):
    """What a conversation is about. `handover`: the tool that ends it; `most_calls`: how many calls it may
    take."""

    handover: str
    most_calls: int

    @property
    def offered(self) -> Sequence[type[Action]]:
        """The tools; the same in every request."""
        ...

    def system(self) -> str:
        """What the model is told about its task; the same in every request."""
        ...

    def opening(self) -> str:
        """The first message."""
        ...

    def carry_out(self, call: Action) -> Answer:
        """Do what was asked for; what is refused or fails is told as an error."""
        ...

    def depends_on(self, call: Action) -> str:
        """What the answer to the call depends on beside its arguments: when that has changed, the same words
        are news."""
        ...

    def in_words(self, call: ToolCall) -> str:
        """The call in a few words, for the person who waits."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the model has handed over."""
        ...


async def talk(
    errand: Errand,
    model: Asked,
    account: Account,
    interrupted: asyncio.Event,
    say: Callable[[str], None] = lambda line: None,
) -> Ended:
    """Let the model work until it hands over or cannot go on. `say` is told each call in a few words."""
    turns: list[Turn] = [UserTurn(errand.opening())]
    system, tools = errand.system(), tools_of(errand.offered)
    answered: dict[str, str] = {}
    troubles = 0
    for number in range(1, errand.most_calls + 1):
        await asyncio.sleep(0)  # a signal that came while a call was carried out is heard before the next one
        request = Request(system, tools, tuple(turns))
        try:
            reply = await model.ask(request, account.spending, patience_s=PATIENCE_S, interrupted=interrupted)
        except InterruptedAskError:
            return Ended("it was interrupted", interrupted=True)
        except (AskError, ProviderError) as error:
            return Ended(str(error))
        call = reply.calls[0] if reply.calls else None
        answer = _answer(reply, errand, answered, say)
        if errand.is_done:
            return Ended()
        turns += _turns(reply.text, call, answer, errand.most_calls - number)
        troubles = troubles + 1 if answer.is_error else 0
        if troubles == MAX_TROUBLES:
            return Ended(
                f"{MAX_TROUBLES} answers in a row could not be used, the last one because: {answer.text}"
            )
    return Ended(f"{errand.most_calls} calls were made without coming to an end")


async def converse(
    desk: Desk,
    model: Asked,
    account: Account,
    interrupted: asyncio.Event,
    say: Callable[[str], None] = lambda line: None,
) -> Ended:
    """Let the model write an experiment; the draft stands on the desk."""
    ended = await talk(_Writing(desk), model, account, interrupted, say)
    if ended.interrupted:
        desk.findings = None  # the interrupt may have ended a check half-way, too
    return ended


class _Writing:
    """The errand of writing a new experiment."""

    offered = OFFERED
    handover = "finish"
    most_calls = MAX_CALLS

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def system(self) -> str:
        return templating.render("prompts/author.md.j2")

    def opening(self) -> str:
        return _opening(self._desk)

    def carry_out(self, call: Action) -> Answer:
        return self._desk.carry_out(call)

    def depends_on(self, call: Action) -> str:
        return repr(self._desk.draft) if isinstance(call, Check) else ""

    def in_words(self, call: ToolCall) -> str:
        return _WORDS[call.name]

    @property
    def is_done(self) -> bool:
        return self._desk.draft.handover is not None


def _opening(desk: Desk) -> str:
    brief = desk.brief
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
        config=render_config("NAME", {}),
    )


def _answer(reply: Reply, errand: Errand, answered: dict[str, str], say: Callable[[str], None]) -> Answer:
    """Carry out what the reply asks for; a reply that asks for nothing usable is answered with what to do."""
    if reply.stop is StopReason.REFUSED:
        return Answer(f"You declined. Call one of the tools, or {errand.handover} and say why in it.", True)
    if reply.stop is StopReason.TRUNCATED:
        return Answer("Your reply was cut off because it was too long. Call one tool, with less text.", True)
    if not reply.calls:
        return Answer(
            f"No tool was called. Answer with one tool call; {errand.handover} hands over.", is_error=True
        )
    call = reply.calls[0]
    try:
        action = action_of(call, {}, errand.offered)
    except CallError as error:
        return Answer(str(error), is_error=True)
    say(errand.in_words(call))
    answer = errand.carry_out(action)
    signature = f"{call.name} {action.model_dump()} {errand.depends_on(action)}"
    if not answer.is_error and answered.get(signature) == answer.text:
        return Answer(
            f"You have this answer already. Do something else, or {errand.handover}.", is_error=True
        )
    answered[signature] = answer.text
    return answer


def _turns(said: str, call: ToolCall | None, answer: Answer, left: int) -> list[Turn]:
    text = templating.render(
        "prompts/author_result.md.j2",
        source=call.name if call else "harness",
        text=framed(answer.text),
        left=left,
    )
    turns: list[Turn] = [AssistantTurn(said, call)] if said or call else []
    return [*turns, ToolResultTurn(call.id, text, answer.is_error) if call else UserTurn(text)]


def framed(text: str) -> str:
    """Text that cannot close the frame it stands in."""
    return text.replace("</data", "< /data").replace("<data", "< data")


_WORDS = {
    "look": "looking at files",
    "list_keys": "looking up config keys",
    "render_blueprint": "writing the blueprint",
    "render_config": "writing the config",
    "check": "checking",
    "finish": "handing over",
}
