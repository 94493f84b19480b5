"""The SDKs people have, unchanged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from tests.trainer_core.gateway.conftest import an_episode
from tests.trainer_core.gateway.fake import FakeEngine, says
from trainer_core.gateway import Gateway, OpenEpisode

Serve = Callable[..., Gateway]
CALL = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": [2]}}</tool_call>'
THOUGHT = "<think>one and one</think>two"
FUNCTION = {"name": "add", "description": "adds", "parameters": {"type": "object"}}
HI = [{"role": "user", "content": "hi"}]


def of_openai(gateway: Gateway, episode: OpenEpisode, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=episode.key(), max_retries=0, **settings)


def of_anthropic(gateway: Gateway, episode: OpenEpisode) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=gateway.base_url, api_key=episode.key(), max_retries=0)


def test_chat(serve: Serve, tokenizer: Any) -> None:
    engine = FakeEngine(says(tokenizer, "hello"))
    gateway = serve(engine)
    episode = an_episode(gateway)
    answer = of_openai(gateway, episode).chat.completions.create(
        model="tiny", messages=HI, n=2, logprobs=True, extra_body={"return_token_ids": True}
    )
    assert [choice.message.content for choice in answer.choices] == ["hello", "hello"]
    whole, first = answer.model_dump(), answer.choices[0].model_dump()
    assert whole["prompt_token_ids"] == list(engine.requests[0].prompt_ids)
    assert first["token_ids"] == list(engine.generations[0].ids) == first["message"]["generation_token_ids"]
    assert first["message"]["generation_log_probs"] == list(engine.generations[0].logprobs)
    assert [each["token"] for each in first["logprobs"]["content"]] == [*"hello", "<|end|>"]
    assert answer.usage and answer.usage.completion_tokens == 12
    calls = episode.close().calls
    assert [call.completion_ids for call in calls] == [each.ids for each in engine.generations]


def test_chat_with_a_tool_and_a_thought(serve: Serve, tokenizer: Any) -> None:
    gateway = serve(FakeEngine(says(tokenizer, CALL, THOUGHT)))
    client = of_openai(gateway, an_episode(gateway))
    tools: Any = [{"type": "function", "function": FUNCTION}]
    choice = client.chat.completions.create(model="tiny", messages=HI, tools=tools).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert choice.message.tool_calls and choice.message.tool_calls[0].type == "function"
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"a": 1, "b": [2]}
    said = client.chat.completions.create(model="tiny", messages=HI).choices[0].message
    assert (said.content, said.model_dump()["reasoning_content"]) == ("two", "one and one")


@pytest.mark.parametrize(
    "text", ["hello, wörld ☃", CALL, THOUGHT, "<think>only</think>", "1 < 2 and 3 > 2", ""]
)
def test_streams_say_what_whole_answers_say(serve: Serve, tokenizer: Any, text: str) -> None:
    gateway = serve(FakeEngine(says(tokenizer, text)))
    episode = an_episode(gateway)
    client, claude = of_openai(gateway, episode), of_anthropic(gateway, episode)
    tools: Any = [{"type": "function", "function": FUNCTION}]

    whole = client.chat.completions.create(model="tiny", messages=HI, tools=tools).choices[0]
    with client.chat.completions.stream(model="tiny", messages=HI, tools=tools) as chat:
        streamed = chat.get_final_completion().choices[0]
    assert (streamed.message.content or "") == (whole.message.content or "")
    assert streamed.finish_reason == whole.finish_reason
    calls, streamed_calls = whole.message.tool_calls or [], streamed.message.tool_calls or []
    assert [each.function.arguments for each in streamed_calls] == [each.function.arguments for each in calls]

    schema = {"name": "add", "description": "adds", "input_schema": {"type": "object"}}
    asked: Any = {"model": "tiny", "max_tokens": 200, "messages": HI, "tools": [schema]}
    message = claude.messages.create(**asked)
    with claude.messages.stream(**asked) as events:
        final = events.get_final_message()
    dumped, again = message.model_dump(), final.model_dump()
    assert [_essence(block) for block in again["content"]] == [_essence(block) for block in dumped["content"]]
    assert (
        final.stop_reason == message.stop_reason and final.usage.output_tokens == message.usage.output_tokens
    )

    flat: Any = [{"type": "function", **FUNCTION}]
    response = client.responses.create(model="tiny", input="hi", tools=flat)
    with client.responses.stream(model="tiny", input="hi", tools=flat) as parts:
        end = parts.get_final_response()
    assert end.output_text == response.output_text
    assert [item.type for item in end.output] == [item.type for item in response.output]


def _essence(block: dict[str, Any]) -> dict[str, Any]:
    return {name: block.get(name) for name in ("type", "text", "thinking", "name", "input")}


def test_completions_of_text_and_of_ids(serve: Serve, tokenizer: Any) -> None:
    engine = FakeEngine(says(tokenizer, "xy"))
    gateway = serve(engine)
    client = of_openai(gateway, an_episode(gateway))
    answer = client.completions.create(model="tiny", prompt=["ab", "c"], logprobs=1)
    assert [choice.text for choice in answer.choices] == ["xy", "xy"]
    assert [list(request.prompt_ids) for request in engine.requests] == [
        tokenizer.encode("ab"),
        tokenizer.encode("c"),
    ]
    client.completions.create(model="tiny", prompt=[7, 8, 9])
    assert list(engine.requests[-1].prompt_ids) == [7, 8, 9]


def test_curl_as_an_agent(serve: Serve, tokenizer: Any) -> None:
    gateway = serve(FakeEngine(says(tokenizer, "hello")))
    episode = an_episode(gateway)
    body = json.dumps({"model": "tiny", "messages": HI})
    command = [
        "curl",
        "-sS",
        f"{gateway.base_url}/v1/chat/completions",
        "-H",
        "content-type: application/json",
    ]
    done = subprocess.run(
        [*command, "-H", f"Authorization: Bearer {episode.key()}", "-d", body],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "hello"


def test_tokens_in_and_out(serve: Serve, tokenizer: Any) -> None:
    import httpx

    engine = FakeEngine(says(tokenizer, "ab"))
    gateway = serve(engine)
    answer = httpx.post(
        f"{gateway.base_url}/inference/v1/generate",
        headers={"authorization": f"Bearer {an_episode(gateway).key()}"},
        json={"token_ids": [10, 11], "sampling_params": {"max_tokens": 5, "logprobs": 1}, "model": "tiny"},
    ).json()
    choice = answer["choices"][0]
    assert choice["token_ids"] == list(engine.generations[0].ids)
    assert [each["token"] for each in choice["logprobs"]["content"]] == [
        f"token_id:{number}" for number in engine.generations[0].ids
    ]
