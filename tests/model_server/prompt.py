"""A request in no protocol's words: a dialect makes a `Prompt` of it, which is shown, counted and checked."""

import json
import re
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.model_server.caching import Block, PromptTokens, tokens_in
from tests.model_server.seen import Seen, SeenCall, SeenTurn
from tests.model_server.steps import Answer
from tests.model_server.tool_schema import objection

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Name = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]


class BadRequest(Exception):  # noqa: N818  (the protocols' own word)
    """What the real server would answer: a status and the message of its error body."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Shape(BaseModel):
    """A part of a request's body: nothing besides its fields, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


Body = TypeVar("Body", bound=Shape)


def require(holds: Any, message: str, status: int = 400) -> None:
    """Raise BadRequest unless `holds`."""
    if not holds:
        raise BadRequest(message, status)


def parsed(kind: type[Body], body: Any) -> Body:
    """The body, typed. Raises BadRequest with every objection and its place."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        told = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise BadRequest("; ".join(told)) from error


@dataclass(frozen=True)
class Tool:
    """A function on offer. `keep_s` is set where it carries a cache mark."""

    name: str
    description: str
    schema: dict[str, Any]
    keep_s: float | None = None


@dataclass(frozen=True)
class Part:
    """A piece of the conversation: a call if it has a name, a result if it has only a `call_id`, else words.
    `header` stands before the first piece of a message."""

    role: str
    text: str
    header: str = ""
    call_id: str = ""
    name: str = ""
    keep_s: float | None = None

    @property
    def is_result(self) -> bool:
        return bool(self.call_id) and not self.name


@dataclass(frozen=True)
class Prompt:
    """Everything the model reads. `counts`: whether the stream is to end with the usage."""

    model: str
    tools: tuple[Tool, ...]
    parts: tuple[Part, ...]
    counts: bool = True

    def check(self) -> None:
        """Raise BadRequest for tools that cannot be and calls without their results right behind."""
        names = [tool.name for tool in self.tools]
        require(len(set(names)) == len(names), f"tools: names must be unique: {names}")
        for tool in self.tools:
            fault = objection(tool.schema)
            require(not fault, f"{tool.name}: the schema is invalid, it must match draft 2020-12: {fault}")
        waiting: list[str] = []
        for part in self.parts:
            if part.is_result:
                require(part.call_id in waiting, f"the result {part.call_id} answers no call before it")
                waiting.remove(part.call_id)
                continue
            require(not waiting or not part.header, f"calls without results immediately after: {waiting}")
            if part.name:
                require(part.call_id not in waiting, f"the id {part.call_id} is used twice")
                require(names, "requests with calls must define tools")
                waiting.append(part.call_id)
        require(not waiting, f"calls without results: {waiting}")

    def seen(self, number: int, body: dict[str, Any], headers: dict[str, str]) -> Seen:
        """What a script is shown."""
        system = "\n".join(part.text for part in self.parts if part.role == "system")
        said = [part for part in self.parts if part.role != "system"]
        turns = tuple(_turn(role, list(group)) for role, group in groupby(said, lambda part: part.role))
        tools = {tool.name: tool.description for tool in self.tools}
        return Seen(number, system, tools, turns, body, headers)

    @property
    def blocks(self) -> list[Block]:
        """The prompt as the cache compares it: tools come first."""
        found = []
        for tool in self.tools:
            shown = [tool.name, tool.description, tool.schema]
            found.append(Block(json.dumps(shown, ensure_ascii=False), tool.keep_s))
        for part in self.parts:
            lead = part.call_id and f"[{part.call_id}]" + (f" {part.name}" if part.name else "\n")
            found.append(Block(part.header + lead + part.text, part.keep_s))
        return found


def _turn(role: str, parts: list[Part]) -> SeenTurn:
    text = "\n".join(part.text for part in parts if not part.call_id)
    calls = tuple(SeenCall(part.call_id, part.name, part.text) for part in parts if part.name)
    return SeenTurn(role, text, calls, tuple(part.text for part in parts if part.is_result))


@dataclass(frozen=True)
class Draft:
    """An answer on its way out. `number` is the request's; `tokens` what it cost to read."""

    answer: Answer
    number: int
    prompt: Prompt
    tokens: PromptTokens

    @property
    def output_tokens(self) -> int:
        spoken = [self.answer.text, *(call.name + call.arguments for call in self.answer.calls)]
        return max(1, sum(tokens_in(text) for text in spoken))

    def call_id(self, prefix: str, index: int) -> str:
        """The id of a call, the same in every run of a script."""
        return f"{prefix}_{self.number:04d}_{index}"


@dataclass(frozen=True)
class Event:
    """One server-sent event; OpenAI's have no name."""

    data: str
    name: str = ""

    def encode(self) -> bytes:
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {self.data}\n\n".encode()


def pieces(text: str) -> list[str]:
    """A text as a stream brings it."""
    return re.findall(r"(?s).{1,24}", text)
