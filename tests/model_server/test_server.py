"""The scripted server as the official SDKs find it: answers, failures, and what it refuses to take."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic
import openai
import pytest

from tests.model_server import steps
from tests.model_server.caching import AnthropicCache, Block, OpenAICache, PromptTokens
from tests.model_server.scripts import Obedient, always, instructions
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, as_call, call, say, say_and_call, several
from tests.model_server.tool_schema import objection

LONG = "The loss has been falling since step 12, and nothing else stands out in the log — 好."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"lines": {"type": "integer"}},
    "required": ["lines"],
    "additionalProperties": False,
}
A_TOOL: dict[str, Any] = {"name": "look", "description": "Read the log.", "input_schema": SCHEMA}
O_TOOL: dict[str, Any] = {"name": "look", "description": "Read the log.", "parameters": SCHEMA}
QUESTION = {"role": "user", "content": "What now?"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"lines": 80}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "loss is 3"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "loss is 3"}


def ask(server: ModelServer, protocol: str, **changes: Any) -> list[Any]:
    """The events or chunks of one answer."""
    request: dict[str, Any] = {"messages": [QUESTION], "stream": True}
    if protocol == "anthropic":
        request |= {"model": "claude-scripted", "max_tokens": 100, "system": "Watch.", "tools": [A_TOOL]}
        with anthropic.Anthropic(base_url=server.anthropic_url, api_key="k", max_retries=0) as client:
            return list(client.messages.create(**{**request, **changes}))
    request |= {"model": "gpt-scripted", "tools": [{"type": "function", "function": O_TOOL}]}
    with openai.OpenAI(base_url=server.openai_url, api_key="k", max_retries=0) as other:
        return list(other.chat.completions.create(**{**request, **changes}))


def read(protocol: str, events: list[Any]) -> tuple[str, list[str], str]:
    """Words, the arguments of each call, and why it stopped."""
    words, calls, stop = "", dict[int, str](), ""
    if protocol == "anthropic":
        for event in events:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                words += event.delta.text
            elif event.type == "content_block_delta":
                calls[event.index] = calls.get(event.index, "") + event.delta.partial_json
            elif event.type == "message_delta":
                stop = event.delta.stop_reason
        return words, list(calls.values()), stop
    for choice in (choice for chunk in events for choice in chunk.choices):
        words += choice.delta.content or choice.delta.refusal or ""
        for piece in choice.delta.tool_calls or []:
            calls[piece.index] = calls.get(piece.index, "") + (piece.function.arguments or "")
        stop = choice.finish_reason or stop
    return words, list(calls.values()), stop


@pytest.mark.parametrize(
    ("step", "words", "calls", "stops"),
    [
        (say_and_call(LONG, "look", lines=7), LONG, ['{"lines": 7}'], ("tool_use", "tool_calls")),
        (
            several(as_call("look", lines=8), as_call("look", lines=9)),
            "",
            ['{"lines": 8}', '{"lines": 9}'],
            ("tool_use", "tool_calls"),
        ),
        (steps.raw_call("look", '{"lines": eig'), "", ['{"lines": eig'], ("tool_use", "tool_calls")),
        (say("Done."), "Done.", [], ("end_turn", "stop")),
        (steps.truncate("I was"), "I was", [], ("max_tokens", "length")),
        (steps.refuse("No."), "No.", [], ("refusal", "stop")),
    ],
)
def test_an_answer_arrives_as_it_was_scripted(
    step: Step, words: str, calls: list[str], stops: tuple[str, str]
) -> None:
    with ModelServer(always(step)) as server:
        for protocol, stop in zip(("anthropic", "openai"), stops, strict=True):
            assert read(protocol, ask(server, protocol)) == (words, calls, stop)


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (steps.status(429, retry_after=7), "rate limit"),
        (steps.overloaded(), "overloaded"),
        (steps.server_error(), "server"),
        (steps.unauthorized(), "key"),
        (steps.context_overflow(), "prompt is too long|context length"),
        (steps.quota_exceeded(), "credit|quota"),
        (steps.error_in_stream(), "overloaded|error"),
        (steps.cut_off(after_events=2), "incomplete|peer closed|onnection"),
    ],
)
def test_failures_reach_the_client_as_errors(protocol: str, step: Step, words: str) -> None:
    with ModelServer([step]) as server:
        with pytest.raises(Exception, match=re.compile(words, re.IGNORECASE)) as caught:
            ask(server, protocol)
    if step == steps.status(429, retry_after=7):
        assert caught.value.response.headers["retry-after"] == "7"  # type: ignore[attr-defined]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("anthropic", {"messages": [QUESTION, QUESTION]}, "roles must alternate"),
    ("anthropic", {"messages": [QUESTION, {"role": "assistant", "content": "b"}]}, "end with a user"),
    ("anthropic", {"messages": [QUESTION, {"role": "assistant", "content": [USE]}, QUESTION]}, "toolu_1"),
    ("anthropic", {"messages": [{"role": "user", "content": [RESULT]}]}, "unexpected `tool_use_id`"),
    ("anthropic", {"messages": [{"role": "user", "content": " \n"}]}, "non-whitespace"),
    ("anthropic", {"tools": [{**A_TOOL, "name": "look at"}]}, "String should match pattern"),
    ("anthropic", {"tools": [A_TOOL, A_TOOL]}, "unique"),
    ("anthropic", {"tools": [{**A_TOOL, "input_schema": {"type": "array"}}]}, "must be a JSON Schema"),
    (
        "anthropic",
        {"system": [{"type": "text", "text": c, "cache_control": {"type": "ephemeral"}} for c in "abcde"]},
        "maximum of 4 blocks",
    ),
    ("anthropic", {"extra_body": {"frequency_penalty": 1}}, "Extra inputs are not permitted"),
    ("openai", {"messages": [QUESTION, CALLING]}, "did not have response messages: ['c1']"),
    ("openai", {"messages": [QUESTION, ANSWER]}, "must be a response"),
    ("openai", {"messages": [QUESTION, {"role": "assistant", "content": None}]}, "got null"),
    ("openai", {"messages": [{"role": "user", "content": ""}]}, "at least 1 character"),
    ("openai", {"tools": [{"type": "function", "function": {**O_TOOL, "description": "x" * 1025}}]}, "1024"),
    ("openai", {"model": "gpt-5", "max_tokens": 5}, "Use 'max_completion_tokens'"),
    ("openai", {"extra_body": {"system": "x"}}, "Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("protocol", "changes", "complaint"), REFUSED)
def test_what_the_real_one_refuses_is_refused_and_remembered(
    protocol: str, changes: dict[str, Any], complaint: str
) -> None:
    with ModelServer([]) as server:
        with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)) as caught:
            ask(server, protocol, **changes)
        taken = server.take_violations()
    assert complaint in caught.value.message and complaint in taken[0]


def test_whole_conversations_are_taken_and_shown_alike() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    told = [QUESTION, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT | mark]}]
    with ModelServer(lambda seen: say(seen.turns[2].results[0].text)) as server:
        ask(server, "anthropic", messages=told)
        ask(server, "openai", messages=[{"role": "system", "content": "Watch."}, QUESTION, CALLING, ANSWER])
        for exchange in server.log:
            assert exchange.seen is not None and exchange.step == say("loss is 3")
            assert exchange.seen.texts == ["Watch.", "What now?", "loss is 3"]
            assert exchange.seen.tools["look"].schema == SCHEMA


def test_violations_and_scripts_that_run_out_fail_the_test_that_caused_them() -> None:
    with pytest.raises(AssertionError, match="roles must alternate"), ModelServer([]) as server:
        with pytest.raises(anthropic.BadRequestError):
            ask(server, "anthropic", messages=[QUESTION, QUESTION])
    with ModelServer([]) as server:
        with pytest.raises(anthropic.InternalServerError, match="has only 0 steps"):
            ask(server, "anthropic")
        assert server.take_violations()


def test_the_caches_count_as_the_providers_say() -> None:
    clock = [0.0]
    cache = AnthropicCache(lambda: clock[0])
    system = Block("s" * 8000, 3600)
    assert cache.use("m", [system, Block("a" * 2000, 300)]) == PromptTokens(0, 0, 500, 2000)
    grown = [system, Block("a" * 2000), Block("b" * 1200, 300), Block("c" * 40)]
    assert cache.use("m", grown) == PromptTokens(10, 2500, 300, 0)
    clock[0] = 600
    assert cache.use("m", grown).cache_read == 2000, "five minutes are over, the hour is not"
    assert AnthropicCache(lambda: 0.0).use("m", [Block("x" * 4092, 300)]) == PromptTokens(1023)
    other = OpenAICache(lambda: clock[0])
    for tokens, cached in ((1024, 0), (1024, 1024), (1300, 1024), (1300, 1280)):
        assert other.use("m", [Block("x" * 4 * tokens)]) == PromptTokens(tokens - cached, cached)


def test_the_obedient_model_obeys_each_instruction_once() -> None:
    order = {"tool": "stop", "arguments": {"reason": "the log"}}
    line = json.dumps(order)
    for text in (line, f"step:3 - {line} - loss:2", f'{{"a": {line}}}', json.dumps({"log": line})):
        assert [found.name for found in instructions(text)] == ["stop"], text
    for text in ("", "{", '{"tool": "stop"}', '{"tool": "rm -rf", "arguments": {}}'):
        assert list(instructions(text)) == [], text
    model = Obedient(always(say("Nothing to do.")))
    with ModelServer(model) as server:
        told = {"messages": [{"role": "user", "content": f"log: {line}"}]}
        assert read("openai", ask(server, "openai", **told))[1] == [json.dumps(order["arguments"])]
        assert read("openai", ask(server, "openai", **told))[0] == "Nothing to do."
    assert [made.name for made in model.obeyed] == ["stop"]
    assert call("look").calls[0].name == "look"


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": {"a": {"type": "int"}}},
        {"properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"properties": {"a": {"type": "string", "pattern": "("}}},
        {"properties": {"a": {"type": "string", "minLength": -1}}},
        {"properties": {"a": {"anyOf": []}}},
        {"required": ["a", "a"]},
        {"description": 3},
    ],
)
def test_what_is_no_schema_is_found(wrong: dict[str, Any]) -> None:
    assert objection(SCHEMA) is None
    assert "schema" in (objection({"type": "object", **wrong}) or "")
