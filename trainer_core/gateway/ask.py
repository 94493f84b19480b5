"""What a client asks and what it is answered, whatever its dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from trainer_core.engine.protocols import Generation
from trainer_core.types import FinishReason

Message = dict[str, Any]
"""In OpenAI's chat form, with its content as one text."""


@dataclass(eq=False)
class GatewayError(Exception):
    """A request that is not answered; every dialect has a form for it that its SDKs understand."""

    status: int
    """Of HTTP; SDKs try 408, 409, 429 and 5xx again."""
    message: str
    code: str
    param: str | None = None

    def __str__(self) -> str:
        return self.message


def refuse(param: str, why: str) -> GatewayError:
    """400: the request cannot be answered as it is."""
    return GatewayError(400, f"{param}: {why}", code="invalid_request", param=param)


def episode_ended() -> GatewayError:
    """401: the api_key was one."""
    return GatewayError(401, "the episode of this api_key has ended", code="episode_ended")


_Text = Annotated[str, Field(min_length=1)]


class Ask(BaseModel):
    """One request. `None`: the client did not say."""

    model_config = ConfigDict(frozen=True, strict=True)

    messages: Sequence[Message] = ()
    """The conversation; empty where `prompts` are given."""
    prompts: Sequence[str | Sequence[int]] = ()
    """Texts or token ids to go on from, without a chat template."""
    tools: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's form, `{"type": "function", "function": {…}}`."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    n: int = Field(1, ge=1, le=128)
    seed: int | None = None
    stop: Annotated[list[_Text], BeforeValidator(lambda stop: [stop] if isinstance(stop, str) else stop)] = []
    stop_ids: list[int] = []
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=20)
    stream: bool = False
    stream_options: dict[str, Any] = {}
    model: str = ""
    unmet: tuple[str, ...] = ()
    """Parts of the request that have no effect; a header names them."""


@dataclass(frozen=True)
class ToolCall:
    """What the model wants to be called."""

    id: str
    name: str
    arguments: str
    """A JSON object."""

    def message(self) -> dict[str, Any]:
        """In OpenAI's chat form."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True)
class Said:
    """An answer as a message."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    cut_at: str | None = None
    """The stop text before which it ends."""

    def message(self) -> Message:
        """As the conversation's next message, in OpenAI's chat form."""
        message: Message = {"role": "assistant", "content": self.content or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.message() for call in self.tool_calls]
        return message


@dataclass(frozen=True)
class Choice:
    """One answer: what the engine drew, and what it says."""

    generation: Generation
    said: Said

    @property
    def finish(self) -> FinishReason:
        return self.generation.finish_reason


@dataclass(frozen=True)
class Answer:
    """What a request is answered with: `ask.n` choices for each prompt."""

    prompts: Sequence[Sequence[int]]
    """[L] ids of each prompt, as the engine got them."""
    choices: Sequence[Choice]
    text_of: Callable[[int], tuple[str, tuple[int, ...]]]
    """The text of one token, and its bytes."""

    @property
    def prompt_tokens(self) -> int:
        return sum(map(len, self.prompts))

    @property
    def completion_tokens(self) -> int:
        return sum(len(choice.generation.ids) for choice in self.choices)


@dataclass(frozen=True)
class Delta:
    """What has been added to an answer since the last delta."""

    index: int
    content: str = ""
    reasoning: str = ""
