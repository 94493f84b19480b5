"""The server as Anthropic's SDK finds it: answers, failures, and what it refuses to take."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anthropic
import pytest

from tests.model_server.conversations import (
    ANTHROPIC_TOOL,
    SCHEMA,
    anthropic_client,
    anthropic_history,
    anthropic_request,
    ask_anthropic,
)
from tests.model_server.server import ModelServer
from tests.model_server.steps import (
    Step,
    as_call,
    call,
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


def marked(text: str, ttl: str | None = None) -> dict[str, Any]:
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return {"type": "text", "text": text, "cache_control": mark}


@pytest.mark.parametrize("stream", [True, False])
def test_words_and_parallel_calls_arrive_whole(stream: bool) -> None:
    step = several(as_call("look", lines=80), as_call("look", lines=81))
    with ModelServer([say_and_call(LONG, "look", lines=7), step]) as server:
        with anthropic_client(server) as client:
            if stream:
                first, second = ask_anthropic(server), ask_anthropic(server)
            else:
                first, second = [client.messages.create(**anthropic_request()) for _ in range(2)]
    assert [block.type for block in first.content] == ["text", "tool_use"]
    assert first.content[0].text == LONG
    assert first.content[1].input == {"lines": 7}
    assert first.stop_reason == second.stop_reason == "tool_use"
    assert [block.input for block in second.content] == [{"lines": 80}, {"lines": 81}]
    assert len({block.id for block in [*first.content[1:], *second.content]}) == 3


def test_a_stream_has_the_events_of_the_real_one_in_their_order() -> None:
    with ModelServer([say_and_call("Hm.", "look", lines=7)]) as server, anthropic_client(server) as client:
        told = [event.type for event in client.messages.create(**anthropic_request(), stream=True)]
    text = ["content_block_start", "content_block_delta", "content_block_stop"]
    tool = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    assert told == ["message_start", *text, *tool, "message_delta", "message_stop"]  # the SDK drops pings


@pytest.mark.parametrize(
    ("step", "reason", "content"),
    [
        (say("Done."), "end_turn", "Done."),
        (truncate("I was about"), "max_tokens", "I was about"),
        (refuse(), "refusal", ""),
    ],
)
def test_why_it_stopped(step: Step, reason: str, content: str) -> None:
    with ModelServer([step]) as server:
        message = ask_anthropic(server)
    assert message.stop_reason == reason
    assert "".join(block.text for block in message.content) == content


@pytest.mark.parametrize("written", ['{"lines": eighty}', '{"lines": 8', ""])
def test_arguments_stream_as_they_were_written(written: str) -> None:
    with ModelServer([raw_call("look", written), truncate_call("look", written)]) as server:
        with anthropic_client(server) as client:
            for reason in ("tool_use", "max_tokens"):
                events = list(client.messages.create(**anthropic_request(), stream=True))
                deltas = [event.delta for event in events if event.type == "content_block_delta"]
                assert "".join(delta.partial_json for delta in deltas) == written
                assert [event.delta.stop_reason for event in events if event.type == "message_delta"] == [
                    reason
                ]


FAILURES: list[tuple[Step, type[anthropic.APIError], str]] = [
    (status(429, retry_after=7), anthropic.RateLimitError, "rate_limit_error"),
    (overloaded(), anthropic.APIStatusError, "overloaded_error"),
    (server_error(), anthropic.InternalServerError, "api_error"),
    (unauthorized(), anthropic.AuthenticationError, "authentication_error"),
    (status(404), anthropic.NotFoundError, "not_found_error"),
    (context_overflow(), anthropic.BadRequestError, "prompt is too long: 200001 tokens > 200000 maximum"),
    (quota_exceeded(), anthropic.BadRequestError, "credit balance is too low"),
    (filtered(), anthropic.BadRequestError, "content filtering policy"),
    (error_in_stream("overloaded_error"), anthropic.APIStatusError, "overloaded_error"),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("step", "kind", "words"), FAILURES)
def test_failures_reach_the_client_as_its_own_errors(
    step: Step, kind: type[anthropic.APIError], words: str, stream: bool
) -> None:
    with ModelServer([step]) as server, anthropic_client(server) as client:
        with pytest.raises(kind, match=words) as caught:
            ask_anthropic(server) if stream else client.messages.create(**anthropic_request())
        if isinstance(caught.value, anthropic.RateLimitError):
            assert caught.value.response.headers["retry-after"] == "7"
        charged = server.log[0].prompt is not None
    assert charged == (stream and step == error_in_stream("overloaded_error"))


@pytest.mark.parametrize("events", [0, 1, 4])
def test_a_connection_that_breaks_is_a_broken_connection(events: int) -> None:
    with ModelServer([cut_off(after_events=events)]) as server:
        with pytest.raises(
            Exception, match=r"incomplete chunked read|Connection error|disconnected|peer closed"
        ):
            ask_anthropic(server)
        assert server.log[0].prompt is not None


@pytest.mark.parametrize("step", [hang(30), hang(30, say(LONG), after_events=3)])
def test_it_hangs_until_it_is_released(step: Step) -> None:
    with ModelServer([step]) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(ask_anthropic, server)
        server.wait_for_request(1)
        assert not asked.done()
        server.release()
        assert "onnection" in str(asked.exception())


def test_a_prompt_longer_than_the_window_is_refused() -> None:
    with ModelServer([say("never")], context_window=1000) as server:
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 1000 maximum"):
            ask_anthropic(server, system="x" * 4000)
        assert server.log[0].step is None


def test_a_script_sees_the_request_in_no_protocols_words() -> None:
    with ModelServer(lambda seen: say(f"{seen.system}/{seen.turns[2].results[0].text}")) as server:
        message = ask_anthropic(server, messages=anthropic_history())
        seen = server.log[0].seen
    assert message.content[0].text == "You watch a training./loss is 3"
    assert seen is not None
    assert seen.tools["look"].schema == SCHEMA
    assert [turn.role for turn in seen.turns] == ["user", "assistant", "user"]
    assert seen.calls[0].name == "look"
    assert seen.texts == ["You watch a training.", "What now?", "loss is 3"]


def test_usage_tells_what_the_cache_did() -> None:
    clock = [0.0]
    request = {
        "tools": None,
        "system": [marked("s" * 8000, "1h")],
        "messages": [{"role": "user", "content": [marked("m" * 4000)]}],
    }
    message_bytes = len("\n\nuser: ") + 4000
    with ModelServer([say("Yes.")] * 3, now=lambda: clock[0]) as server:
        cold = ask_anthropic(server, **request).usage
        clock[0] = 299
        warm = ask_anthropic(server, **request).usage
        clock[0] = 299 + 300
        cooled = ask_anthropic(server, **request).usage
    written = -(-(8000 + message_bytes) // 4) - 2000
    assert cold.cache_creation is not None
    assert cold.cache_creation.ephemeral_1h_input_tokens == 2000
    assert cold.cache_creation.ephemeral_5m_input_tokens == written
    assert (cold.cache_creation_input_tokens, cold.cache_read_input_tokens) == (2000 + written, 0)
    assert (warm.cache_creation_input_tokens, warm.cache_read_input_tokens) == (0, 2000 + written)
    assert (cooled.cache_creation_input_tokens, cooled.cache_read_input_tokens) == (written, 2000)
    assert cold.input_tokens == warm.input_tokens == cooled.input_tokens == 0
    assert cold.output_tokens == 1


TWO_USERS = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
PREFILLED = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "fine"}
WORDS = {"type": "text", "text": "And?"}


def tool(**changes: Any) -> list[dict[str, Any]]:
    return [{**ANTHROPIC_TOOL, **changes}]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"messages": TWO_USERS}, "roles must alternate"),
        ({"messages": PREFILLED}, "must end with a user message"),
        ({"messages": PREFILLED[1:]}, "first message must use"),
        ({"messages": [{"role": "system", "content": "a"}]}, "Input should be 'user' or 'assistant'"),
        (
            {"messages": anthropic_history(result=[WORDS])},
            "without `tool_result` blocks immediately after: toolu_1",
        ),
        ({"messages": anthropic_history(result=[WORDS, RESULT])}, "without `tool_result` blocks immediately"),
        ({"messages": anthropic_history(result=[RESULT, RESULT])}, "must have a single result"),
        (
            {"messages": anthropic_history(result=[RESULT, {**RESULT, "tool_use_id": "toolu_2"}])},
            "unexpected `tool_use_id` found in `tool_result` blocks: toolu_2",
        ),
        ({"messages": [{"role": "user", "content": [RESULT]}]}, "unexpected `tool_use_id`"),
        (
            {"messages": anthropic_history(result=[{**RESULT, "content": "", "is_error": True}])},
            "cannot be empty",
        ),
        ({"messages": anthropic_history(), "tools": None}, "must define tools"),
        ({"messages": [{"role": "user", "content": ""}]}, "must have non-empty content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "must be non-empty"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "must contain non-whitespace text"),
        ({"system": [{"type": "text", "text": ""}]}, "system: text content blocks must be non-empty"),
        ({"tools": tool(name="look at it")}, "String should match pattern"),
        ({"tools": tool(name="x" * 65)}, "String should match pattern"),
        ({"tools": [*tool(), *tool()]}, "Tool names must be unique"),
        ({"tools": tool(input_schema={"type": "array"})}, "must be a JSON Schema of"),
        ({"tools": tool(input_schema={**SCHEMA, "required": "lines"})}, "draft 2020-12"),
        ({"tools": tool(input_schema={**SCHEMA, "anyOf": [SCHEMA]})}, "at the top level"),
        ({"tools": tool(strict=True, input_schema={"type": "object"})}, "additionalProperties"),
        ({"tool_choice": {"type": "tool", "name": "leap"}}, "Tool 'leap' not found"),
        ({"tools": None, "tool_choice": {"type": "auto"}}, "only be specified while providing tools"),
        ({"system": [marked(text) for text in "abcde"]}, "A maximum of 4 blocks with cache_control"),
        ({"system": [marked("a", "5m"), marked("b", "1h")]}, "must not come after a ttl='5m'"),
        ({"system": [marked("a", "2h")]}, "Input should be '5m' or '1h'"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"frequency_penalty": 1}}, "Extra inputs are not permitted"),
    ],
)
def test_what_the_real_one_refuses_is_refused_and_remembered(changes: dict[str, Any], complaint: str) -> None:
    with ModelServer([]) as server, anthropic_client(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(**anthropic_request(**changes))
        taken = server.take_violations()
    assert complaint in caught.value.message
    assert complaint in taken[0]


def test_a_request_without_a_key_is_unauthorized() -> None:
    with ModelServer([]) as server:
        request = Request(f"{server.anthropic_url}/v1/messages", json.dumps(anthropic_request()).encode())
        with pytest.raises(HTTPError) as answer:
            urlopen(request, timeout=10)
        assert server.take_violations()
    assert answer.value.code == 401
    assert json.loads(answer.value.read())["error"]["type"] == "authentication_error"


def test_a_full_conversation_with_marks_is_taken() -> None:
    system = [marked("a", "1h")]
    results: list[dict[str, Any]] = [
        {**RESULT, "is_error": True, "cache_control": {"type": "ephemeral"}},
        WORDS,
    ]
    with ModelServer([say("Good.")]) as server:
        ask_anthropic(server, system=system, messages=anthropic_history(result=results))
        assert [exchange.status for exchange in server.log] == [200]


def test_violations_fail_the_test_that_caused_them() -> None:
    server = ModelServer([])
    with (
        pytest.raises(AssertionError, match="roles must alternate"),
        server,
        anthropic_client(server) as client,
    ):
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(**anthropic_request(messages=TWO_USERS))


def test_a_script_that_runs_out_or_fails_says_so() -> None:
    def stumbles(seen: object) -> Step:
        raise KeyError("no such plan")

    for script, complaint in (([], "has only 0 steps"), (stumbles, "no such plan")):
        with ModelServer(script) as server, anthropic_client(server) as client:
            with pytest.raises(anthropic.InternalServerError, match=complaint):
                client.messages.create(**anthropic_request())
            assert complaint in server.take_violations()[0]


def test_it_lists_models_and_knows_no_other_place() -> None:
    with ModelServer([call("look")]) as server, anthropic_client(server) as client:
        assert "claude-scripted" in [model.id for model in client.models.list()]
        with pytest.raises(anthropic.NotFoundError):
            client.post("/v1/complete", cast_to=object)
        assert "POST /v1/complete" in server.take_violations()[0]
