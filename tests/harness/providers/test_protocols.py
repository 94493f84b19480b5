"""Both providers over the official SDKs against a server of our own, with the liberties that servers take."""

import asyncio
import json
import threading
from typing import Any

import pytest

from harness.providers import anthropic, openai
from harness.providers.anthropic import AnthropicProvider
from harness.providers.chat import (
    AssistantTurn,
    NoAccessError,
    ProviderError,
    RejectedError,
    Reply,
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
from harness.providers.openai import OpenAIProvider
from tests.harness.providers.loopback import Answer, Loopback, anthropic_events, error, openai_chunks

TOOL = Tool("wait", "Waits.", {"type": "object", "properties": {"why": {"type": "string"}}})
REQUEST = Request("Be brief.", (TOOL,), (UserTurn("Go on?"),))
MESSAGE: dict[str, Any] = {
    "id": "m", "type": "message", "role": "assistant", "content": [], "model": "m-1", "stop_reason": None,
    "usage": {
        "input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 10},
    },
}  # fmt: skip
COUNTS = {"choices": [], "usage": {
    "prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60},
}}  # fmt: skip
both = pytest.mark.parametrize("protocol", ["anthropic", "openai"])


async def ask(
    server: Loopback,
    protocol: str,
    request: Request = REQUEST,
    key: str | None = None,
    timeout_s: float | None = None,
) -> Reply:
    kind, url = (AnthropicProvider, "") if protocol == "anthropic" else (OpenAIProvider, "/v1")
    provider = kind("m", key, f"{server.url}{url}", timeout_s)
    try:
        return await provider.complete(request)
    finally:
        await provider.close()


def started(**changes: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {**MESSAGE, **changes}}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


TEXT = block(0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": t} for t in ("I ", "wait.")))
CALL = block(
    1,
    {"type": "tool_use", "id": "call_a", "name": "wait", "input": {}},
    *({"type": "input_json_delta", "partial_json": piece} for piece in ('{"why":', ' "x"}')),
)


def ended(reason: str, output: int = 9) -> list[dict[str, Any]]:
    usage = {"output_tokens": output, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30}
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def made(**fields: Any) -> dict[str, Any]:
    """A fragment of a call."""
    name, arguments = fields.pop("name", None), fields.pop("arguments", "")
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return chunk({"tool_calls": [fields | {"function": function}]})


def events(*told: dict[str, Any], cut: bool = False) -> Answer:
    return Answer(anthropic_events(*told), cut=cut)


def spoken(reason: str, cut: bool = False) -> Answer:
    return events(started(), *TEXT, *ended(reason), cut=cut)


def chunks(*told: dict[str, Any]) -> Answer:
    return Answer(openai_chunks(*told))


WHOLE = {
    "anthropic": events(started(), {"type": "ping"}, *TEXT, *CALL, *ended("tool_use")),
    "openai": chunks(
        *(chunk({"content": piece}) for piece in ("I ", "wait.")),
        made(index=0, id="call_a", name="wait", arguments='{"why":'),
        made(index=0, arguments=' "x"}'),
        chunk({}, "tool_calls"),
        COUNTS,
    ),
}
BEGUN = {
    "anthropic": anthropic_events(started(), *TEXT),
    "openai": openai_chunks(chunk({"content": "I "}), done=False),
}


@both
async def test_text_and_call_are_put_together_with_exact_usage(server: Loopback, protocol: str) -> None:
    server.answers = [WHOLE[protocol]]
    reply = await ask(server, protocol)
    assert (reply.text, reply.stop, reply.model) == ("I wait.", StopReason.TOOL_CALL, "m-1")
    assert reply.calls == (ToolCall("call_a", "wait", '{"why": "x"}'),)
    asked = server.asked[0]
    if protocol == "anthropic":
        assert reply.usage == Usage(7, 100, 10, 20, 9)
        assert asked.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    else:
        assert reply.usage == Usage(input_tokens=40, cache_read_tokens=60, output_tokens=9)
        assert asked.body["stream_options"] == {"include_usage": True}
        assert (asked.body["max_tokens"], asked.body["parallel_tool_calls"]) == (4096, False)
        assert "prompt_cache_key" not in asked.body


@pytest.mark.parametrize(
    ("protocol", "answer", "stop"),
    [
        ("anthropic", spoken("end_turn"), StopReason.END),
        ("anthropic", spoken("max_tokens"), StopReason.TRUNCATED),
        ("anthropic", spoken("model_context_window_exceeded"), StopReason.TRUNCATED),
        ("anthropic", spoken("refusal"), StopReason.REFUSED),
        ("openai", chunks(chunk({"content": "Done."}, "stop")), StopReason.END),
        ("openai", chunks(chunk({"content": "Do"}, "length")), StopReason.TRUNCATED),
        ("openai", chunks(chunk({}, "content_filter")), StopReason.REFUSED),
        ("openai", chunks(chunk({"refusal": "I will not."}, "stop")), StopReason.REFUSED),
    ],
)
async def test_why_it_stopped(server: Loopback, protocol: str, answer: Answer, stop: StopReason) -> None:
    server.answers = [answer]
    assert (await ask(server, protocol)).stop == stop


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        ([made(id="", name="wait", arguments="{}")], [("call_1_0", "{}")]),
        ([made(index=0, id=i, name="wait", arguments="{}") for i in "ab"], [("a", "{}"), ("b", "{}")]),
        ([made(index=0, id="a", name="wait", arguments=each) for each in "{}"], [("a", "{}")]),
        (
            [made(name="a", arguments="{"), made(arguments="}"), made(name="b")],
            [(f"call_1_{n}", "{}") for n in (0, 1)],
        ),
    ],
    ids=["no id", "all at index 0", "id and name repeated", "neither index nor id"],
)
async def test_calls_from_servers_that_take_liberties(server: Loopback, fragments: Any, calls: Any) -> None:
    server.answers = [chunks(*fragments, chunk({}, "stop"))]
    reply = await ask(server, "openai")
    assert [(call.id, call.arguments) for call in reply.calls] == calls
    assert reply.stop == StopReason.TOOL_CALL


@pytest.mark.parametrize(
    ("split", "counted"),
    [
        ({"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 0}, (30, 0)),
        ({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 30}, (0, 30)),
        (None, (0, 30)),
    ],
)
async def test_cache_writes_are_counted_once(server: Loopback, split: Any, counted: tuple[int, int]) -> None:
    usage = {**MESSAGE["usage"], "cache_creation": split}
    server.answers = [events(started(usage=usage), *TEXT, *ended("end_turn"))]
    found = (await ask(server, "anthropic")).usage
    assert (found.cache_write_tokens, found.cache_write_1h_tokens) == counted


@pytest.mark.parametrize("counts", [None, {"prompt_tokens": 0, "completion_tokens": 0}, [1]])
async def test_what_is_not_counted_is_estimated(server: Loopback, counts: Any) -> None:
    usage = [] if counts is None else [{"choices": [], "usage": counts}]
    server.answers = [chunks(chunk({"content": "x" * 40}), chunk({}, "stop"), *usage)]
    found = (await ask(server, "openai", Request("s" * 4000, (), (UserTurn("u"),)))).usage
    assert found.output_tokens == 10
    assert 1000 <= found.input_tokens <= 1050


@both
@pytest.mark.parametrize("cut", [False, True])
async def test_a_reply_that_breaks_off_says_what_it_cost(server: Loopback, protocol: str, cut: bool) -> None:
    server.answers = [Answer(BEGUN[protocol], cut=cut)]
    with pytest.raises(UnavailableError, match="in the middle of its reply") as failed:
        await ask(server, protocol)
    assert failed.value.usage is not None
    assert failed.value.usage.all_input_tokens > 0 and failed.value.usage.output_tokens > 0


async def test_a_reply_that_is_whole_counts_though_the_connection_breaks(server: Loopback) -> None:
    server.answers = [spoken("end_turn", cut=True)]
    assert (await ask(server, "anthropic")).text == "I wait."


def told(message: str, **fields: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("protocol", "status", "body", "kind"),
    [
        ("anthropic", 429, told("slow down", type="rate_limit_error"), UnavailableError),
        ("anthropic", 529, told("Overloaded", type="overloaded_error"), UnavailableError),
        ("anthropic", 503, "<html>", UnavailableError),
        ("anthropic", 401, told("invalid x-api-key", type="authentication_error"), NoAccessError),
        ("anthropic", 400, told("Your credit balance is too low"), NoAccessError),
        ("anthropic", 400, told("messages: at least one"), RejectedError),
        ("anthropic", 400, told("prompt is too long: 9 > 8"), RequestTooLongError),
        ("anthropic", 413, told("too large", type="request_too_large"), RequestTooLongError),
        ("openai", 429, told("Rate limit reached", code="rate_limit_exceeded"), UnavailableError),
        ("openai", 429, told("You exceeded your current quota"), NoAccessError),
        ("openai", 429, told("Request too large for gpt-x on tokens per min"), RequestTooLongError),
        ("openai", 504, told("upstream timed out"), UnavailableError),
        ("openai", 403, told("Country not supported"), NoAccessError),
        ("openai", 404, told("The model does not exist"), NoAccessError),
        ("openai", 422, told("Unprocessable"), RejectedError),
        ("openai", 400, told("too long", code="context_length_exceeded"), RequestTooLongError),
    ],
)
async def test_what_errors_mean(server: Loopback, protocol: str, status: int, body: Any, kind: Any) -> None:
    server.answers = [error(status, body)]
    with pytest.raises(ProviderError) as failed:
        await ask(server, protocol)
    assert type(failed.value) is kind
    assert f"{protocol}:m" in str(failed.value) and str(status) in str(failed.value)


@pytest.mark.parametrize(
    ("protocol", "inside", "kind"),
    [
        ("anthropic", told("Overloaded", type="overloaded_error"), UnavailableError),
        ("openai", told("The server had an error", type="server_error"), UnavailableError),
        ("openai", told("Bad value", code=400, type="BadRequestError"), RejectedError),
        ("openai", told("maximum context length is 10"), RequestTooLongError),
        ("openai", told("no more", code="insufficient_quota"), NoAccessError),
    ],
)
async def test_errors_inside_the_stream(server: Loopback, protocol: str, inside: Any, kind: Any) -> None:
    begun = [started(), *TEXT] if protocol == "anthropic" else [chunk({"content": "I"})]
    server.answers = [(events if protocol == "anthropic" else chunks)(*begun, inside)]
    with pytest.raises(ProviderError) as failed:
        await ask(server, protocol)
    assert type(failed.value) is kind and failed.value.usage is not None


async def test_retry_after(server: Loopback) -> None:
    server.answers = [error(429, told("slow"), **{"retry-after": header}) for header in ("17", "soon")]
    for seconds in (17.0, None):
        with pytest.raises(UnavailableError) as failed:
            await ask(server, "anthropic")
        assert failed.value.retry_after_s == seconds


@both
async def test_a_web_page_a_redirect_and_garbage_are_no_replies(server: Loopback, protocol: str) -> None:
    server.answers = [
        Answer(b"<html>hello</html>", headers={"content-type": "text/html"}),
        error(307, {}, location=f"{server.url}/elsewhere"),
        Answer(b"event: message_start\ndata: {not json\n\n"),
        *(Answer(b"data: " + data + b"\n\ndata: [DONE]\n\n") for data in (b"null", b"7", b"[1]", b'"hello"')),
    ]
    for words in ("text/html", r"leads to .*/elsewhere"):
        with pytest.raises(NoAccessError, match=words):
            await ask(server, protocol)
    for words in ("cannot be read", *[None] * 4):
        with pytest.raises(ProviderError, match=words):
            await ask(server, protocol)


@pytest.mark.parametrize(
    ("protocol", "answer"),
    [
        ("anthropic", events(started(), {"type": "content_block_start", "index": 0}, *ended("end_turn"))),
        ("openai", chunks({"choices": {"0": {"delta": {"content": "x"}}}}, chunk({}, "stop"))),
        ("openai", chunks(chunk({"tool_calls": 5}), chunk({}, "stop"))),
        ("openai", chunks(chunk({"content": [{"type": "text", "text": "I "}]}), chunk({}, "stop"))),
        ("openai", chunks(made(index=0, id="a", name="wait", arguments={"why": 1}), chunk({}, "stop"))),
    ],
)
async def test_what_no_protocol_foresees_is_refused(server: Loopback, protocol: str, answer: Answer) -> None:
    server.answers = [answer]
    with pytest.raises(RejectedError, match=r"sent a reply that cannot be read.*protocol"):
        await ask(server, protocol)


async def test_counts_that_are_no_numbers_and_half_characters(server: Loopback) -> None:
    counts = {"choices": [], "usage": {"prompt_tokens": "12", "completion_tokens": 3.0}}
    server.answers = [chunks(chunk({"content": "I \ud800"}), chunk({}, "stop"), counts)]
    reply = await ask(server, "openai")
    assert (reply.text, reply.usage.output_tokens) == ("I ?", 3)
    assert reply.usage.input_tokens > 12, "estimated"


@both
async def test_the_persons_own_key_does_not_reach_another_server(
    server: Loopback, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"{protocol.upper()}_{name}", "mine")
    more = "\nX-Api-Key: mine" if protocol == "anthropic" else ""
    monkeypatch.setenv(f"{protocol.upper()}_CUSTOM_HEADERS", f"Authorization: Bearer mine{more}")
    server.answers = [WHOLE[protocol]]
    await ask(server, protocol)
    assert "mine" not in str(server.asked[0].headers)
    assert not {"authorization", "x-api-key"} & set(server.asked[0].headers), (
        "none at all, where there is none"
    )
    await ask(server, protocol, key="named-for-this-server")
    assert server.asked[1].headers["authorization"] == "Bearer named-for-this-server"


async def test_a_key_that_a_server_repeats_is_masked(server: Loopback) -> None:
    server.answers = [error(401, told("no such key: correct-horse-battery"))]
    with pytest.raises(RejectedError) as failed:
        await ask(server, "anthropic", key="correct-horse-battery")
    assert "correct-horse" not in str(failed.value)


async def test_a_call_in_flight_can_be_cancelled(server: Loopback) -> None:
    server.answers = [Answer(b"", hold=(hold := threading.Event()))]
    task = asyncio.create_task(ask(server, "openai"))
    await asyncio.to_thread(server.begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold.set()


async def test_a_request_never_answered_is_charged(server: Loopback) -> None:
    server.answers = [Answer(b"", hold=(released := threading.Event()))]
    with pytest.raises(UnavailableError, match="did not answer in time") as failed:
        await ask(server, "openai", timeout_s=0.05)
    released.set()
    assert failed.value.usage is not None and failed.value.usage.input_tokens > 10
    assert failed.value.is_estimated


async def test_nobody_there_and_a_proxy_down(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:secretpw@127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.answers = [WHOLE["openai"]]
    assert (await ask(server, "openai")).text == "I wait.", "no proxy stands before this machine"
    with pytest.raises(UnavailableError, match="cannot be reached"):
        await AnthropicProvider("m", None, "http://127.0.0.1:1").complete(REQUEST)
    with pytest.raises(UnavailableError, match=r"cannot be reached .*proxies in the environment") as failed:
        await OpenAIProvider("m", None, "http://models.example/v1").complete(REQUEST)
    assert "secretpw" not in str(failed.value)


def test_cache_marks_go_from_long_to_short_and_are_at_most_four() -> None:
    turns = (UserTurn("a"), AssistantTurn("b", ToolCall("1", "wait", "{}")), ToolResultTurn("1", "c"))
    wire = anthropic.wire_request("m", Request("s", (TOOL, TOOL), turns))
    parts = [*wire["tools"], *wire["system"], *(b for m in wire["messages"] for b in m["content"])]
    marks = [part["cache_control"].get("ttl", "5m") for part in parts if "cache_control" in part]
    assert marks == ["1h", "1h", "5m", "5m"]
    assert all("cache_control" in wire["messages"][index]["content"][-1] for index in (0, -1))


def test_turns_become_messages() -> None:
    turns = (
        UserTurn("a"),
        UserTurn("b"),
        AssistantTurn("", ToolCall("1", "functions.look", '{"why": ')),
        ToolResultTurn("1", "not JSON", is_error=True),
        UserTurn("again \udc80"),
        AssistantTurn(""),
        UserTurn(" "),
    )
    request = Request("s", (), turns)
    wire = anthropic.wire_request("m", request)["messages"]
    json.dumps(wire, ensure_ascii=False).encode()
    assert [message["role"] for message in wire] == ["user", "assistant"] * 2 + ["user"]
    (use,) = wire[1]["content"]
    assert (use["name"], use["input"]) == ("functions_look", {"_malformed": '{"why": '})
    result, words = wire[2]["content"]
    assert (result["tool_use_id"], result["is_error"], words["text"]) == ("1", True, "again ?")
    assert all(part["text"].strip() for message in wire[3:] for part in message["content"])
    other = openai.wire_request("m", request, is_official=False)["messages"]
    roles = ["system", "user", "assistant", "tool", "user", "assistant", "user"]
    assert [message["role"] for message in other] == roles
    assert other[1]["content"] == "a\n\nb"
    call = other[2]["tool_calls"][0]["function"]
    assert call == {"name": "functions_look", "arguments": '{"_malformed": "{\\"why\\": "}'}
    assert other[3] == {"role": "tool", "tool_call_id": "1", "content": "Error: not JSON"}


def test_the_official_server_gets_its_own_names() -> None:
    wire = openai.wire_request("gpt-x", REQUEST, is_official=True)
    assert wire["max_completion_tokens"] == 4096 and "max_tokens" not in wire
    assert wire["prompt_cache_key"] == openai.wire_request("gpt-x", REQUEST, True)["prompt_cache_key"]
    assert "parallel_tool_calls" not in openai.wire_request("o3", REQUEST, is_official=True)
