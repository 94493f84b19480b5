"""A model writes an experiment: request, one tool call at a time, answer, until it hands over.

In: a `Desk` that holds the person's brief, and a model. Out: `Ended`; the draft stands on the desk. Every
request is the one before with something added. The conversation ends by itself: after MAX_CALLS calls, after
MAX_TROUBLES answers in a row that led nowhere, and when the model cannot be asked; what was made by then
stays.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from harness import templating
from harness.agent.tools import CallError, action_of, tools_of
from harness.author.calls import OFFERED, Check, Finish
from harness.author.desk import Answer, Desk
from harness.author.looking import NotShownError, look
from harness.blueprint.scaffold import render_config
from harness.providers.asking import AskError, InterruptedAskError
from harness.providers.spending import Spending, after
from harness.providers.types import (
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


async def converse(
    desk: Desk,
    model: Asked,
    account: Account,
    interrupted: asyncio.Event,
    say: Callable[[str], None] = lambda line: None,
) -> Ended:
    """Let the model write until it hands over or cannot go on. `say` is told each call in a few words."""
    turns: list[Turn] = [UserTurn(_opening(desk))]
    answered: dict[str, str] = {}
    troubles = 0
    for number in range(1, MAX_CALLS + 1):
        await asyncio.sleep(0)  # a signal that came while a call was carried out is heard before the next one
        request = Request(templating.render("prompts/author.md.j2"), tools_of(OFFERED), tuple(turns))
        try:
            reply = await model.ask(request, account.spending, patience_s=PATIENCE_S, interrupted=interrupted)
        except InterruptedAskError:
            desk.findings = None  # the interrupt may have ended a check half-way, too
            return Ended("it was interrupted", interrupted=True)
        except (AskError, ProviderError) as error:
            return Ended(str(error))
        call = reply.calls[0] if reply.calls else None
        answer = _answer(reply, desk, answered, say)
        if desk.draft.handover is not None:
            return Ended()
        turns += _turns(reply.text, call, answer, number)
        troubles = troubles + 1 if answer.is_error else 0
        if troubles == MAX_TROUBLES:
            return Ended(
                f"{MAX_TROUBLES} answers in a row could not be used, the last one because: {answer.text}"
            )
    return Ended(f"{MAX_CALLS} calls were made without coming to an end")


def _opening(desk: Desk) -> str:
    brief = desk.brief
    try:
        files = look(".", 1, brief.cwd)
    except NotShownError as error:
        files = str(error)
    return templating.render(
        "prompts/author_request.md.j2",
        words=_framed(brief.words),
        given={key: _framed(value) for key, value in brief.given.items()},
        template=brief.template,
        files=_framed(files),
        config=render_config("NAME", {}),
    )


def _answer(reply: Reply, desk: Desk, answered: dict[str, str], say: Callable[[str], None]) -> Answer:
    """Carry out what the reply asks for; a reply that asks for nothing usable is answered with what to do."""
    if reply.stop is StopReason.REFUSED:
        return Answer("You declined. Call one of the tools, or finish and say why in look_at.", True)
    if reply.stop is StopReason.TRUNCATED:
        return Answer("Your reply was cut off because it was too long. Call one tool, with less text.", True)
    if not reply.calls:
        return Answer("No tool was called. Answer with one tool call; finish hands over.", True)
    call = reply.calls[0]
    try:
        action = action_of(call, {}, OFFERED)
    except CallError as error:
        return Answer(str(error), is_error=True)
    say(_in_words(call))
    answer = desk.carry_out(action)
    signature = f"{call.name} {action.model_dump()}"
    if isinstance(action, Check):  # the same words about another draft are news
        signature += repr(desk.draft)
    if not answer.is_error and answered.get(signature) == answer.text and not isinstance(action, Finish):
        return Answer("You have this answer already. Do something else, or finish.", is_error=True)
    answered[signature] = answer.text
    return answer


def _turns(said: str, call: ToolCall | None, answer: Answer, number: int) -> list[Turn]:
    text = templating.render(
        "prompts/author_result.md.j2",
        source=call.name if call else "harness",
        text=_framed(answer.text),
        left=MAX_CALLS - number,
    )
    turns: list[Turn] = [AssistantTurn(said, call)] if said or call else []
    return [*turns, ToolResultTurn(call.id, text, answer.is_error) if call else UserTurn(text)]


def _framed(text: str) -> str:
    """Text that cannot close the frame it stands in."""
    return text.replace("</data", "< /data").replace("<data", "< data")


def _in_words(call: ToolCall) -> str:
    return {
        "look": "looking at files",
        "list_keys": "looking up config keys",
        "render_blueprint": "writing the blueprint",
        "render_config": "writing the config",
        "check": "checking",
        "finish": "handing over",
    }[call.name]
