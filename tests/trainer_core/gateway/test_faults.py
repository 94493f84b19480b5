"""What clients and engines do wrong: each has one typed outcome, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.trainer_core.gateway.conftest import an_episode
from tests.trainer_core.gateway.fake import FakeEngine, says
from tests.trainer_core.gateway.families import family
from tests.trainer_core.processes import eventually
from trainer_core.gateway import Gateway, OtherModel
from trainer_core.types import Sampling, StopReason, TrainingError

Serve = Callable[..., Gateway]
HI = [{"role": "user", "content": "hi"}]
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/inference/v1/generate"]


@pytest.fixture
def engine(tokenizer: Any) -> FakeEngine:
    return FakeEngine(says(tokenizer, "hello there"))


def ask(gateway: Gateway, key: str, body: Any = None, path: str = PATHS[0], **more: Any) -> httpx.Response:
    given = {"content": body} if isinstance(body, bytes) else {"json": body or {"messages": HI}}
    headers = {"authorization": f"Bearer {key}"} | more.pop("headers", {})
    return httpx.post(gateway.base_url + path, headers=headers, timeout=20, **given, **more)


def spoken(stream: str) -> str:
    """The text in a stream of chat, Messages or Responses."""
    found = ""
    for line in stream.splitlines():
        if line.startswith("data: {"):
            data = json.loads(line.removeprefix("data: "))
            delta = data["choices"][0]["delta"] if data.get("choices") else data.get("delta", {})
            found += delta if isinstance(delta, str) else delta.get("content") or delta.get("text") or ""
    return found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b'"x"', b"\xff", b"{}", b'{"messages": 3, "prompt": {}, "input": 1}']
)
def test_what_is_no_request(serve: Serve, engine: FakeEngine, path: str, body: bytes) -> None:
    gateway = serve(engine)
    episode = an_episode(gateway)
    answer = ask(gateway, episode.key(), body, path)
    assert answer.status_code == 400 and answer.json()["error"]["message"]
    assert not engine.requests and episode.in_flight == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", "hot"), ("temperature", -1), ("top_p", 2), ("n", 0), ("n", 10**6), ("n", True),
        ("max_tokens", 0), ("max_tokens", 1.5), ("stop", 3), ("stop", [""]), ("seed", "x"), ("tools", [{}]),
        ("tools", [{"type": "web_search"}]), ("tool_choice", "nobody"), ("stop_token_ids", ["x"]),
        ("stream_options", 3), ("response_format", "json"), ("tool_choice", {"function": 3}),
        ("messages", [{"role": "assistant", "tool_calls": [{"function": 3}]}]),
        ("messages", [{"role": "robot", "content": "x"}]), ("messages", [{"role": "user", "content": 3}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be(serve: Serve, engine: FakeEngine, key: str, value: Any) -> None:
    gateway = serve(engine)
    answer = ask(gateway, an_episode(gateway).key(), {"messages": HI, "stream": True, key: value})
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_request"
    assert not engine.requests


def test_what_is_nested_too_deeply(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine)
    nested = b'{"a":' * 800 + b"1" + b"}" * 800
    tools = b'[{"type": "function", "function": {"name": "f", "parameters": ' + nested + b"}}]"
    body = b'{"messages": [{"role": "user", "content": "x"}], "tools": ' + tools + b"}"
    answer = ask(gateway, an_episode(gateway).key(), body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools")


def test_a_tool_call_is_an_object(serve: Serve) -> None:
    tokenizer = family("qwen3")
    for arguments, kind in (
        ("[1]", "stop"),
        ('"x"', "stop"),
        ('{"a": "\\ud800"}', "stop"),
        ('{"a": 1}', "tool_calls"),
    ):
        call = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
        gateway = serve(FakeEngine(says(tokenizer, call)), tokenizer)
        choice = ask(gateway, an_episode(gateway).key()).json()["choices"][0]
        assert choice["finish_reason"] == kind


def test_keys(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine, key_lifetime_s=3600)
    episode, other = an_episode(gateway), an_episode(gateway)
    key = episode.key()
    forged = key[:-1] + ("0" if key[-1] != "0" else "1")
    codes = [ask(gateway, each).json()["error"]["code"] for each in ("sk-123", forged)]
    assert codes == ["invalid_api_key", "invalid_api_key"]
    unnamed = httpx.post(gateway.base_url + PATHS[0], json={"messages": HI})
    assert (unnamed.status_code, unnamed.json()["error"]["code"]) == (401, "missing_api_key")
    asked: Any = {"model": "tiny", "messages": HI}
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key="no").chat.completions.create(**asked)
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=gateway.base_url, api_key="no").messages.create(max_tokens=3, **asked)
    episode.close()
    assert ask(gateway, key).json()["error"]["code"] == "episode_ended"
    assert ask(gateway, other.key()).status_code == 200


def test_a_key_that_has_expired(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine, key_lifetime_s=-1)
    answer = ask(gateway, an_episode(gateway).key())
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "expired_api_key")


def test_paths_and_models(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine)
    key = an_episode(gateway).key()
    assert ask(gateway, key, {"messages": HI, "model": "gpt-9"}).json()["error"]["code"] == "model_not_found"
    gateway.takes_any_name = True
    assert ask(gateway, key, {"messages": HI, "model": "gpt-9"}).status_code == 200
    assert ask(gateway, key, path="/v1/embeddings").status_code == 404
    assert httpx.put(f"{gateway.base_url}/v1/models").status_code == 405
    models = httpx.get(f"{gateway.base_url}/v1/models").json()["data"]
    assert [(model["id"], model["max_model_len"]) for model in models] == [("tiny", 4000)]
    assert httpx.get(f"{gateway.base_url}/health").json() == {"status": "ok"}


@pytest.mark.parametrize("path", PATHS[:4])
def test_a_prompt_that_does_not_fit(serve: Serve, engine: FakeEngine, path: str) -> None:
    gateway = serve(engine, max_model_len=100)
    episode = an_episode(gateway)
    long = "x" * 10_000_000
    asked = [{"role": "user", "content": long}]
    body = {"messages": asked, "prompt": long, "input": long, "max_tokens": 5}
    began = time.monotonic()
    answer = ask(gateway, episode.key(), body, path)
    assert answer.status_code == 400 and "maximum context length" in answer.json()["error"]["message"]
    assert time.monotonic() - began < 5 and not engine.requests
    assert (
        ask(gateway, episode.key(), {"messages": [{"role": "user", "content": "y" * 101}]}).status_code == 400
    )
    recorded = episode.close()
    assert recorded.stop_reason is StopReason.CONTEXT and recorded.calls == ()


def test_a_long_message_in_a_conversation_does_not_fit_either(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine)
    episode = an_episode(gateway)
    said = ask(gateway, episode.key()).json()["choices"][0]["message"]
    began = time.monotonic()
    answer = ask(
        gateway, episode.key(), {"messages": [*HI, said, {"role": "user", "content": "x" * 10_000_000}]}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert time.monotonic() - began < 5 and len(engine.requests) == 1


def test_limits_of_an_episode(serve: Serve, tokenizer: Any) -> None:
    gateway = serve(FakeEngine(lambda request, index: [10] * 500))
    episode = an_episode(gateway, max_calls=1, max_tokens=7)
    answer = ask(gateway, episode.key(), {"messages": HI, "max_tokens": 50}).json()["choices"][0]
    assert answer["finish_reason"] == "length"
    retry = {"messages": HI, "max_tokens": 50}
    again = ask(gateway, episode.key(), retry, headers={"x-stainless-retry-count": "1"})
    assert again.status_code == 200, "a repeated request is no further call"
    refused = ask(gateway, episode.key())
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "max_calls_reached")
    assert episode.close().stop_reason is StopReason.TURNS


def test_a_client_that_hangs_up_cancels_its_generation(serve: Serve, engine: FakeEngine) -> None:
    engine.delay_s = 60
    gateway = serve(engine)
    episode = an_episode(gateway)
    for stream in (False, True):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                gateway.base_url + PATHS[0],
                headers={"authorization": f"Bearer {episode.key()}"},
                json={"messages": HI, "stream": stream},
                timeout=0.3,
            )
        eventually(lambda: engine.running == 0 and episode.in_flight == 0)
    assert engine.cancelled == 2 and episode.close().calls == ()


def test_the_end_of_an_episode_cancels_what_it_asks(serve: Serve, engine: FakeEngine) -> None:
    engine.delay_s = 60
    gateway = serve(engine)
    episode = an_episode(gateway)
    threading.Timer(0.3, episode.close).start()
    answer = ask(gateway, episode.key())
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "episode_ended")
    eventually(lambda: engine.running == 0)


def test_a_retry_is_not_a_second_call(serve: Serve, engine: FakeEngine, tokenizer: Any) -> None:
    engine.say = says(tokenizer, "one", "two", "three")
    gateway = serve(engine)
    episode = an_episode(gateway)
    retry = {"x-stainless-retry-count": "1"}
    texts = [
        ask(gateway, episode.key(), headers=headers).json()["choices"][0]["message"]["content"]
        for headers in ({}, retry, retry, {})
    ]
    assert texts == ["one", "one", "one", "two"]
    assert len(episode.close().calls) == 2


def test_a_dead_engine(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine)
    episode = an_episode(gateway)
    engine.error = TrainingError("out of memory")
    answer = ask(gateway, episode.key())
    assert answer.status_code == 503 and "out of memory" in answer.json()["error"]["message"]
    client = openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=episode.key(), max_retries=1)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="tiny", messages=HI)  # type: ignore[arg-type]
    assert len(engine.requests) == 3, "the SDK tried again"
    recorded = episode.close()
    assert recorded.stop_reason is StopReason.FAILED and recorded.error and "out of memory" in recorded.error


@pytest.mark.parametrize("path", [PATHS[0], PATHS[2], PATHS[3]])
def test_an_engine_that_dies_in_a_stream(serve: Serve, engine: FakeEngine, path: str) -> None:
    async def dies(request: Any, index: int) -> Any:
        for number in engine.say(request, index)[:5]:
            request.on_token(index, number)
            await asyncio.sleep(0.01)
        raise TrainingError("the GPU is gone")

    engine._answer = dies  # type: ignore[method-assign]
    gateway = serve(engine)
    episode = an_episode(gateway)
    answer = ask(
        gateway, episode.key(), {"messages": HI, "input": "hi", "max_tokens": 9, "stream": True}, path
    )
    assert answer.status_code == 200 and spoken(answer.text) == "hello"
    last = json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))
    assert "the GPU is gone" in last["error"]["message"]
    assert episode.close().stop_reason is StopReason.FAILED


def test_whose_sampling_is_used(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine)
    body = {"messages": HI, "temperature": 0, "top_p": 0.5, "top_k": 3, "seed": 5}
    answer = ask(gateway, an_episode(gateway).key(), body)
    assert answer.headers["x-ajet-sampling"] == "training; temperature=0.9 top_p=1 top_k=-1"
    ask(gateway, an_episode(gateway, client_sampling=True).key(), body)
    first, second = engine.requests
    assert first.sampling == Sampling(0.9) and second.sampling == Sampling(0.0, 0.5, 3)
    assert first.seed != 5 and second.seed == 5


def test_stop_texts(serve: Serve, engine: FakeEngine) -> None:
    gateway = serve(engine)
    body = {"messages": HI, "stop": ["the", "zzz"]}
    answer = ask(gateway, an_episode(gateway).key(), body)
    assert answer.json()["choices"][0]["message"]["content"] == "hello "
    assert engine.requests[-1].stop_texts == ("the", "zzz")
    message = {"max_tokens": 99, "messages": HI, "stop_sequences": ["zzz", "the"]}
    answer = ask(gateway, an_episode(gateway).key(), message, "/v1/messages")
    assert answer.json()["stop_reason"] == "stop_sequence" and answer.json()["stop_sequence"] == "the"
    assert spoken(ask(gateway, an_episode(gateway).key(), body | {"stream": True}).text) == "hello "


def test_a_slow_body_and_a_slow_reader(
    serve: Serve, engine: FakeEngine, tokenizer: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("trainer_core.gateway.exchange._BODY_S", 0.3)
    engine.say = says(tokenizer, "x" * 3000)
    gateway = serve(engine)
    episode = an_episode(gateway, max_tokens=3500)
    host, port = gateway.base_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {episode.key()}\r\n"
        slow.sendall(f"{head}content-length: 1000\r\n\r\n{{".encode())
        assert b" 408 " in slow.recv(4096)
    reader = socket.create_connection((host, int(port)))
    body = json.dumps({"messages": HI, "stream": True, "logprobs": True}).encode()
    reader.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    for _ in range(5):  # the others are served meanwhile
        assert ask(gateway, an_episode(gateway).key()).status_code == 200
    reader.close()
    eventually(lambda: episode.in_flight == 0)


def test_another_model_answers_for_an_agent(serve: Serve, engine: FakeEngine, tokenizer: Any) -> None:
    judge = serve(FakeEngine(says(tokenizer, "I judge")), model="judge")
    other = OtherModel(f"{judge.base_url}/v1", an_episode(judge).key(), "judge")
    gateway = serve(engine)
    episode = an_episode(
        gateway, others={"critic": other, "nobody": OtherModel("http://127.0.0.1:9", "", "m")}
    )
    for stream in (False, True):
        assert "judge" in ask(gateway, episode.key("critic"), {"messages": HI, "stream": stream}).text
    assert ask(gateway, episode.key("nobody")).status_code == 502
    ask(gateway, episode.key())
    assert len(episode.close().calls) == 1


@pytest.mark.parametrize("count", [200, pytest.param(500, marks=pytest.mark.soak)])
async def test_hundreds_at_once_leave_nothing_behind(serve: Serve, engine: FakeEngine, count: int) -> None:
    engine.delay_s = 0.2
    gateway = serve(engine)
    episodes = [an_episode(gateway) for _ in range(count)]
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(base_url=gateway.base_url, limits=limits, timeout=60) as client:

        async def one(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await client.post(PATHS[0], json={"messages": HI}, headers=headers)).status_code

        assert set(await asyncio.gather(*(one(episode.key()) for episode in episodes))) == {200}
    recorded = [episode.close() for episode in episodes]
    assert all(len(each.calls) == 1 for each in recorded)
    assert engine.running == 0 and not gateway._keys._owners
