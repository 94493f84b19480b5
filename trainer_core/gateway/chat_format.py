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
from typing import Any

from trainer_core.gateway.ask import Message, Said, ToolCall

Tools = Sequence[Mapping[str, Any]]
_MARK = "an-answer-of-the-model"
_PROBE: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]


def chat_format(tokenizer: Any) -> ChatFormat:
    """The format of a tokenizer's model; the tokenizer must be the caller's own."""
    from renderers import AutoRendererConfig, create_renderer
    from renderers.base import MODEL_RENDERER_MAP

    own = ChatFormat(tokenizer)
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
    return RendererFormat(tokenizer, renderer) if same else own


class ChatFormat:
    """How one model writes conversations: by its chat template, which writes each turn by itself, as almost
    all do. Thoughts are looked for in `<think>`, tool calls as JSON in `<tool_call>`: the form of Hermes and
    Qwen. Not thread-safe."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.stop_ids: tuple[int, ...] = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
        """Ids that end a turn."""

    def render(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        """The prompt of a conversation."""
        ids: list[int] = self._tokenizer.encode(self._text(messages, tools), add_special_tokens=False)
        return ids

    def extend(
        self, prompt: list[int], completion: list[int], new: Sequence[Message], tools: Tools
    ) -> list[int] | None:
        """The prompt after `new` messages; it begins with `prompt` and `completion`. None: this template's
        next turn cannot be written without its history."""
        before = [{"role": "user", "content": "…"}, {"role": "assistant", "content": _MARK}]
        try:
            _, mark, after = self._text([*before, *new], tools).partition(_MARK)
        except Exception:  # noqa: BLE001  # templates are programs of their own and raise what they like
            return None
        if not mark:
            return None
        if completion and completion[-1] == self._tokenizer.eos_token_id:
            end = self._tokenizer.decode(completion[-1:], skip_special_tokens=False)
            if not after.startswith(end):
                return None
            after = after[len(end) :]
        return [*prompt, *completion, *self._tokenizer.encode(after, add_special_tokens=False)]

    def parse(
        self, completion: Sequence[int], prompt: Sequence[int], tools: Tools, *, is_whole: bool = True
    ) -> Said:
        """What an answer says. Tool calls that cannot be read stay in the text, but for one that may still
        become readable."""
        text: str = self._tokenizer.decode(list(completion), skip_special_tokens=True)
        reasoning = ""
        if text.lstrip().startswith("<think>"):
            reasoning, _, text = text.lstrip().removeprefix("<think>").partition("</think>")
        calls: list[ToolCall] = []

        def take(block: re.Match[str]) -> str:
            call = _call(block[1], completion, len(calls))
            calls.extend([call] if call else [])
            return "" if call else block[0]

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


class RendererFormat(ChatFormat):
    """A renderer of the `renderers` package; the turns that it will not go on from are the template's."""

    def __init__(self, tokenizer: Any, renderer: Any) -> None:
        super().__init__(tokenizer)
        self._renderer = renderer
        self.stop_ids = tuple(renderer.get_stop_token_ids())

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
            return super().extend(prompt, completion, new, tools)
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
            said = {"name": each.name, "arguments": each.arguments} if each.status == "ok" else None
            if call := _call(said, completion, len(calls)):
                calls.append(call)
            elif is_whole:
                content += each.raw
        return Said(content, parsed.reasoning_content or "", tuple(calls))


def _call(said: Any, completion: Sequence[int], place: int) -> ToolCall | None:
    """The call that an answer makes at a place, and whose id is the same whenever the same tokens are drawn.
    It may be written as JSON, and so may its arguments, an object. None where there is no such call."""
    try:
        call = json.loads(said) if isinstance(said, str) else said
        name, arguments = call["name"], call.get("arguments")
        read = json.loads(arguments) if isinstance(arguments, str) else {} if arguments is None else arguments
        written = json.dumps(read, ensure_ascii=False)
        f"{name}{written}".encode()  # half a surrogate pair is no text
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(name, str) or not name or not isinstance(read, dict):
        return None
    digest = hash((place, *completion)) & (2**64 - 1)  # of ints: the same in every process
    return ToolCall(f"call_{digest:016x}", name, written)


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
