"""The conversation engine: an opening, then tool calls one at a time with the answer to each, until an end.

`Exchange` is one reply of the model and what came of it; a list of them is all that a conversation remembers.
The agent folds its list from the journal (`harness.agent.view`), where each call is an action of the loop; an
`Errand` (a new experiment, a proposal, a narrative) keeps its list in memory, and `talk` carries it to its
end. Both build requests with `request_of`, in which each request is the one before with something added, and
read replies with `action_in`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness import templating
from harness.journal.model_events import LlmSettled
from harness.journal.order import Event
from harness.providers.chat import (
    AssistantTurn,
    ProviderError,
    Request,
    StopReason,
    ToolCall,
    ToolResultTurn,
    Turn,
    Usage,
    UserTurn,
)
from harness.providers.cost import Spending, after
from harness.providers.model import AskError, InterruptedAskError, Model
from harness.providers.tools import Action, CallError, action_of, tools_of

LONGEST_TEXT = 8_000  # of an answer, and of a call that is read back
LONGEST_WORDS = 2_000  # of what the model wrote beside a call
BUDGET_CHARS = 120_000
CUT_TOGETHER = 12
CUT_TO = 160
MAX_OUTPUT_TOKENS = 16_000  # for models that think before they answer; it counts against this
MAX_TROUBLES = 5
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What the model is shown of its call."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Exchange:
    """One reply of the model, and the answer to it as the model is shown it; "" while there is none."""

    words: str
    call: ToolCall | None
    answer: str = ""
    is_error: bool = False

    @property
    def turns(self) -> list[Turn]:
        call, words = self.call, cut(self.words, LONGEST_WORDS)
        if call is not None:
            call = replace(call, arguments=cut(call.arguments, LONGEST_TEXT))
        turns: list[Turn] = [AssistantTurn(words, call)] if words or call else []
        if self.answer:
            turns.append(
                ToolResultTurn(call.id, self.answer, self.is_error) if call else UserTurn(self.answer)
            )
        return turns


def exchange(words: str, call: ToolCall | None, answer: Answer | None, **footing: Any) -> Exchange:
    """An exchange whose answer is framed as data; `footing`: what stands below it (`result.md.j2`)."""
    if answer is None:
        return Exchange(words, call)
    source = footing.pop("source", call.name if call else "harness")
    outcome = framed(answer.text, LONGEST_TEXT)
    text = templating.render("prompts/result.md.j2", source=source, outcome=outcome, **footing)
    return Exchange(words, call, text, answer.is_error)


def request_of(
    system: str,
    offered: Sequence[type[Action]],
    opening: str,
    exchanges: Sequence[Exchange],
    budget: int = BUDGET_CHARS,
) -> Request:
    """The next request. When it grows beyond `budget` characters, the oldest answers are cut to a line each,
    several at a time so that caches hold; nothing is summarised by a model."""
    turns = [turn for each in exchanges for turn in each.turns]
    room, done = budget - len(opening), 0
    while sum(map(_length, turns)) > room and done < len(turns):
        for index in range(done, min(done + CUT_TOGETHER, len(turns))):
            if len(turns[index].text) > CUT_TO:
                text = f"{turns[index].text[:CUT_TO]} … [cut to save room; ask again if you need it]"
                turns[index] = replace(turns[index], text=text)
        done += CUT_TOGETHER
    everything = (UserTurn(opening), *turns)
    return Request(system, tools_of(offered), everything, max_output_tokens=MAX_OUTPUT_TOKENS)


def action_in(
    stop: str,
    calls: Sequence[ToolCall],
    offered: Sequence[type[Action]],
    end: str,
    filled: Mapping[str, Mapping[str, Any]] | None = None,
    elsewhere: Sequence[type[Action]] = (),
) -> Action:
    """The action that the first call of a reply asks for. `end`: the tool that ends the conversation;
    `elsewhere`: tools of other conversations. Raises CallError, which says what to do instead."""
    if stop == StopReason.REFUSED.value:
        raise CallError(f"You declined. Call one of the tools, or {end} and say why in it.")
    if stop == StopReason.TRUNCATED.value:
        raise CallError("Your reply was cut off because it was too long. Call one tool, with less text.")
    if not calls:
        raise CallError(f"No tool was called. Answer with one tool call; {end} says that you are done.")
    return action_of(calls[0], offered, filled, elsewhere)


def framed(text: str, longest: int | None = None) -> str:
    """Text from outside: bounded (head and tail kept), and unable to close the frame it stands in."""
    if longest is not None and len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}\n… [{len(text) - 2 * half} characters left out] …\n{text[-half:]}"
    return text.replace("</data", "< /data").replace("<data", "< data")


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … [cut]"


def _length(turn: Turn) -> int:
    call = turn.call if isinstance(turn, AssistantTurn) else None
    return len(turn.text) + (len(call.arguments) if call else 0)


# --- errands: conversations that are kept in memory -------------------------------------------------------


class Account:
    """What the conversation has cost so far: `record` is what its Model writes to."""

    def __init__(self) -> None:
        self.spending, self.tokens = Spending(), Usage()

    def record(self, event: Event) -> None:
        self.spending = after(self.spending, event)
        if isinstance(event, LlmSettled):
            self.tokens += Usage(**event.usage)


@dataclass(frozen=True)
class Ended:
    """How the conversation ended. `trouble`: why the model did not hand over, "" when it did."""

    trouble: str = ""
    interrupted: bool = False


class Errand(Protocol):
    """What a conversation is about. `handover`: the tool that ends it; `most_calls`: how many calls it may
    take. System text, opening and tools are the same in every request."""

    handover: str
    most_calls: int

    @property
    def offered(self) -> Sequence[type[Action]]: ...

    def system(self) -> str: ...

    def opening(self) -> str: ...

    def carry_out(self, call: Action) -> Answer:
        """Do what was asked for; what is refused or fails is answered as an error."""
        ...

    @property
    def is_done(self) -> bool:
        """True if the model has handed over."""
        ...


async def talk(
    errand: Errand,
    model: Model,
    account: Account,
    interrupted: asyncio.Event,
    say: Callable[[str], None] = lambda line: None,
) -> Ended:
    """Let the model work until it hands over or cannot go on: after the errand's most calls, after
    MAX_TROUBLES answers in a row that led nowhere, and when the model cannot be asked. `say` is given each
    call in a few words."""
    system, opening, memory = errand.system(), errand.opening(), list[Exchange]()
    troubles, news = 0, 0
    seen: dict[str, int] = {}  # call and answer → how much was new when they were seen last
    for number in range(1, errand.most_calls + 1):
        await asyncio.sleep(0)  # a signal that came while a call was carried out is heard before the next one
        request = request_of(system, errand.offered, opening, memory)
        try:
            reply = await model.ask(request, account.spending, patience_s=PATIENCE_S, interrupted=interrupted)
        except InterruptedAskError:
            return Ended("it was interrupted", interrupted=True)
        except (AskError, ProviderError) as error:
            return Ended(str(error))
        try:
            action = action_in(reply.stop.value, reply.calls, errand.offered, errand.handover)
        except CallError as error:
            answer = Answer(str(error), is_error=True)
        else:
            say(action.doing or action.kind.replace("_", " "))
            answer = errand.carry_out(action)
            if errand.is_done:
                return Ended()
            signature = f"{action!r} {answer.text}"
            if not answer.is_error and seen.get(signature) == news:  # it goes round in circles
                said = f"You have this answer already. Do something else, or {errand.handover}."
                answer = Answer(said, is_error=True)
            else:
                news += signature not in seen
                seen[signature] = news
        if reply.calls[1:]:
            told = f"Only the first of your {len(reply.calls)} calls was made: make one at a time."
            answer = replace(answer, text=f"{answer.text}\n{told}")
        troubles = troubles + 1 if answer.is_error else 0
        left = {"calls_left": errand.most_calls - number, "refusals_left": MAX_TROUBLES - troubles}
        memory.append(exchange(reply.text, reply.calls[0] if reply.calls else None, answer, **left))
        if troubles == MAX_TROUBLES:
            return Ended(
                f"{MAX_TROUBLES} answers in a row could not be used, the last one because: {answer.text}"
            )
    return Ended(f"{errand.most_calls} calls were made without coming to an end")
