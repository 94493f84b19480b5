"""What a client asks and what it is answered, whatever its dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainer_core.types import FinishReason

if TYPE_CHECKING:
    from trainer_core.engine.protocols import Generation

Message = dict[str, Any]
"""In OpenAI's chat form, with its content as one text."""


class GatewayError(Exception):
    """A request that is not answered; every dialect has a form for it that its SDKs understand."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        """`status`: of HTTP; SDKs try 408, 409, 429 and 5xx again. `retry_after`: in seconds."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after


def refuse(param: str, why: str) -> GatewayError:
    """400: the request cannot be answered as it is."""
    return GatewayError(400, f"{param}: {why}", code="invalid_request", param=param)


@dataclass(frozen=True)
class Ask:
    """One request. `None`: the client did not say."""

    messages: Sequence[Message] = ()
    """The conversation; empty where `prompts` are given."""
    prompts: Sequence[str | Sequence[int]] = ()
    """Texts or token ids to go on from, without a chat template."""
    tools: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's form, `{"type": "function", "function": {…}}`."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    n: int = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    logprobs: bool = False
    top_logprobs: int = 0
    stream: bool = False
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


@dataclass(frozen=True)
class Said:
    """An answer as a message."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    def message(self) -> Message:
        """As the conversation's next message, in OpenAI's chat form."""
        message: Message = {"role": "assistant", "content": self.content or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": each.id,
                    "type": "function",
                    "function": {"name": each.name, "arguments": each.arguments},
                }
                for each in self.tool_calls
            ]
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

    id: str
    """32 hexadecimal digits; dialects put their own prefix before it."""
    created: int
    """Epoch seconds."""
    model: str
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


# --- reading a request's body ---------------------------------------------------------------------------


def number(
    body: Mapping[str, Any], key: str, kind: type, low: float | None = None, high: float | None = None
) -> Any:
    """The number at `key`, or None.

    Raises:
        GatewayError: it is none, or not within [low, high].
    """
    value = body.get(key)
    if value is None:
        return None
    if kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, int | float) or type(value) is not kind:
        raise refuse(key, f"must be {'an integer' if kind is int else 'a number'}, not {value!r:.40}")
    if not (low is None or value >= low) or not (high is None or value <= high):  # NaN is neither
        raise refuse(
            key, f"must be {f'{low} to {high}' if high is not None else f'{low} or more'}, not {value}"
        )
    return value


def texts(body: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A text or a list of texts."""
    value = body.get(key)
    values = [value] if isinstance(value, str) else value or []
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise refuse(key, "must be a text or a list of texts, none empty")
    return tuple(values)


def ids(body: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """A list of token ids; empty where there is none."""
    value = body.get(key) or []
    if not isinstance(value, list) or set(map(type, value)) - {int}:
        raise refuse(key, "must be a list of token ids")
    return tuple(value)


def objects(body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of JSON objects; empty where there is none."""
    value = body.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise refuse(key, "must be a list of objects")
    return value


def plain(content: Any, where: str) -> str:
    """The text of a message's content, which may come in parts.

    Raises:
        GatewayError: a part is an image, a sound or a file: such cannot be trained.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refuse(where, "must be a text or a list of parts")
    found = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else "text"
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise refuse(
                where, f"a part of type {kind!r} is not text; only text can be sampled and trained here"
            )
        found.append(text)
    return "".join(found)


def common(body: Mapping[str, Any]) -> Ask:
    """What all dialects call alike.

    Raises:
        GatewayError: a value is of the wrong type or out of range.
    """
    model = body.get("model", "")
    if not isinstance(model, str):
        raise refuse("model", "must be a text")
    if not isinstance(body.get("stream_options") or {}, dict):
        raise refuse("stream_options", "must be an object")
    return Ask(
        temperature=number(body, "temperature", float, 0, 100),
        top_p=number(body, "top_p", float, 0, 1),
        top_k=number(body, "top_k", int, -1),
        seed=number(body, "seed", int),
        stream=body.get("stream") is True,
        model=model,
    )


def with_tools(ask: Ask, tools: Sequence[Mapping[str, Any]], choice: Any) -> Ask:
    """`ask` with the tools it may call. `choice`: auto | none | required, or the name of the one to call;
    nothing forces the model to call it, which `unmet` says."""
    names = [tool["function"].get("name") for tool in tools]
    if not all(isinstance(name, str) and name for name in names):
        raise refuse("tools", "every function needs a name")
    if choice in (None, "auto"):
        return replace(ask, tools=tools)
    if choice == "none":
        return replace(ask, tools=())
    if choice == "required":
        return replace(ask, tools=tools, unmet=(*ask.unmet, "tool_choice"))
    if choice not in names:
        raise refuse("tool_choice", f"there is no tool called {choice!r}")
    only = [tool for tool, name in zip(tools, names, strict=True) if name == choice]
    return replace(ask, tools=only, unmet=(*ask.unmet, "tool_choice"))
