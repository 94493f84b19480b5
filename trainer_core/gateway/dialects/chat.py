"""OpenAI's chat completions, with the token ids of vLLM and of NeMo Gym where `return_token_ids` is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, Message, refuse
from trainer_core.gateway.body import SEVERAL, conversing, objects, parameters, plain
from trainer_core.gateway.dialects.dialect import DONE, Dialect, event, usage

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class Chat(Dialect):
    """See `Dialect`."""

    def read(self) -> Ask:
        body = self.body
        conversation = [read_message(each, place) for place, each in enumerate(objects(body, "messages", 1))]
        longest = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
        ask = parameters(
            body, **SEVERAL, max_tokens=longest, logprobs="logprobs", top_logprobs="top_logprobs"
        )
        if (body.get("response_format") or {}).get("type", "text") != "text":
            ask = ask.model_copy(update={"unmet": ("response_format",)})
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and "function" in choice:
            choice = choice["function"].get("name")
        return conversing(ask, conversation, [_function(tool) for tool in objects(body, "tools")], choice)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def write(self, answer: Answer) -> dict[str, Any]:
        whole = self._head("chat.completion")
        whole["choices"] = [self._choice(answer, place, each) for place, each in enumerate(answer.choices)]
        whole["usage"] = usage(answer)
        if self.body.get("return_token_ids"):
            whole["prompt_token_ids"] = answer.prompts[0]
        return whole

    def _choice(self, answer: Answer, place: int, choice: Choice) -> dict[str, Any]:
        message, drawn = choice.said.message(), choice.generation
        made: dict[str, Any] = {
            "index": place,
            "message": message,
            "finish_reason": _finish(choice),
            "logprobs": None,
        }
        if self.ask.logprobs:
            made["logprobs"] = {"content": self.logprobs(answer, choice)}
        if self.body.get("return_token_ids"):
            made["token_ids"] = drawn.ids
            message["prompt_token_ids"] = answer.prompts[0]
            message["generation_token_ids"] = drawn.ids
            message["generation_log_probs"] = drawn.logprobs
        return made

    def begin(self) -> bytes:
        return b"".join(self._chunk(place, role="assistant", content="") for place in range(self.ask.n))

    def delta(self, delta: Delta) -> bytes:
        added = {"reasoning_content": delta.reasoning, "content": delta.content}
        return self._chunk(delta.index, **{name: text for name, text in added.items() if text})

    def end(self, answer: Answer) -> bytes:
        whole, parts = self.write(answer), []
        for place, choice in enumerate(whole["choices"]):
            if calls := choice.pop("message").get("tool_calls"):
                numbered = [{"index": number, **call} for number, call in enumerate(calls)]
                parts.append(self._chunk(place, tool_calls=numbered))
            parts.append(self._event([{**choice, "delta": {}}]))
        if not self.ask.stream_options.get("include_usage"):
            del whole["usage"]
        more = {name: whole[name] for name in ("prompt_token_ids", "usage") if name in whole}
        return b"".join([*parts, self._event([], **more) if more else b"", DONE])

    def _chunk(self, place: int, **delta: Any) -> bytes:
        return self._event([{"index": place, "delta": delta, "logprobs": None, "finish_reason": None}])

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return event({**self._head("chat.completion.chunk"), "choices": choices, **more})


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        raise refuse("tools", f"only functions can be offered, not {tool.get('type')!r}")
    return tool


def _finish(choice: Choice) -> str:
    """`tool_calls` where the model ended by asking for some."""
    if choice.finish == "stop" and choice.said.tool_calls:
        return "tool_calls"
    return choice.finish.value if choice.finish != "abort" else "stop"


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
