"""The official SDK against a server of our own, with the liberties that servers take."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

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
from harness.providers.openai import OpenAIProvider, wire_request
from tests.harness.providers.loopback import Answer, Loopback, error, openai_chunks

TOOL = Tool("wait", "Waits.", {"type": "object", "properties": {}})
REQUEST = Request("Be brief.", (TOOL,), (UserTurn("Go on?"),))
USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109,
        "prompt_tokens_details": {"cached_tokens": 60},
    },
}  # fmt: skip


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def call(**fields: Any) -> dict[str, Any]:
    name, arguments = fields.pop("name", None), fields.pop("arguments", "")
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return chunk({"tool_calls": [fields | {"function": function}]})


def wait(**fields: Any) -> dict[str, Any]:
    return call(name="wait", **fields)


async def ask(server: Loopback, request: Request = REQUEST, key: str | None = None) -> Any:
    provider = OpenAIProvider("m", key, f"{server.url}/v1", now=lambda: 1_000_000.0)
    try:
        return await provider.complete(request)
    finally:
        await provider.close()


async def test_text_and_call_are_put_together_with_exact_usage(server: Loopback) -> None:
    server.answers = [
        Answer(
            openai_chunks(
                chunk({"role": "assistant", "content": "I "}),
                chunk({"content": "wait."}),
                call(index=0, id="call_a", name="wait", arguments='{"why"'),
                call(index=0, arguments=': "x"}'),
                chunk({}, "tool_calls"),
                USAGE,
            )
        )
    ]
    reply = await ask(server)
    assert (reply.text, reply.stop, reply.model) == ("I wait.", StopReason.TOOL_CALL, "m-1")
    assert reply.calls == (ToolCall("call_a", "wait", '{"why": "x"}'),)
    assert reply.usage == Usage(input_tokens=40, cache_read_tokens=60, output_tokens=9)
    asked = server.asked[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.body["stream_options"] == {"include_usage": True}
    assert asked.body["max_tokens"] == 4096
    assert asked.body["parallel_tool_calls"] is False
    assert "prompt_cache_key" not in asked.body


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param([call(id="", name="wait", arguments="{}")], [("call_1_0", "wait", "{}")], id="ollama"),
        pytest.param(
            [wait(index=0, id="a", arguments="{}"), wait(index=0, id="b", arguments="[]")],
            [("a", "wait", "{}"), ("b", "wait", "[]")],
            id="all at index 0",
        ),
        pytest.param(
            [wait(index=0, id="a", arguments="{"), wait(index=0, id="a", arguments="}")],
            [("a", "wait", "{}")],
            id="id and name repeated",
        ),
        pytest.param(
            [call(name="wait", arguments="{"), call(arguments="}"), call(name="stop")],
            [("call_1_0", "wait", "{}"), ("call_1_1", "stop", "{}")],
            id="neither index nor id",
        ),
        pytest.param(
            [call(index=0, id="a", name="wait", arguments={"why": 1})],
            [("a", "wait", '{"why": 1}')],
            id="arguments as an object",
        ),
    ],
)  # fmt: skip
async def test_calls_from_servers_that_take_liberties(
    server: Loopback, chunks: list[Any], calls: list[tuple[str, str, str]]
) -> None:
    server.answers = [Answer(openai_chunks(*chunks, chunk({}, "stop")))]
    reply = await ask(server)
    assert [(made.id, made.name, made.arguments) for made in reply.calls] == calls
    assert reply.stop == StopReason.TOOL_CALL


@pytest.mark.parametrize(
    ("finish", "delta", "stop"),
    [
        ("stop", {"content": "Done."}, StopReason.END),
        ("length", {"content": "Do"}, StopReason.TRUNCATED),
        ("content_filter", {}, StopReason.REFUSED),
        ("stop", {"refusal": "I will not."}, StopReason.REFUSED),
    ],
)
async def test_finish_reasons(server: Loopback, finish: str, delta: dict[str, Any], stop: StopReason) -> None:
    server.answers = [Answer(openai_chunks(chunk(delta), chunk({}, finish), USAGE))]
    assert (await ask(server)).stop == stop


async def test_a_server_that_counts_nothing_is_estimated(server: Loopback) -> None:
    server.answers = [Answer(openai_chunks(chunk({"content": "x" * 40}), chunk({}, "stop")))]
    usage = (await ask(server, Request("s" * 4000, (), (UserTurn("u"),)))).usage
    assert usage.output_tokens == 10
    assert 1000 <= usage.input_tokens <= 1050
    assert usage.cache_read_tokens == 0


@pytest.mark.parametrize("cut", [False, True])
async def test_a_reply_that_breaks_off_is_unavailable(server: Loopback, cut: bool) -> None:
    server.answers = [Answer(openai_chunks(chunk({"content": "I "}), done=False), cut=cut)]
    with pytest.raises(UnavailableError) as failed:
        await ask(server)
    assert failed.value.usage is not None
    assert failed.value.usage.input_tokens > 0


async def test_garbage_inside_the_stream_may_pass(server: Loopback) -> None:
    server.answers = [Answer(b"data: {not json\n\n")]
    with pytest.raises(UnavailableError, match="cannot be read"):
        await ask(server)


def told(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, told("Rate limit reached", code="rate_limit_exceeded"), UnavailableError),
        (429, told("You exceeded your current quota", code="insufficient_quota"), RejectedError),
        (429, told("Request too large for gpt-x on tokens per min", code="x"), RequestTooLongError),
        (502, "<html>", UnavailableError),
        (504, told("upstream timed out"), UnavailableError),
        (401, told("Incorrect API key provided"), RejectedError),
        (403, told("Country not supported"), RejectedError),
        (404, told("The model does not exist"), RejectedError),
        (422, told("Unprocessable"), RejectedError),
        (400, told("This model's maximum context length is 8192 tokens"), RequestTooLongError),
        (400, told("too long", code="context_length_exceeded"), RequestTooLongError),
    ],
)
async def test_what_errors_mean(server: Loopback, status: int, body: Any, kind: type[ProviderError]) -> None:
    server.answers = [error(status, body)]
    with pytest.raises(ProviderError) as failed:
        await ask(server)
    assert type(failed.value) is kind
    assert "openai:m" in str(failed.value)


@pytest.mark.parametrize(
    ("inside", "kind"),
    [
        (told("The server had an error", type="server_error"), UnavailableError),
        (told("Bad value", code=400, type="BadRequestError"), RejectedError),
        (told("maximum context length is 10", type="invalid_request_error"), RequestTooLongError),
        (told("no more", code="insufficient_quota"), RejectedError),
    ],
)
async def test_errors_inside_the_stream(server: Loopback, inside: Any, kind: type[ProviderError]) -> None:
    server.answers = [Answer(openai_chunks(chunk({"content": "I"}), inside))]
    with pytest.raises(ProviderError) as failed:
        await ask(server)
    assert type(failed.value) is kind


async def test_the_persons_own_key_does_not_reach_another_server(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "mine")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer mine")
    server.answers = [Answer(openai_chunks(chunk({"content": "x"}, "stop")))]
    await ask(server)
    assert "mine" not in str(server.asked[0].headers)
    await ask(server, key="named-for-this-server")
    assert server.asked[1].headers["authorization"] == "Bearer named-for-this-server"


async def test_a_redirect_is_not_followed(server: Loopback) -> None:
    server.answers = [error(307, {}, location=f"{server.url}/elsewhere")]
    with pytest.raises(RejectedError, match=r"leads to .*/elsewhere"):
        await ask(server)
    assert len(server.asked) == 1


async def test_a_call_in_flight_can_be_cancelled(server: Loopback) -> None:
    hold = threading.Event()
    server.answers = [Answer(b"", hold=hold)]
    task = asyncio.create_task(ask(server))
    await asyncio.to_thread(server.begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold.set()


def test_the_official_server_gets_its_own_names() -> None:
    wire = wire_request("gpt-x", REQUEST, is_official=True)
    assert wire["max_completion_tokens"] == 4096
    assert "max_tokens" not in wire
    assert wire["prompt_cache_key"] == wire_request("gpt-x", REQUEST, is_official=True)["prompt_cache_key"]
    assert "parallel_tool_calls" not in wire_request("o3", REQUEST, is_official=True)


def test_messages() -> None:
    turns = (
        UserTurn("a"),
        UserTurn("b"),
        AssistantTurn("", ToolCall("1", "wait", "nonsense")),
        ToolResultTurn("1", "no", is_error=True),
        UserTurn("c"),
    )
    messages = wire_request("m", Request("s", (), turns), is_official=False)["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert messages[1]["content"] == "a\n\nb"
    assert messages[2]["tool_calls"][0]["function"]["arguments"] == '{"_malformed": "nonsense"}'
    assert messages[3] == {"role": "tool", "tool_call_id": "1", "content": "Error: no"}


def text(*chunks: dict[str, Any]) -> list[Answer]:
    return [Answer(openai_chunks(*chunks))]


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": {"0": {"delta": {"content": "x"}}}},
        chunk({"tool_calls": 5}),
        chunk({"tool_calls": [5]}) | {"choices": [{"delta": {"tool_calls": 7}}]},
    ],
)
async def test_what_no_protocol_foresees_is_a_refusal_and_no_crash(
    server: Loopback, odd: dict[str, Any]
) -> None:
    server.answers = text(odd, chunk({}, "stop"))
    with pytest.raises(RejectedError, match=r"sent a reply that cannot be read.*protocol"):
        await ask(server)


async def test_events_that_are_no_objects(server: Loopback) -> None:
    for data in (b"null", b"7", b"[1]", b'"hello"'):
        server.answers = [Answer(b"data: " + data + b"\n\ndata: [DONE]\n\n")]
        with pytest.raises(ProviderError):
            await ask(server)


async def test_oddly_typed_parts_are_understood(server: Loopback) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    said = chunk({"content": [thought, {"type": "text", "text": "I "}]}), chunk({"content": ["wait"]})
    made = chunk({"tool_calls": [{"index": "0", "id": 7, "function": {"name": "wait", "arguments": None}}]})
    counts = {"choices": [], "usage": {"prompt_tokens": "12", "completion_tokens": 3.0}}
    server.answers = text(*said, made, chunk({}, "stop"), counts)
    reply = await ask(server)
    assert reply.text == "I wait"
    assert reply.calls == (ToolCall("7", "wait", "{}"),)
    assert reply.usage == Usage(input_tokens=12, output_tokens=3)


async def test_counts_of_nothing_are_not_believed(server: Loopback) -> None:
    for counts in ({"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -5}, [1]):
        server.answers = text(
            chunk({"content": "hi" * 50}), chunk({}, "stop"), {"choices": [], "usage": counts}
        )
        usage = (await ask(server)).usage
        assert usage.input_tokens > 10
        assert usage.output_tokens == 25


async def test_half_characters_become_question_marks(server: Loopback) -> None:
    server.answers = text(chunk({"content": "a \ud800 b"}, "stop"))
    assert (await ask(server)).text == "a ? b"


@pytest.mark.parametrize(
    ("name", "sent"), [("functions.look", "functions_look"), ("", "unnamed"), ("x" * 200, "x" * 64)]
)
def test_made_up_tool_names_go_back_as_the_protocol_takes_them(name: str, sent: str) -> None:
    turns = (
        UserTurn("Go."),
        AssistantTurn("", ToolCall("c", name, "{}")),
        ToolResultTurn("c", "no such tool"),
    )
    messages = wire_request("m", Request("", (TOOL,), turns), is_official=True)["messages"]
    assert messages[1]["tool_calls"][0]["function"]["name"] == sent


async def test_a_request_that_was_taken_and_never_answered_is_charged(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.providers.stream.BETWEEN_CHUNKS_S", 0.05)
    released = threading.Event()
    server.answers = [Answer(b"", hold=released)]
    with pytest.raises(UnavailableError, match="did not answer in time") as failed:
        await ask(server)
    released.set()
    assert failed.value.usage is not None and failed.value.usage.input_tokens > 10
    assert failed.value.is_estimated


async def test_no_proxy_stands_before_this_machine(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.answers = text(chunk({"content": "hi"}, "stop"))
    assert (await ask(server)).text == "hi"


async def test_a_proxy_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:secretpw@127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    provider = OpenAIProvider("m", None, "http://models.example/v1")
    with pytest.raises(UnavailableError, match=r"through the proxy http://127.0.0.1:9") as failed:
        await provider.complete(REQUEST)
    await provider.close()
    assert "secretpw" not in str(failed.value)
