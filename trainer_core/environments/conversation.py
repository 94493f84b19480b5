"""An episode as one conversation: the model acts, and its environment answers, until it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer_core.types import check_reward

if TYPE_CHECKING:
    from trainer_core.workflow.tuner import Tuner

Message = dict[str, Any]

ANSWER_S = 300.0
"""A service is waited for, unless whoever asks it says otherwise."""
CONNECT_S = 10.0
SHOWN = 400
"""Characters of a reply that an error repeats."""
_LIMITS = ("max_calls_reached", "context_length_exceeded")


@dataclass(frozen=True)
class Observation:
    """What an environment says to an action."""

    messages: list[Message]
    reward: float
    """Of this step; 0 where the environment gives none."""
    is_over: bool


class ServiceError(Exception):
    """The service of an environment refuses a call or answers with nonsense; names the call and its reply."""


class ServiceOutageError(ServiceError, ConnectionError):
    """The service is down, busy, or has been started anew: the rollout tries the episode again."""


async def converse(
    tuner: Tuner, messages: list[Message], act: Callable[[Message], Awaitable[Observation]]
) -> None:
    """Let the model go on with `messages`, which grow, until what `act` makes of its words is over, or the
    episode has made all its calls or filled the model's context."""
    import openai

    client = tuner.as_raw_openai_sdk_client()
    is_over = False
    while not is_over:
        try:
            answer = await client.chat.completions.create(model=tuner.model, messages=messages)  # type: ignore[arg-type]
        except openai.BadRequestError as error:
            if error.code not in _LIMITS:
                raise
            return
        said = {"content": "", **answer.choices[0].message.model_dump(exclude_none=True)}
        seen = await act(said)
        messages += [said, *seen.messages]
        is_over = seen.is_over


def finite(value: object, what: str) -> float:
    """A reward or score that came as JSON.

    Raises:
        ServiceError: it is no number, or not a finite one.
    """
    if not isinstance(value, int | float):
        raise ServiceError(f"{what} is {str(value)[:80]}, not a finite number")
    try:
        check_reward(value, f"{what} is")
    except ValueError as error:
        raise ServiceError(str(error)) from None
    return float(value)
