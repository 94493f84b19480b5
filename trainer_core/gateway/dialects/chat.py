"""OpenAI's chat completions, with the token ids of vLLM and of NeMo Gym where `return_token_ids` is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer_core.gateway.ask import (
    Answer,
    Ask,
    Choice,
    Delta,
    Message,
    common,
    ids,
    number,
    objects,
    plain,
    refuse,
    texts,
    with_tools,
)
from trainer_core.gateway.dialects.openai import DONE, event, finish, logprobs, usage
from trainer_core.gateway.dialects.openai import error as error

Body = Mapping[str, Any]
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read(body: Body) -> Ask:
    """See `Dialect.read`."""
    conversation = [read_message(message, place) for place, message in enumerate(objects(body, "messages"))]
    if not conversation:
        raise refuse("messages", "there must be at least one")
    ask = replace(
        common(body),
        messages=conversation,
        max_tokens=number(body, "max_completion_tokens", int, 1) or number(body, "max_tokens", int, 1),
        n=number(body, "n", int, 1, 128) or 1,
        stop=texts(body, "stop"),
        stop_ids=ids(body, "stop_token_ids"),
        logprobs=body.get("logprobs") is True,
        top_logprobs=number(body, "top_logprobs", int, 0, 20) or 0,
    )
    response_format = (body.get("response_format") or {}).get("type", "text")
    if response_format != "text":
        ask = replace(ask, unmet=("response_format",))
    choice = body.get("tool_choice")
    named = choice["function"].get("name") if isinstance(choice, dict) and "function" in choice else choice
    return with_tools(ask, [tool for tool in objects(body, "tools") if _is_function(tool)], named)


def _is_function(tool: Mapping[str, Any]) -> bool:
    if tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        raise refuse("tools", f"only functions can be offered, not {tool.get('type')!r}")
    return True


def read_message(message: Message, place: int) -> Message:
    """A message with its content as one text."""
    where = f"messages[{place}]"
    role = _ROLES.get(message.get("role", ""))
    if role is None:
        raise refuse(f"{where}.role", f"must be one of {', '.join(_ROLES)}, not {message.get('role')!r:.40}")
    made: Message = {"role": role, "content": plain(message.get("content"), f"{where}.content")}
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        made["reasoning_content"] = reasoning
    if calls := objects(message, "tool_calls"):
        if not all(isinstance((call.get("function") or {}).get("name"), str) for call in calls):
            raise refuse(f"{where}.tool_calls", "each needs a function with a name")
        made["tool_calls"] = calls
    for key in ("tool_call_id", "name"):
        if isinstance(message.get(key), str):
            made[key] = message[key]
    return made


def write(answer: Answer, ask: Ask, body: Body) -> dict[str, Any]:
    """See `Dialect.write`."""
    whole = _head(answer.id, answer.created, answer.model, "chat.completion")
    whole["choices"] = [
        _choice(answer, choice, place, ask, body) for place, choice in enumerate(answer.choices)
    ]
    whole["usage"] = usage(answer)
    if body.get("return_token_ids"):
        whole["prompt_token_ids"] = answer.prompts[0]
    return whole


def _head(answer_id: str, created: int, model: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer_id}", "object": kind, "created": created, "model": model}


def _choice(answer: Answer, choice: Choice, place: int, ask: Ask, body: Body) -> dict[str, Any]:
    message = choice.said.message()
    made: dict[str, Any] = {
        "index": place,
        "message": message,
        "finish_reason": finish(choice),
        "logprobs": None,
    }
    if ask.logprobs:
        made["logprobs"] = {"content": logprobs(choice, answer, body)}
    if body.get("return_token_ids"):
        made["token_ids"] = choice.generation.ids
        message["prompt_token_ids"] = answer.prompts[0]
        message["generation_token_ids"] = choice.generation.ids
        message["generation_log_probs"] = choice.generation.logprobs
    return made


class stream:  # noqa: N801  # the dialect's function
    """See `Dialect.stream`."""

    def __init__(self, ask: Ask, body: Body, answer_id: str, created: int, model: str) -> None:
        self._ask = ask
        self._body = body
        self._head = _head(answer_id, created, model, "chat.completion.chunk")

    def _chunk(
        self, place: int, delta: dict[str, Any], finish_reason: str | None = None, **more: Any
    ) -> bytes:
        choice = {"index": place, "delta": delta, "logprobs": None, "finish_reason": finish_reason, **more}
        return event({**self._head, "choices": [choice]})

    def open(self) -> bytes:
        first = {"role": "assistant", "content": ""}
        return b"".join(self._chunk(place, first) for place in range(self._ask.n))

    def delta(self, delta: Delta) -> bytes:
        added: dict[str, Any] = {}
        if delta.reasoning:
            added["reasoning_content"] = delta.reasoning
        if delta.content:
            added["content"] = delta.content
        return self._chunk(delta.index, added)

    def close(self, answer: Answer) -> bytes:
        parts = []
        for place, choice in enumerate(answer.choices):
            calls = choice.said.message().get("tool_calls", [])
            delta = {"tool_calls": [{"index": n, **call} for n, call in enumerate(calls)]} if calls else {}
            more: dict[str, Any] = {}
            if self._ask.logprobs:
                more["logprobs"] = {"content": logprobs(choice, answer, self._body)}
            if self._body.get("return_token_ids"):
                more["token_ids"] = choice.generation.ids
            if delta:
                parts.append(self._chunk(place, delta))
            parts.append(self._chunk(place, {}, finish(choice), **more))
        last: dict[str, Any] = {**self._head, "choices": []}
        if self._body.get("return_token_ids"):
            last["prompt_token_ids"] = answer.prompts[0]
        if (self._body.get("stream_options") or {}).get("include_usage"):
            last["usage"] = usage(answer)
        if len(last) > len(self._head) + 1:
            parts.append(event(last))
        return b"".join([*parts, DONE])
