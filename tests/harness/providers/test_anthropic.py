"""The official SDK against a server of our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.providers.anthropic import AnthropicProvider, wire_request
from harness.providers.chat import (
    AssistantTurn,
    ProviderError,
    RejectedError,
    Request,
    RequestTooLongError,
    StopReason,
    Tool,
    ToolCall,
    ToolResultTurn,
    UnavailableError,
    Usage,
    UserTurn,
)
from tests.harness.providers.loopback import Answer, Loopback, anthropic_events, error

TOOL = Tool("wait", "Waits.", {"type": "object", "properties": {"why": {"type": "string"}}})
REQUEST = Request("Be brief.", (TOOL,), (UserTurn("Go on?"),))
SPLIT = {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 10}
START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "m", "type": "message", "role": "assistant", "content": [], "model": "claude-x",
        "stop_reason": None,
        "usage": {
            "input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 30, "cache_creation": SPLIT,
        },
    },
}  # fmt: skip


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


TEXT = block(
    0,
    {"type": "text", "text": ""},
    {"type": "text_delta", "text": "I "},
    {"type": "text_delta", "text": "wait."},
)
CALL = block(
    1,
    {"type": "tool_use", "id": "toolu_1", "name": "wait", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"why":'},
    {"type": "input_json_delta", "partial_json": ' "x"}'},
)


def end(reason: str, output: int = 9) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {"output_tokens": output, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30}
    return [
        {"type": "message_delta", "delta": delta, "usage": usage},
        {"type": "message_stop"},
    ]


def reply_of(*events: dict[str, Any], cut: bool = False) -> Answer:
    return Answer(anthropic_events(*events), cut=cut)


async def ask(server: Loopback, request: Request = REQUEST, key: str | None = None) -> Any:
    provider = AnthropicProvider("claude-x", key, server.url, now=lambda: 1_000_000.0)
    try:
        return await provider.complete(request)
    finally:
        await provider.close()


async def test_text_and_call_are_put_together_with_exact_usage(server: Loopback) -> None:
    server.answers = [reply_of(START, {"type": "ping"}, *TEXT, *CALL, *end("tool_use"))]
    reply = await ask(server)
    assert reply.text == "I wait."
    assert reply.calls == (ToolCall("toolu_1", "wait", '{"why": "x"}'),)
    assert reply.stop == StopReason.TOOL_CALL
    assert reply.usage == Usage(7, 100, 10, 20, 9)
    assert server.asked[0].path == "/v1/messages"
    assert server.asked[0].body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    ("split", "short", "long"),
    [
        ({"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 0}, 30, 0),
        ({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 30}, 0, 30),
        (None, 0, 30),
    ],
)
async def test_cache_writes_are_counted_once(
    server: Loopback, split: dict[str, int] | None, short: int, long: int
) -> None:
    usage = {**START["message"]["usage"], "cache_creation": split}
    server.answers = [
        reply_of(START | {"message": START["message"] | {"usage": usage}}, *TEXT, *end("end_turn"))
    ]
    found = (await ask(server)).usage
    assert (found.cache_write_tokens, found.cache_write_1h_tokens) == (short, long)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", StopReason.END),
        ("max_tokens", StopReason.TRUNCATED),
        ("model_context_window_exceeded", StopReason.TRUNCATED),
        ("refusal", StopReason.REFUSED),
    ],
)
async def test_stop_reasons(server: Loopback, reason: str, stop: StopReason) -> None:
    server.answers = [reply_of(START, *TEXT, *end(reason))]
    assert (await ask(server)).stop == stop


@pytest.mark.parametrize("cut", [False, True])
async def test_a_reply_that_breaks_off_is_unavailable_and_says_what_it_cost(
    server: Loopback, cut: bool
) -> None:
    server.answers = [reply_of(START, *TEXT, cut=cut)]
    with pytest.raises(UnavailableError, match="in the middle of its reply") as failed:
        await ask(server)
    assert failed.value.usage is not None
    assert failed.value.usage.all_input_tokens == 137
    assert failed.value.usage.output_tokens >= 1


async def test_a_reply_that_is_whole_counts_though_the_connection_breaks(server: Loopback) -> None:
    server.answers = [reply_of(START, *TEXT, *end("end_turn"), cut=True)]
    assert (await ask(server)).text == "I wait."


async def test_an_error_inside_the_stream(server: Loopback) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.answers = [reply_of(START, *TEXT, overloaded)]
    with pytest.raises(UnavailableError, match="Overloaded") as failed:
        await ask(server)
    assert failed.value.usage is not None


def told(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, told("rate_limit_error", "slow down"), UnavailableError),
        (529, told("overloaded_error", "Overloaded"), UnavailableError),
        (500, told("api_error", "Internal"), UnavailableError),
        (503, "<html>", UnavailableError),
        (401, told("authentication_error", "invalid x-api-key"), RejectedError),
        (404, told("not_found_error", "model: claude-x"), RejectedError),
        (400, told("invalid_request_error", "Your credit balance is too low"), RejectedError),
        (400, told("invalid_request_error", "messages: at least one"), RejectedError),
        (400, told("invalid_request_error", "prompt is too long: 9 > 8"), RequestTooLongError),
        (413, told("request_too_large", "too large"), RequestTooLongError),
    ],
)
async def test_what_errors_mean(server: Loopback, status: int, body: Any, kind: type[ProviderError]) -> None:
    server.answers = [error(status, body)]
    with pytest.raises(ProviderError) as failed:
        await ask(server)
    assert type(failed.value) is kind
    assert "anthropic:claude-x" in str(failed.value)
    assert str(status) in str(failed.value)


@pytest.mark.parametrize(
    ("header", "seconds"), [("17", 17.0), ("Mon, 12 Jan 1970 13:47:00 GMT", 20.0), ("soon", None)]
)
async def test_retry_after(server: Loopback, header: str, seconds: float | None) -> None:
    server.answers = [error(429, told("rate_limit_error", "slow"), **{"retry-after": header})]
    with pytest.raises(UnavailableError) as failed:
        await ask(server)
    assert failed.value.retry_after_s == seconds


async def test_nobody_there() -> None:
    provider = AnthropicProvider("claude-x", None, "http://127.0.0.1:1")
    with pytest.raises(UnavailableError, match="cannot be reached"):
        await provider.complete(REQUEST)


async def test_a_web_page_is_rejected_instead_of_asked_again_for_hours(server: Loopback) -> None:
    server.answers = [Answer(b"<html>hello</html>", headers={"content-type": "text/html"})]
    with pytest.raises(RejectedError, match="text/html"):
        await ask(server)


async def test_a_key_that_a_server_repeats_is_masked(server: Loopback) -> None:
    server.answers = [error(401, told("authentication_error", "no such key: correct-horse-battery"))]
    with pytest.raises(RejectedError) as failed:
        await ask(server, key="correct-horse-battery")
    assert "correct-horse" not in str(failed.value)


async def test_the_persons_own_key_does_not_reach_another_server(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-mine")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-mine")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "Authorization: Bearer mine\nX-Api-Key: mine")
    server.answers = [reply_of(START, *TEXT, *end("end_turn"))]
    await ask(server)
    assert "mine" not in str(server.asked[0].headers)


def test_cache_marks_go_from_long_to_short_and_are_at_most_four() -> None:
    turns = (UserTurn("a"), AssistantTurn("b", ToolCall("1", "wait", "{}")), ToolResultTurn("1", "c"))
    wire = wire_request("m", Request("s", (TOOL, TOOL), turns))
    found = []
    for part in [*wire["tools"], *wire["system"], *(b for m in wire["messages"] for b in m["content"])]:
        if "cache_control" in part:
            found.append(part["cache_control"].get("ttl", "5m"))
    assert found == ["1h", "1h", "5m", "5m"]
    assert "cache_control" in wire["messages"][0]["content"][-1]
    assert "cache_control" in wire["messages"][-1]["content"][-1]


def test_sides_alternate_and_malformed_arguments_are_shown_to_the_model() -> None:
    turns = (
        UserTurn("a"),
        AssistantTurn("", ToolCall("1", "wait", '{"why": ')),
        ToolResultTurn("1", "not JSON", is_error=True),
        UserTurn("again \udc80"),
        AssistantTurn(""),
        UserTurn(" "),
    )
    wire = wire_request("m", Request("", (), turns))
    json.dumps(wire, ensure_ascii=False).encode()
    assert [message["role"] for message in wire["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    (use,) = wire["messages"][1]["content"]
    assert use["input"] == {"_malformed": '{"why": '}
    result, words = wire["messages"][2]["content"]
    assert (result["tool_use_id"], result["is_error"], words["text"]) == ("1", True, "again ?")
    assert all(block["text"].strip() for m in wire["messages"][3:] for block in m["content"])


async def test_what_no_protocol_foresees_is_a_refusal_and_no_crash(server: Loopback) -> None:
    server.answers = [reply_of(START, {"type": "content_block_start", "index": 0}, *end("end_turn"))]
    with pytest.raises(RejectedError, match="sent a reply that cannot be read"):
        await ask(server)


async def test_oddly_typed_parts_are_understood(server: Loopback) -> None:
    usage = {"input_tokens": "5", "output_tokens": 1.0}
    start = START | {"message": START["message"] | {"usage": usage, "model": 5}}
    said = block(0, {"type": "text", "text": None}, {"type": "text_delta", "text": 5})
    server.answers = [reply_of(start, *said, *end("end_turn", output=3))]
    reply = await ask(server)
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("5", 5, 3)


def test_made_up_tool_names_go_back_as_the_protocol_takes_them() -> None:
    turns = (UserTurn("Go."), AssistantTurn("", ToolCall("c", "multi_tool_use.parallel", "{}")))
    request = Request("", (TOOL,), (*turns, ToolResultTurn("c", "no such tool")))
    (use,) = wire_request("m", request)["messages"][1]["content"]
    assert use["name"] == "multi_tool_use_parallel"
