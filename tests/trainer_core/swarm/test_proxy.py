"""The proxy between an application, with the SDKs people have, and a swarm server."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import uvicorn
from typer.testing import CliRunner

from trainer_core.engine.protocols import Generation
from trainer_core.gateway.ask import Answer, Choice, Said, ToolCall
from trainer_core.gateway.dialects import DIALECTS
from trainer_core.gateway.recording import OtherModel
from trainer_core.swarm import connection
from trainer_core.swarm.cli import app
from trainer_core.swarm.proxy import Proxy
from trainer_core.swarm.proxy_group import ProxySettings
from trainer_core.swarm.proxy_reward import ProxyAnswer, function_reward, judge_reward
from trainer_core.swarm.proxy_stream import text_of
from trainer_core.types import FinishReason

Body = Mapping[str, Any]
HI: Any = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"
CALL = ToolCall("call_1", "add", '{"a":1,"b":[2]}')
EVERYTHING = Said("two", "one and one", (CALL,))
TOOL = {"name": "add", "description": "adds", "parameters": {"type": "object"}}


def reply(path: str, body: Body, said: Said) -> dict[str, Any]:
    """What the gateway writes."""
    drawn = Generation((1, 2, 3), (-0.1, -0.2, -0.3), FinishReason.STOP, 0)
    answer = Answer([[7, 8]], [Choice(drawn, said)], lambda number: (str(number), ()))
    return DIALECTS[path]({**body, "model": "tiny"}, "tiny").write(answer)


class FakeSwarm:
    """A swarm server whose model says what it is told to, by the number of the episode."""

    def __init__(self, say: Callable[[int], Said | int | Awaitable[Any]]) -> None:
        """`say`: a status is an error, what can be awaited never answers."""
        self.say = say
        self.state = "ENGINE.ROLLING"
        self.places = 1_000
        self.claims: list[dict[str, Any]] = []
        self.asked: list[tuple[int, dict[str, Any]]] = []
        self.ended: dict[str, dict[str, Any]] = {}
        self.aborted: set[str] = set()
        self.headers: httpx.Headers = httpx.Headers()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content or b"{}")
        if path.startswith("/v1/"):
            return await self._call(path, request, body)
        self.headers = request.headers
        if path == "/get_engine_status":
            return httpx.Response(200, json={"engine_status": self.state})
        if path == "/claim_episode":
            return httpx.Response(200, json=self._claim(body))
        if path == "/end_episode":
            self.ended[body["episode_uuid"]] = body
        elif path == "/abort_episode":
            self.aborted.add(body["episode_uuid"])
        return httpx.Response(200, json={"success": True})

    def _claim(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.state != "ENGINE.ROLLING" or len(self.claims) >= self.places:
            return {"success": False, "fail_cause": "no"}
        number = len(self.claims)
        self.claims.append(body)
        where = {"openai_base_url": "http://swarm/v1", "openai_api_key": f"key-{number}"}
        return {"success": True, "episode_uuid": f"episode-{number}", **where}

    async def _call(self, path: str, request: httpx.Request, body: dict[str, Any]) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"object": "list", "data": [{"id": "tiny", "object": "model"}]})
        number = int(request.headers["authorization"].removeprefix("Bearer key-"))
        self.asked.append((number, body))
        said = self.say(number)
        if isinstance(said, int):
            error = {"error": {"message": "too long", "code": "context_length_exceeded"}}
            return httpx.Response(said, json=error)
        if not isinstance(said, Said):
            await said
            raise AssertionError
        return httpx.Response(200, json=reply(path, body, said))


def by_length(request: Body, answers: Sequence[ProxyAnswer]) -> Any:
    return (float(len(answer.text)) for answer in answers)


async def _rewarding(request: Body, answers: Sequence[ProxyAnswer]) -> list[float]:
    return list(by_length(request, answers))


def proxy_of(swarm: FakeSwarm, reward: Any = _rewarding, **settings: Any) -> Proxy:
    given = {"num_repeat": 3, "max_seconds": 5.0, "wait_seconds": 0.0} | settings
    transport = httpx.MockTransport(swarm)
    return Proxy("http://swarm/", reward, ProxySettings(**given), token="secret", transport=transport)


def client_of(proxy: Proxy) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=proxy), base_url="http://proxy")


def of_openai(proxy: Proxy) -> openai.AsyncOpenAI:
    http = client_of(proxy)
    return openai.AsyncOpenAI(base_url="http://proxy/v1", api_key="any", http_client=http, max_retries=0)


def of_anthropic(proxy: Proxy) -> anthropic.AsyncAnthropic:
    base = anthropic.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
    transport = importlib.import_module(base).ASGITransport(app=proxy)  # httpx, or its successor
    http = anthropic.DefaultAsyncHttpxClient(transport=transport, base_url="http://proxy")
    return anthropic.AsyncAnthropic(base_url="http://proxy", api_key="any", http_client=http, max_retries=0)


def growing(number: int) -> Said:
    return Said("a" * (number + 1))


def rewards_of(swarm: FakeSwarm) -> dict[str, float]:
    return {name: body["workflow_output"]["reward"] for name, body in swarm.ended.items()}


async def test_the_best_answer_goes_to_the_user_and_all_rewards_to_the_training() -> None:
    swarm = FakeSwarm(growing)
    proxy = proxy_of(swarm)
    answer = await of_openai(proxy).chat.completions.create(model="gpt-4o", messages=HI, temperature=0.5)
    await proxy.close()
    assert answer.choices[0].message.content == "aaa"
    assert rewards_of(swarm) == {"episode-0": 1.0, "episode-1": 2.0, "episode-2": 3.0}
    tasks = {body["task_id"] for body in swarm.ended.values()}
    assert len(tasks) == 1
    assert {body["workflow_output"]["metadata"]["task_id"] for body in swarm.ended.values()} == tasks
    assert not swarm.aborted
    assert sorted(number for number, _ in swarm.asked) == [0, 1, 2]
    assert all(body == {"messages": HI, "temperature": 0.5} for _, body in swarm.asked)
    assert {claim["episode_type"] for claim in swarm.claims} == {"train"}
    assert swarm.headers["authorization"] == "Bearer secret"
    report = proxy.report()
    assert (report["requests"], report["trained"], report["episodes_trained"]) == (1, 1, 3)
    assert report["mean_reward"] == 2.0 and report["latency_s"]["max"] > 0


async def test_each_turn_of_a_conversation_is_a_group_of_its_own() -> None:
    swarm = FakeSwarm(growing)
    proxy = proxy_of(swarm)
    first = await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    shown = {"role": "assistant", "content": first.choices[0].message.content}
    more: Any = [*HI, shown, {"role": "user", "content": "more"}]
    await of_openai(proxy).chat.completions.create(model="m", messages=more)
    await proxy.close()
    assert [len(body["messages"]) for _, body in swarm.asked] == [1, 1, 1, 3, 3, 3]
    assert swarm.asked[-1][1]["messages"][1]["content"] == "aaa"
    assert len(swarm.ended) == 6 and len({body["task_id"] for body in swarm.ended.values()}) == 2


async def test_equal_rewards_are_sent_all_the_same() -> None:
    swarm = FakeSwarm(lambda number: Said("same"))
    proxy = proxy_of(swarm)
    await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert list(rewards_of(swarm).values()) == [4.0] * 3


# --- streams ---------------------------------------------------------------------------------------------


async def test_a_chat_stream_reads_back_as_the_whole_answer() -> None:
    swarm = FakeSwarm(lambda number: EVERYTHING)
    client = of_openai(proxy_of(swarm))
    asked: Any = {"model": "m", "messages": HI, "tools": [{"type": "function", "function": TOOL}]}
    whole = (await client.chat.completions.create(**asked)).model_dump()
    async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        read = (await stream.get_final_completion()).model_dump()
    for each in (whole, read):
        for name in ("id", "created"):
            del each[name]
    message = read["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"].pop("arguments")) == {"a": 1, "b": [2]}
    message["tool_calls"][0]["function"].pop("parsed_arguments")
    message["tool_calls"][0].pop("index", None)
    message.pop("parsed")
    whole["choices"][0]["message"]["tool_calls"][0]["function"].pop("arguments")
    assert read == whole | {"system_fingerprint": None, "service_tier": None}
    assert message["reasoning_content"] == "one and one" and read["usage"]["completion_tokens"] == 3


async def test_a_chat_stream_without_usage_ends_as_openais_do() -> None:
    proxy = proxy_of(FakeSwarm(lambda number: Said("hello")))
    body = {"model": "m", "messages": HI, "stream": True}
    answer = await client_of(proxy).post(CHAT, json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    parts = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    chunks = [json.loads(part)["choices"][0] for part in parts[:-1]]
    assert parts[-1] == "[DONE]"
    assert [(each["delta"], each["finish_reason"]) for each in chunks] == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "hello"}, None),
        ({}, "stop"),
    ]


async def test_a_messages_stream_reads_back_as_the_whole_answer() -> None:
    client = of_anthropic(proxy_of(FakeSwarm(lambda number: EVERYTHING)))
    tool = {"name": "add", "input_schema": {"type": "object"}}
    asked: Any = {"model": "m", "max_tokens": 9, "messages": HI, "tools": [tool]}
    whole = (await client.messages.create(**asked)).model_dump()
    kinds = []
    async with client.messages.stream(**asked) as stream:
        async for event in stream:
            kinds.append(event.type)
        read = (await stream.get_final_message()).model_dump()
    assert read | {"id": ""} == whole | {"id": ""}
    assert [block["type"] for block in read["content"]] == ["thinking", "text", "tool_use"]
    assert read["content"][2]["input"] == {"a": 1, "b": [2]} and read["stop_reason"] == "tool_use"
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


async def test_a_responses_stream_reads_back_as_the_whole_answer() -> None:
    client = of_openai(proxy_of(FakeSwarm(lambda number: EVERYTHING)))
    asked: Any = {"model": "m", "input": "hi", "tools": [{"type": "function", **TOOL}]}
    whole = (await client.responses.create(**asked)).model_dump()
    text, arguments = "", ""
    async with client.responses.stream(**asked) as stream:
        async for event in stream:
            text += event.delta if event.type == "response.output_text.delta" else ""
            arguments += event.delta if event.type == "response.function_call_arguments.delta" else ""
        read = await stream.get_final_response()
    assert (read.output_text, text, arguments) == ("two", "two", CALL.arguments)
    assert [item.type for item in read.output] == [item["type"] for item in whole["output"]]
    assert read.status == "completed" and read.usage and read.usage.total_tokens == 5


async def test_a_completions_stream_reads_back() -> None:
    client = of_openai(proxy_of(FakeSwarm(growing)))
    stream = await client.completions.create(model="m", prompt="hi", stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "aaa"


@pytest.mark.parametrize(
    ("path", "body"),
    [(CHAT, {"messages": HI}), ("/v1/messages", {"messages": HI}), ("/v1/responses", {"input": "hi"})],
)
def test_what_is_compared_is_the_text_and_the_calls(path: str, body: Body) -> None:
    text, call = text_of(path, reply(path, body, EVERYTHING)).splitlines()
    assert text == "two"
    assert json.loads(call)["name"] == "add" and '"a"' in call.replace("\\", "")


# --- what fails ------------------------------------------------------------------------------------------


async def _raises(request: Body, answers: Sequence[ProxyAnswer]) -> list[float]:
    raise RuntimeError("out of credit")


async def test_a_reward_that_fails_is_no_business_of_the_users() -> None:
    swarm = FakeSwarm(growing)
    proxy = proxy_of(swarm, _raises)
    answer = await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert answer.choices[0].message.content == "a"
    assert len(swarm.aborted) == 3 and not swarm.ended
    assert proxy.report()["judge_failures"] == 1 and proxy.report()["trained"] == 0


async def test_a_reward_that_never_comes_is_given_up() -> None:
    async def never(request: Body, answers: Sequence[ProxyAnswer]) -> list[float]:
        await asyncio.Event().wait()
        return []

    swarm = FakeSwarm(growing)
    proxy = proxy_of(swarm, never, max_seconds=0.1)
    assert (await of_openai(proxy).chat.completions.create(model="m", messages=HI)).choices
    await proxy.close()
    assert len(swarm.aborted) == 3 and proxy.report()["judge_failures"] == 1


async def test_answers_that_fail_or_are_late_are_aborted_and_the_others_compared() -> None:
    def say(number: int) -> Said | int | Awaitable[Any]:
        return 503 if number == 0 else asyncio.Event().wait() if number == 1 else growing(number)

    swarm = FakeSwarm(say)
    proxy = proxy_of(swarm, num_repeat=4, max_seconds=0.2)
    answer = await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert answer.choices[0].message.content == "aaaa"
    assert rewards_of(swarm) == {"episode-2": 3.0, "episode-3": 4.0}
    assert swarm.aborted == {"episode-0", "episode-1"} and proxy.report()["failed_answers"] == 2


async def test_a_lone_answer_is_not_trained_on() -> None:
    swarm = FakeSwarm(growing)
    swarm.places = 1
    proxy = proxy_of(swarm)
    await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert swarm.aborted == {"episode-0"} and not swarm.ended and proxy.report()["lone_answers"] == 1


async def test_a_claim_that_fails_leaves_the_others_of_its_group() -> None:
    swarm = FakeSwarm(growing)

    async def failing(request: httpx.Request) -> httpx.Response:
        if len(swarm.claims) == 2 and request.url.path == "/claim_episode":
            raise httpx.ConnectError("reset")
        return await swarm(request)

    settings = ProxySettings(4, max_seconds=5.0, wait_seconds=0.0)
    proxy = Proxy("http://swarm", _rewarding, settings, transport=httpx.MockTransport(failing))
    answer = await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert answer.choices[0].message.content == "aa" and len(swarm.ended) == 2


async def test_a_reward_is_sent_again_and_an_episode_whose_reward_is_refused_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_pause", lambda attempt, after: 0.01 if attempt < 3 else 120.0)
    swarm, ends = FakeSwarm(growing), Counter[str]()

    async def failing(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/end_episode":
            name = json.loads(request.content)["episode_uuid"]
            ends[name] += 1
            if name == "episode-0" or (name == "episode-1" and ends[name] == 1):
                return httpx.Response(503, json={"success": False})
        return await swarm(request)

    settings = ProxySettings(3, max_seconds=5.0, wait_seconds=0.0)
    proxy = Proxy("http://swarm", _rewarding, settings, transport=httpx.MockTransport(failing))
    await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert set(swarm.ended) == {"episode-1", "episode-2"} and swarm.aborted == {"episode-0"}
    report = proxy.report()
    assert (report["rewards_not_taken"], report["episodes_trained"], report["trained"]) == (1, 2, 1)


async def test_the_model_s_refusal_of_a_request_is_the_user_s() -> None:
    swarm = FakeSwarm(lambda number: 400)
    proxy = proxy_of(swarm)
    with pytest.raises(openai.BadRequestError, match="too long"):
        await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    assert len(swarm.aborted) == 3


@pytest.mark.parametrize("state", ["ENGINE.OFFLINE", "ENGINE.WEIGHT_SYNCING"])
async def test_without_a_model_users_are_told_to_come_again(state: str) -> None:
    swarm = FakeSwarm(growing)
    swarm.state = state
    proxy = proxy_of(swarm)
    answer = await client_of(proxy).post(CHAT, json={"messages": HI})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    with pytest.raises(anthropic.InternalServerError) as caught:
        await of_anthropic(proxy).messages.create(model="m", max_tokens=9, messages=HI)
    assert caught.value.status_code == 503 and proxy.report()["unavailable"] == 2


@asynccontextmanager
async def listening(application: Any) -> AsyncIterator[str]:
    """The address of an ASGI application."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield "http://{}:{}".format(*listener.getsockname())
        server.should_exit = True
        await serving


async def test_without_a_model_the_fallback_answers() -> None:
    swarm, behind = FakeSwarm(lambda number: 503), FakeSwarm(lambda number: Said("hello"))
    async with listening(proxy_of(behind, num_repeat=1)) as address:
        proxy = proxy_of(swarm, fallback=OtherModel(f"{address}/v1", "key", "other"))
        client = of_openai(proxy)
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        swarm.state = "ENGINE.OFFLINE"
        whole = await client.chat.completions.create(model="m", messages=HI)
        await proxy.close()
    assert ("".join(texts), whole.choices[0].message.content) == ("hello", "hello")
    assert proxy.report()["served_by_fallback"] == 2 and len(swarm.aborted) == 3


async def test_who_hangs_up_is_trained_on_and_who_asks_again_gets_the_same() -> None:
    may_answer = asyncio.Event()

    async def waiting(request: Body, answers: Sequence[ProxyAnswer]) -> list[float]:
        await may_answer.wait()
        return list(by_length(request, answers))

    swarm = FakeSwarm(growing)
    proxy = proxy_of(swarm, waiting)
    sent: list[Any] = []

    async def post(then: Callable[[], Awaitable[Any]], *headers: tuple[bytes, bytes]) -> None:
        """`then`: what is received after the body."""
        body: Any = {"type": "http.request", "body": json.dumps({"messages": HI}).encode()}
        parts = iter([asyncio.sleep(0, body), then()])

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers}
        await proxy(scope, lambda: next(parts), send)

    async def stays() -> None:
        may_answer.set()
        await asyncio.Event().wait()

    await post(lambda: asyncio.sleep(0, {"type": "http.disconnect"}))
    assert not sent and proxy.report()["hung_up"] == proxy.report()["running_groups"] == 1
    await post(stays, (b"x-stainless-retry-count", b"1"))
    assert json.loads(sent[-1]["body"])["choices"][0]["message"]["content"] == "aaa"
    await proxy.close()
    assert len(swarm.claims) == len(swarm.ended) == 3 and proxy.report()["trained"] == 1


async def test_closing_gives_unfinished_episodes_back() -> None:
    all_asked = asyncio.Event()

    async def never(number: int) -> None:
        if number == 2:
            all_asked.set()
        await asyncio.Event().wait()

    swarm = FakeSwarm(never)
    proxy = proxy_of(swarm)
    asking = asyncio.create_task(client_of(proxy).post(CHAT, json={"messages": HI}))
    await all_asked.wait()
    await proxy.close()
    assert len(swarm.aborted) == 3
    assert (await asking).status_code == 503
    assert (await client_of(proxy).post(CHAT, json={"messages": HI})).status_code == 503
    assert len(swarm.claims) == 3


# --- one in so many --------------------------------------------------------------------------------------


async def test_only_one_request_in_so_many_is_trained_on() -> None:
    swarm = FakeSwarm(growing)
    proxy = proxy_of(swarm, sample_every=3)
    for _ in range(4):
        await of_openai(proxy).chat.completions.create(model="m", messages=HI)
    await proxy.close()
    kinds = [claim["episode_type"] for claim in swarm.claims]
    assert kinds == ["train"] * 3 + ["eval"] * 2 + ["train"] * 3
    assert swarm.aborted == {"episode-3", "episode-4"} and len(swarm.ended) == 6
    report = proxy.report()
    assert (report["requests"], report["trained"], report["served_directly"]) == (4, 2, 2)


async def test_other_paths_go_through() -> None:
    proxy = proxy_of(FakeSwarm(growing))
    client = client_of(proxy)
    assert (await client.get("/health")).json() == {"status": "ok"}
    assert [model.id async for model in of_openai(proxy).models.list()] == ["tiny"]
    assert (await client.get("/requests")).json()["requests"] == 0
    assert (await client.get("/nothing")).status_code == 404
    assert (await client.post("/nothing")).status_code == 404
    assert (await client.post(CHAT, content=b"{")).status_code == 400


# --- rewards ---------------------------------------------------------------------------------------------

ANSWERS = [ProxyAnswer("a", {}), ProxyAnswer("bb", {})]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def reward(request, answers): return [1.0]", "1 rewards for 2 answers"),
        ("def reward(request, answers): return [1.0, float('nan')]", "gave nan, not a finite number"),
        ("async def reward(request, answers): return [1.0, float('inf')]", "gave inf, not a finite number"),
        ("def reward(request, answers): return None", "NoneType"),
    ],
)
async def test_rewards_are_checked(tmp_path: Path, code: str, told: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    reward = function_reward(f"{tmp_path / 'mine.py'}->reward")
    with pytest.raises(Exception, match=told):
        await reward({}, ANSWERS)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_function_of_the_users(tmp_path: Path, kind: str) -> None:
    code = f"{kind} reward(request, answers):\n    return [len(a.text) * request['k'] for a in answers]"
    (tmp_path / "mine.py").write_text(code)
    assert await function_reward(f"{tmp_path / 'mine.py'}->reward")({"k": 2}, ANSWERS) == [2.0, 4.0]


async def test_the_judge_sees_the_conversation_and_ranks_the_answers() -> None:
    seen: list[Any] = []

    class Longer:
        async def ask(self, instructions: str, data: Any, shape: Any) -> Any:
            seen.append((instructions, data["task"]))
            return shape(reason="", better="first" if len(data["first"]) > len(data["second"]) else "second")

    judge = judge_reward(Longer(), "It is long.")  # type: ignore[arg-type]
    assert await judge({"system": "be brief", "messages": HI}, ANSWERS) == [0.0, 1.0]
    assert "It is long." in seen[0][0]
    assert seen[0][1] == [{"role": "system", "content": "be brief"}, *HI]


# --- the command -----------------------------------------------------------------------------------------

FALLBACK = ("--fallback-base-url", "http://x/v1")
KEYED = ("--fallback-model", "m", "--fallback-api-key-env", "UNSET")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "give one of --reward and --judge-model"),
        (["--reward", "a.py->f", "--judge-model", "m"], "give one of --reward and --judge-model"),
        (["--reward", "nothing.py->f"], "--reward: there is no file"),
        (["--reward", "json->loud"], "--reward: json has no function 'loud'; it has dump, dumps, "),
        (["--reward", "json->loads", *FALLBACK], "needs --fallback-model"),
        (["--reward", "json->loads", *FALLBACK, *KEYED], "--fallback-api-key-env: UNSET is not set"),
    ],
)
def test_wrong_options_are_told_in_one_line(options: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["proxy", *options])
    assert result.exit_code == 1 and told in result.output and len(result.output.splitlines()) == 1


@pytest.mark.parametrize("path", ["/v1/../stop_engine", "/v1/models/../../get_log_tail", "/v1/embeddings"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_users_reach_nothing_but_the_model(method: str, path: str) -> None:
    swarm, sent = FakeSwarm(growing), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    await proxy_of(swarm)(scope, receive, send)
    assert sent[0]["status"] == 404
