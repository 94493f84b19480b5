"""Requests for the server's own tests: a tool, conversations in both protocols, clients that never retry."""

from typing import Any

import anthropic
import openai

from tests.model_server.server import ModelServer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"lines": {"type": "integer"}},
    "required": ["lines"],
    "additionalProperties": False,
}
ANTHROPIC_TOOL: dict[str, Any] = {"name": "look", "description": "Read the log.", "input_schema": SCHEMA}
OPENAI_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Read the log.", "parameters": SCHEMA},
}


def anthropic_client(server: ModelServer) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.anthropic_url, api_key="key", max_retries=0, timeout=10)


def openai_client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.openai_url, api_key="key", max_retries=0, timeout=10)


def ask_anthropic(server: ModelServer, **changes: Any) -> Any:
    """Stream one answer in and put it together."""
    with anthropic_client(server) as client:
        with client.messages.stream(**anthropic_request(**changes)) as stream:
            return stream.get_final_message()


def ask_openai(server: ModelServer, **changes: Any) -> list[Any]:
    """Stream one answer in; return its chunks."""
    with openai_client(server) as client:
        return list(client.chat.completions.create(**openai_request(stream=True, **changes)))


def anthropic_request(**changes: Any) -> dict[str, Any]:
    request = {
        "model": "claude-scripted",
        "max_tokens": 100,
        "system": "You watch a training.",
        "tools": [ANTHROPIC_TOOL],
        "messages": [{"role": "user", "content": "What now?"}],
    }
    return {key: value for key, value in {**request, **changes}.items() if value is not None}


def openai_request(**changes: Any) -> dict[str, Any]:
    request = {
        "model": "gpt-scripted",
        "messages": [
            {"role": "system", "content": "You watch a training."},
            {"role": "user", "content": "What now?"},
        ],
        "tools": [OPENAI_TOOL],
    }
    return {key: value for key, value in {**request, **changes}.items() if value is not None}


def anthropic_history(*, result: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """A question, a call, its result (or what a test puts there)."""
    answered = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "loss is 3"}]
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"lines": 80}}
    return [
        {"role": "user", "content": "What now?"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": answered if result is None else result},
    ]


def openai_history(*, call_id: str = "call_1") -> list[dict[str, Any]]:
    """A question, a call with id call_1, and a result for `call_id`."""
    function = {"name": "look", "arguments": '{"lines": 80}'}
    return [
        {"role": "user", "content": "What now?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": "loss is 3"},
    ]
