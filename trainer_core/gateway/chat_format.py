"""From messages to token ids and back, without ever writing anew what has been sampled.

The next prompt of a conversation is the recorded prompt and answer, and the ids of what came after
(`extend`); only a conversation's beginning is rendered whole. Models that the `renderers` package knows by
name use its hand-written renderer, if that writes what the model's own template writes; any other model uses
its chat template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from trainer_core.gateway.ask import Message, Said, ToolCall

Tools = Sequence[Mapping[str, Any]]
_MARK = "an-answer-of-the-model"
_PROBE: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]


class ChatFormat(Protocol):
    """How one model writes conversations. Not thread-safe."""

    stop_ids: tuple[int, ...]
    """Ids that end a turn."""

    def render(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        """The prompt of a conversation."""

    def extend(
        self, prompt: list[int], completion: list[int], new: Sequence[Message], tools: Tools
    ) -> list[int] | None:
        """The prompt after `new` messages; it begins with `prompt` and `completion`. None: this template's
        next turn cannot be written without its history."""

    def parse(
        self, completion: Sequence[int], prompt: Sequence[int], tools: Tools, *, is_whole: bool = True
    ) -> Said:
        """What an answer says. Tool calls that cannot be read stay in the text, but for one that may still
        become readable."""


def chat_format(tokenizer: Any) -> ChatFormat:
    """The format of a tokenizer's model; the tokenizer must be the caller's own."""
    from renderers import AutoRendererConfig, create_renderer
    from renderers.base import MODEL_RENDERER_MAP

    own = TemplateFormat(tokenizer)
    name = Path(tokenizer.name_or_path).name
    known = next((known for known in MODEL_RENDERER_MAP if known.rpartition("/")[2] == name), None)
    if known is None:
        return own
    tokenizer.name_or_path = known  # by which its renderer is found
    try:
        renderer = create_renderer(tokenizer, AutoRendererConfig(thinking_retention="all"))
        same = renderer.render_ids(_PROBE, add_generation_prompt=True) == own.render(_PROBE, ())
    except Exception:  # noqa: BLE001  # not this tokenizer's, whatever its folder is called
        return own
    return RendererFormat(renderer, own) if same else own


class RendererFormat:
    """A renderer of the `renderers` package; the turns that it will not go on from are the template's."""

    def __init__(self, renderer: Any, template: TemplateFormat) -> None:
        self._renderer = renderer
        self._template = template
        self.stop_ids: tuple[int, ...] = tuple(renderer.get_stop_token_ids())

    def render(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        ids: list[int] = self._renderer.render_ids(
            list(messages), tools=list(tools) or None, add_generation_prompt=True
        )
        return ids

    def extend(
        self, prompt: list[int], completion: list[int], new: Sequence[Message], tools: Tools
    ) -> list[int] | None:
        rendered = self._renderer.bridge_to_next_turn(
            prompt, completion, list(new), tools=list(tools) or None
        )
        before = [*prompt, *completion]
        if rendered is None or rendered.token_ids[: len(before)] != before:
            return self._template.extend(prompt, completion, new, tools)
        ids: list[int] = rendered.token_ids
        return ids

    def parse(
        self, completion: Sequence[int], prompt: Sequence[int], tools: Tools, *, is_whole: bool = True
    ) -> Said:
        parsed = self._renderer.parse_response(
            list(completion), tools=list(tools) or None, prompt_ids=list(prompt)
        )
        content: str = parsed.content
        calls: list[ToolCall] = []
        for each in parsed.tool_calls:
            call = _call({"name": each.name, "arguments": each.arguments}) if each.status == "ok" else None
            if call is not None:
                calls.append(ToolCall(call_id(completion, len(calls)), *call))
            elif is_whole:
                content += each.raw
        return Said(content, parsed.reasoning_content or "", tuple(calls))


class TemplateFormat:
    """A chat template that writes each turn by itself, as almost all do. Thoughts are looked for in
    `<think>`, tool calls as JSON in `<tool_call>`: the form of Hermes and Qwen."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.stop_ids: tuple[int, ...] = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)

    def render(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        ids: list[int] = self._tokenizer.encode(self._text(messages, tools), add_special_tokens=False)
        return ids

    def extend(
        self, prompt: list[int], completion: list[int], new: Sequence[Message], tools: Tools
    ) -> list[int] | None:
        before = [{"role": "user", "content": "…"}, {"role": "assistant", "content": _MARK}]
        try:
            _, mark, after = self._text([*before, *new], tools).partition(_MARK)
        except Exception:  # noqa: BLE001  # templates are programs of their own and raise what they like
            return None
        if not mark:
            return None
        if completion and completion[-1] in self.stop_ids:
            end = self._tokenizer.decode(completion[-1:], skip_special_tokens=False)
            if not after.startswith(end):
                return None
            after = after[len(end) :]
        return [*prompt, *completion, *self._tokenizer.encode(after, add_special_tokens=False)]

    def parse(
        self, completion: Sequence[int], prompt: Sequence[int], tools: Tools, *, is_whole: bool = True
    ) -> Said:
        text: str = self._tokenizer.decode(list(completion), skip_special_tokens=True)
        reasoning = ""
        if text.lstrip().startswith("<think>"):
            reasoning, _, text = text.lstrip().removeprefix("<think>").partition("</think>")
        calls: list[ToolCall] = []

        def take(block: re.Match[str]) -> str:
            call = _tool_call(block[1])
            if call is None:
                return block[0]
            calls.append(ToolCall(call_id(completion, len(calls)), *call))
            return ""

        if "<tool_call>" in text:
            text = re.sub(r"\s*<tool_call>(.*?)</tool_call>", take, text, flags=re.DOTALL)
        if not is_whole:
            text = text.partition("<tool_call>")[0]
        return Said(text.strip() if calls or reasoning else text, reasoning.strip(), tuple(calls))

    def _text(self, messages: Sequence[Message], tools: Tools) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [_for_template(message) for message in messages],
            tools=[dict(tool) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=True,
        )
        return text


def call_id(completion: Sequence[int], place: int) -> str:
    """The id of an answer's tool call: the same whenever the same tokens are drawn."""
    return f"call_{hash((place, *completion)) & (2**64 - 1):016x}"  # of ints: the same in every process


def _tool_call(text: str) -> tuple[str, str] | None:
    """Name and arguments, or None if there is no such object."""
    try:
        return _call(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _call(said: Any) -> tuple[str, str] | None:
    """Name and arguments of a call whose arguments are an object, perhaps written as text."""
    name, arguments = (said.get("name"), said.get("arguments")) if isinstance(said, dict) else (None, None)
    try:
        read = json.loads(arguments) if isinstance(arguments, str) else {} if arguments is None else arguments
    except (ValueError, RecursionError):
        return None
    if not isinstance(name, str) or not name or not isinstance(read, dict):
        return None
    return name, json.dumps(read, ensure_ascii=False)


def _for_template(message: Message) -> Message:
    """With the content as text, and with tool arguments as objects, which templates write as they please."""
    content = message.get("content")
    if not message.get("tool_calls"):
        return message if content is not None else {**message, "content": ""}
    calls = []
    for call in message["tool_calls"]:
        function = dict(call["function"])
        try:
            function["arguments"] = json.loads(function["arguments"])
        except (ValueError, TypeError, RecursionError):
            pass
        calls.append({**call, "function": function})
    return {**message, "content": content or "", "tool_calls": calls}
