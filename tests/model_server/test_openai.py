"""The server as OpenAI's SDK finds it: answers, failures, and what it refuses to take."""

from typing import Any

import openai
import pytest

from tests.model_server.conversations import (
    OPENAI_TOOL,
    SCHEMA,
    ask_openai,
    openai_client,
    openai_history,
    openai_request,
)
from tests.model_server.server import ModelServer
from tests.model_server.steps import (
    Step,
    as_call,
    context_overflow,
    cut_off,
    error_in_stream,
    filtered,
    hang,
    overloaded,
    quota_exceeded,
    raw_call,
    refuse,
    say,
    say_and_call,
    server_error,
    several,
    status,
    truncate,
    truncate_call,
    unauthorized,
)

LONG = "The loss has been falling since step 12, and nothing else stands out in the log — 好."


def joined(chunks: list[Any], part: str = "content") -> str:
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    return "".join(getattr(delta, part) or "" for delta in deltas)


def calls_in(chunks: list[Any]) -> dict[int, tuple[str, str, str]]:
    """Id, name and arguments of each call, put together from the deltas."""
    calls: dict[int, tuple[str, str, str]] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            for piece in choice.delta.tool_calls or []:
                id_, name, arguments = calls.get(piece.index, ("", "", ""))
                more = piece.function.arguments or ""
                calls[piece.index] = (piece.id or id_, piece.function.name or name, arguments + more)
    return calls


def finish(chunks: list[Any]) -> list[str]:
    found = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    return [reason for reason in found if reason]


def test_words_and_parallel_calls_arrive_whole() -> None:
    step = several(as_call("look", lines=80), as_call("look", lines=81))
    with ModelServer([say_and_call(LONG, "look", lines=7), step]) as server:
        first, second = ask_openai(server), ask_openai(server)
    assert joined(first) == LONG
    assert calls_in(first)[0][1:] == ("look", '{"lines": 7}')
    assert [arguments for _, _, arguments in calls_in(second).values()] == ['{"lines": 80}', '{"lines": 81}']
    ids = [id_ for chunks in (first, second) for id_, _, _ in calls_in(chunks).values()]
    assert len(set(ids)) == 3
    assert finish(first) == finish(second) == ["tool_calls"]


def test_without_streaming() -> None:
    with ModelServer([say_and_call(LONG, "look", lines=7)]) as server, openai_client(server) as client:
        answer = client.chat.completions.create(**openai_request())
    message = answer.choices[0].message
    assert (message.content, message.tool_calls[0].function.arguments) == (LONG, '{"lines": 7}')
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_usage_comes_last_in_a_stream_and_only_when_asked_for() -> None:
    with ModelServer([say("Yes."), say("No.")]) as server:
        without = ask_openai(server)
        asked = ask_openai(server, stream_options={"include_usage": True})
    assert all(chunk.usage is None for chunk in [*without, *asked[:-1]])
    assert asked[-1].choices == []
    assert asked[-1].usage.completion_tokens == 1


@pytest.mark.parametrize(
    ("step", "reason", "part", "words"),
    [
        (say("Done."), "stop", "content", "Done."),
        (truncate("I was about"), "length", "content", "I was about"),
        (refuse("No."), "stop", "refusal", "No."),
        (filtered(), "content_filter", "content", ""),
    ],
)
def test_why_it_stopped(step: Step, reason: str, part: str, words: str) -> None:
    with ModelServer([step, step]) as server, openai_client(server) as client:
        chunks = ask_openai(server)
        choice = client.chat.completions.create(**openai_request()).choices[0]
    assert (finish(chunks), joined(chunks, part)) == ([reason], words)
    assert (choice.finish_reason, getattr(choice.message, part) or "") == (reason, words)


def test_arguments_arrive_as_they_were_written() -> None:
    with ModelServer([raw_call("look", '{"lines": eighty}'), truncate_call("look", '{"lines": 8')]) as server:
        malformed, truncated = ask_openai(server), ask_openai(server)
    assert calls_in(malformed)[0][2] == '{"lines": eighty}'
    assert (calls_in(truncated)[0][2], finish(truncated)) == ('{"lines": 8', ["length"])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("step", "kind", "words", "code"),
    [
        (status(429, retry_after=7), openai.RateLimitError, "Rate limit reached", "rate_limit_exceeded"),
        (quota_exceeded(), openai.RateLimitError, "exceeded your current quota", "insufficient_quota"),
        (overloaded(), openai.InternalServerError, "currently overloaded", None),
        (server_error(), openai.InternalServerError, "had an error", None),
        (unauthorized(), openai.AuthenticationError, "Incorrect API key", "invalid_api_key"),
        (context_overflow(), openai.BadRequestError, "maximum context length", "context_length_exceeded"),
        (error_in_stream("server_error"), openai.APIError, "had an error", None),
    ],
)
def test_failures_reach_the_client_as_its_own_errors(
    step: Step, kind: type[openai.APIError], words: str, code: str | None, stream: bool
) -> None:
    with ModelServer([step]) as server, openai_client(server) as client:
        with pytest.raises(kind, match=words) as caught:
            ask_openai(server) if stream else client.chat.completions.create(**openai_request())
    assert caught.value.code == code
    if step == status(429, retry_after=7):
        assert isinstance(caught.value, openai.RateLimitError)
        assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("events", [0, 1, 4])
def test_a_connection_that_breaks_is_a_broken_connection(events: int) -> None:
    with ModelServer([cut_off(after_events=events)]) as server:
        with pytest.raises(
            Exception, match=r"incomplete chunked read|Connection error|disconnected|peer closed"
        ):
            ask_openai(server)


@pytest.mark.parametrize("step", [hang(30), hang(30, say(LONG), after_events=3)])
async def test_a_client_that_gives_up_on_a_silence_is_let_go(step: Step) -> None:
    with ModelServer([step]) as server:
        async with openai.AsyncOpenAI(
            base_url=server.openai_url, api_key="key", max_retries=0, timeout=0.2
        ) as client:
            with pytest.raises(Exception, match=r"timed out|Timeout"):
                async for _ in await client.chat.completions.create(**openai_request(stream=True)):
                    pass


def test_a_script_sees_the_request_in_no_protocols_words() -> None:
    system = {"role": "system", "content": "You watch a training."}
    more = {"role": "user", "content": "And?"}
    with ModelServer([say("Fine.")]) as server:
        ask_openai(server, messages=[system, *openai_history(), more])
        seen = server.log[0].seen
    assert seen is not None
    assert seen.tools["look"].schema == SCHEMA
    assert [turn.role for turn in seen.turns] == ["user", "assistant", "user"]
    assert (seen.turns[2].text, seen.turns[2].results[0].text) == ("And?", "loss is 3")
    assert seen.texts == ["You watch a training.", "What now?", "loss is 3", "And?"]


def test_usage_tells_what_the_cache_did() -> None:
    clock = [0.0]
    request = {"tools": None, "stream_options": {"include_usage": True}}
    begin = {"role": "system", "content": "s" * (4 * 1300 - len("\n\nsystem: "))}
    with ModelServer([say("Yes.")] * 4, now=lambda: clock[0]) as server:

        def cached(question: str) -> tuple[int, int]:
            usage = ask_openai(server, messages=[begin, {"role": "user", "content": question}], **request)[
                -1
            ].usage
            return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens

        total = 1300 + (len("\n\nuser: why") + 3) // 4
        assert cached("why") == (total, 0)
        clock[0] = 599
        assert cached("who") == (total, 1024 + 2 * 128)
        clock[0] = 599 + 600
        assert cached("how") == (total, 0)


def messages(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "a"}, *more]


def tool(**changes: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {**OPENAI_TOOL["function"], **changes}}]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"messages": []}, "empty array"),
        ({"messages": openai_history(call_id="call_2")}, "must be a response to a preceeding message"),
        ({"messages": openai_history()[:2]}, "did not have response messages: call_1"),
        ({"messages": [*openai_history()[:2], *messages()]}, "did not have response messages: call_1"),
        ({"messages": messages({"role": "tool", "tool_call_id": "x", "content": "y"})}, "must be a response"),
        ({"messages": messages({"role": "assistant", "content": None})}, "expected a string, got null"),
        ({"messages": messages({"role": "assistant", "content": "b", "tool_calls": []})}, "empty array"),
        ({"messages": messages({"role": "bot", "content": "b"})}, "Invalid value: 'bot'"),
        ({"messages": [{"role": "user", "content": ""}]}, "empty string"),
        ({"messages": [{"role": "user", "content": "a", "cache_control": {}}]}, "Unknown parameter"),
        ({"tools": []}, "empty array"),
        ({"tools": None, "tool_choice": "auto"}, "only allowed when 'tools' are specified"),
        ({"tool_choice": "any"}, "Invalid value for 'tool_choice'"),
        ({"tools": tool(name="look.at")}, "does not match pattern"),
        ({"tools": tool(description="x" * 1025)}, "string too long"),
        ({"tools": tool(parameters={"properties": {}})}, "must be a JSON Schema of"),
        ({"tools": tool(parameters={**SCHEMA, "properties": {"lines": {"type": "array"}}})}, "missing items"),
        ({"tools": tool(strict=True, parameters={**SCHEMA, "required": []})}, "missing ['lines']"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled"),
        ({"model": "gpt-5", "max_tokens": 5}, "Use 'max_completion_tokens' instead"),
        ({"model": "o3", "temperature": 0}, "Only the default (1) value is supported"),
        ({"extra_body": {"system": "x"}}, "Unrecognized request argument supplied: system"),
    ],
)
def test_what_the_real_one_refuses_is_refused_and_remembered(changes: dict[str, Any], complaint: str) -> None:
    with ModelServer([]) as server, openai_client(server) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**openai_request(**changes))
        taken = server.take_violations()
    assert complaint in caught.value.message
    assert complaint in taken[0]


def test_it_lists_models() -> None:
    with ModelServer([]) as server, openai_client(server) as client:
        assert "gpt-scripted" in [model.id for model in client.models.list()]
