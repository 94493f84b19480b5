"""Environments of OpenEnv servers. A stand-in speaks the protocol here, as the server of openenv 0.10 does;
the last test is against that server itself."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.environments.stage import free_address, interpreter, played, serving, splits_of
from trainer_core.child_process import ChildProcess, answers
from trainer_core.environments.conversation import ServiceError
from trainer_core.environments.openenv import ActionRefusedError, OpenEnvClient, action_of
from trainer_core.rollout.failures import failure_of
from trainer_core.types import DataError, StopReason, Task, TaskSplits

WORKFLOW = "trainer_core.environments.openenv->PlayOpenEnv"
METADATA = {"additionalProperties": True, "title": "Metadata", "type": "object"}


def schema_of(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    fields = {"metadata": METADATA, **properties}
    return {"additionalProperties": False, "properties": fields, "required": list(required), "type": "object"}


GUESS = schema_of("message", message={"title": "Message", "type": "string"})
Answer = Callable[[dict[str, Any]], Any]


class StandIn:
    """The server, as an ASGI application with one answer to all: `answer(message)` is what is sent back, or
    None to hang up."""

    def __init__(self, answer: Answer, *, most: int = 2) -> None:
        self.answer = answer
        self.most = most
        self.open = 0
        self.messages: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            status = 200 if scope["path"] == "/schema" else 404
            await send({"type": "http.response.start", "status": status, "headers": []})
            body = json.dumps({"action": GUESS, "observation": {}, "state": {}}).encode()
            await send({"type": "http.response.body", "body": body})
        if scope["type"] != "websocket":
            return
        await receive()
        if scope["path"] != "/ws":
            return await send({"type": "websocket.close"})
        await send({"type": "websocket.accept"})
        if self.open >= self.most:
            text = f"Server at capacity: {self.open}/{self.most} sessions active."
            full = error("CAPACITY_REACHED", text, active_sessions=self.open, max_sessions=self.most)
            return await send({"type": "websocket.send", "text": json.dumps(full)})
        self.open += 1
        while (message := await receive())["type"] == "websocket.receive":
            self.messages.append(json.loads(message["text"]))
            answer = self.answer(self.messages[-1])
            if isinstance(answer, threading.Event):
                await receive()
                answer.set()
            if not isinstance(answer, str | bytes | dict):
                break
            said = json.dumps(answer) if isinstance(answer, dict) else answer
            await send({"type": "websocket.send", "bytes" if isinstance(said, bytes) else "text": said})
        self.open -= 1


def observed(reward: Any = None, done: bool = False, **observation: Any) -> dict[str, Any]:
    data = {"observation": {"metadata": {}, **observation}, "reward": reward, "done": done}
    return {"type": "observation", "data": data}


def error(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code, **more}}


INVALID = error(
    "VALIDATION_ERROR",
    "Invalid message",
    errors=[{"type": "missing", "loc": ["message"], "msg": "Field required", "input": {}, "url": "u"}],
)


def guessing() -> Answer:
    """Guess the seed: a quarter less for each that is wrong."""
    seeds: list[int] = []

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        if message["type"] == "reset":
            seeds.append(message["data"]["seed"])
            return observed(text=f"guess {seeds[-1]}")
        if "message" not in message["data"]:
            return INVALID
        is_right = message["data"]["message"] == str(seeds[-1])
        return observed(1.0 if is_right else -0.25, is_right, text="right" if is_right else "wrong")

    return answer


def task_at(url: str, seed: int = 7, action: dict[str, Any] = GUESS) -> Task:
    metadata = {"base_url": url, "action": action, "reset": {"seed": seed}}
    return Task(f"seed-{seed}", "q", metadata=metadata)


def read(url: str, **settings: Any) -> TaskSplits:
    return splits_of("openenv", base_url=url, **settings)


# --- episodes -----------------------------------------------------------------------------------------------


def test_an_episode_is_a_conversation_whose_reward_is_the_sum() -> None:
    server = StandIn(guessing())
    with serving(server, ws="auto") as url:
        episodes, asked = played(WORKFLOW, task_at(url), task_at(url, 8), saying=["3", "7", "8"])
    assert [(one.reward, one.is_success, one.error) for one in episodes] == [
        (0.75, False, None),
        (1.0, True, None),
    ]
    assert [one.metrics["workflow/environment_steps"] for one in episodes] == [2, 1]
    assert server.messages == [
        {"type": "reset", "data": {"seed": 7}},
        {"type": "step", "data": {"message": "3"}},
        {"type": "step", "data": {"message": "7"}},
        {"type": "reset", "data": {"seed": 8}},
        {"type": "step", "data": {"message": "8"}},
    ]
    assert server.open == 0
    system, _, rest = asked[1].partition("<|end|>")
    assert "the value of its message, and nothing else." in system
    assert '{"title": "Message", "type": "string"}' in system
    assert rest == "<|user|>guess 7<|end|><|assistant|>3<|end|><|user|>wrong<|end|><|assistant|>"


def test_an_action_that_the_environment_refuses_can_be_said_again() -> None:
    server, any_object = StandIn(guessing()), schema_of("message", "why", message={}, why={})
    with serving(server, ws="auto") as url:
        (episode,), asked = played(
            WORKFLOW,
            task_at(url, action=any_object),
            saying=["seven", '{"mess": 7}', '```json\n{"message": "7"}\n```'],
            context=1000,
        )
    assert (episode.reward, len(episode.calls)) == (1.0, 3)
    assert asked[1].endswith("seven<|end|><|user|>an action is one JSON object<|end|><|assistant|>")
    refusal = '[{"loc": ["message"], "msg": "Field required"}]'
    assert asked[2].endswith(f"<|user|>{refusal}<|end|><|assistant|>")
    assert len(server.messages) == 3


def test_all_of_an_observation_is_seen_and_its_limit_is_no_failure() -> None:
    with serving(StandIn(lambda message: observed(True, board=["é"], turn=1)), ws="auto") as url:
        (episode,), asked = played(WORKFLOW, task_at(url), saying=["3"], max_calls=2)
    assert (episode.reward, episode.error, episode.stop_reason) == (3.0, None, StopReason.TURNS)
    assert '<|user|>{"board": ["é"], "turn": 1}<|end|>' in asked[0]


async def test_an_agent_of_ones_own_has_a_session_in_a_context() -> None:
    with serving(StandIn(lambda message: observed(text="x" * 10_000_000)), ws="auto") as url:
        async with OpenEnvClient(url) as environment:
            assert len((await environment.reset()).messages[0]["content"]) == 10_000_000
    with serving(StandIn(guessing()), ws="auto") as url:
        async with OpenEnvClient(f"{url}/") as environment:
            assert (await environment.reset(seed=3)).messages == [{"role": "user", "content": "guess 3"}]
            seen = await environment.step({"message": "3"})
            assert (seen.reward, seen.is_over) == (1.0, True)
            with pytest.raises(ActionRefusedError, match="Field required"):
                await environment.step({})


@pytest.mark.parametrize(
    ("said", "schema", "action"),
    [
        ("hello", GUESS, {"message": "hello"}),
        (" 7 ", GUESS, {"message": " 7 "}),
        ('{"message": "x"}', GUESS, {"message": "x"}),
        ('{"other": "x"}', GUESS, {"message": '{"other": "x"}'}),
        ("4", schema_of("cell", cell={"type": "integer"}), {"cell": 4}),
        ("[1, 2]", schema_of("at", at={"type": "array"}, why={"type": "string"}), {"at": [1, 2]}),
        ("left", schema_of(way={"enum": ["left", "right"]}), {"way": "left"}),
        ('```json\n{"a": 1, "b": 2}\n```', schema_of("a", "b", a={}, b={}), {"a": 1, "b": 2}),
        ('{"type": "list_tools"}', schema_of(), {"type": "list_tools"}),
        ("four", schema_of("cell", cell={"type": "integer"}), "cell is of type integer"),
        ("1", schema_of("a", "b", a={}, b={}), "an action is one JSON object"),
        ("[" * 100_000, schema_of("a", "b", a={}, b={}), "an action is one JSON object"),
    ],
)
def test_what_a_reply_means_as_an_action(said: str, schema: dict[str, Any], action: Any) -> None:
    if isinstance(action, str):
        with pytest.raises(ActionRefusedError, match=action):
            action_of(said, schema)
    else:
        assert action_of(said, schema) == action


# --- failures -----------------------------------------------------------------------------------------------


async def failure(url: str, *, timeout: float = 30.0) -> ServiceError:
    """What an episode raises."""
    try:
        async with OpenEnvClient(url, timeout=timeout) as environment:
            await environment.reset(seed=1)
            await environment.step({"message": "x"})
    except ServiceError as error:
        return error
    raise AssertionError("it went well")


def then(answer: Any) -> Answer:
    """A reset like any other, and then this."""
    return lambda message: observed(text="go") if message["type"] == "reset" else answer


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (None, "connection", "/ws step: ConnectionClosed"),
        (threading.Event(), "connection", "/ws step: TimeoutError"),
        (error("EXECUTION_ERROR", "boom went off"), "workflow", "/ws step: EXECUTION_ERROR: boom went off"),
        (error("SESSION_ERROR", "x" * 9999 + "end"), "workflow", "xend"),
        ("{nonsense", "workflow", "expected type and data, not '{nonsense'"),
        (b"\xff\xfe", "workflow", "expected type and data, not "),
        ("[]", "workflow", "expected type and data, not '[]'"),
        ('{"type": "observation", "data": 3}', "workflow", "expected type and data, not "),
        ("[" * 100_000, "workflow", "expected type and data, not '[[["),
        ({"type": "observation", "data": {"reward": 1.0}}, "workflow", "expected an observation, not "),
        (observed(float("nan")), "workflow", "reward is nan, not a finite number"),
        (observed("1.0"), "workflow", "reward is 1.0, not a finite number"),
    ],
)  # fmt: skip
async def test_whatever_a_server_answers_is_one_clear_error(answer: Any, kind: str, said: str) -> None:
    with serving(StandIn(then(answer)), ws="auto") as url:
        raised = await failure(url, timeout=0.2 if isinstance(answer, threading.Event) else 30.0)
    assert str(raised).startswith(url.replace("http", "ws"))
    assert said in str(raised)
    assert len(str(raised)) < 600
    assert failure_of(raised).kind == kind


async def test_a_server_that_is_not_there_is_an_outage_that_names_the_address() -> None:
    url = free_address()
    raised = await failure(url)
    assert str(raised).startswith(f"{url.replace('http', 'ws')}/ws: ConnectionRefusedError: ")
    assert failure_of(raised).kind == "connection"
    with serving(StandIn(guessing()), ws="auto") as there:
        assert "elsewhere/ws: InvalidStatus: " in str(await failure(f"{there}/elsewhere"))


async def test_a_server_that_is_full_says_how_many_episodes_it_takes() -> None:
    with serving(StandIn(guessing(), most=1), ws="auto") as url:
        async with OpenEnvClient(url) as first:
            await first.reset(seed=1)
            raised = await failure(url)
    assert "Server at capacity: 1/1 sessions active" in str(raised)
    assert str(raised).endswith("set ajet.rollout.max_env_worker to 1 at most")
    assert failure_of(raised).kind == "connection"


async def test_an_episode_that_is_cancelled_closes_its_session() -> None:
    asked, closed = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def answer(message: dict[str, Any]) -> Any:
        if message["type"] == "reset":
            return observed(text="go")
        loop.call_soon_threadsafe(asked.set)
        return closed

    with serving(StandIn(answer), ws="auto") as url:
        episode = asyncio.create_task(failure(url))
        await asked.wait()
        episode.cancel()
        with pytest.raises(asyncio.CancelledError):
            await episode
        assert await asyncio.to_thread(closed.wait, 30.0)


# --- tasks --------------------------------------------------------------------------------------------------


def test_tasks_are_seeds_with_the_schema_of_actions() -> None:
    with serving(StandIn(guessing()), ws="auto") as url:
        splits = read(f"{url}/", num_training_tasks=3, num_validation_tasks=2, reset={"size": 4})
    assert [task.task_id for task in splits.validation] == ["seed-0", "seed-1"]
    assert [task.task_id for task in splits.training] == ["seed-2", "seed-3", "seed-4"]
    assert splits.training[0].metadata == {"base_url": url, "action": GUESS, "reset": {"seed": 2, "size": 4}}


def test_a_reader_without_its_server_says_how_to_start_one() -> None:
    url = free_address()
    with pytest.raises(DataError, match=f"openenv.base_url: {url}/schema gives no schema of actions"):
        read(url)
    with serving(StandIn(guessing()), ws="auto") as there:
        with pytest.raises(DataError, match="404"):
            read(f"{there}/elsewhere")


# --- the real server ----------------------------------------------------------------------------------------

REAL = """
import sys, uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

class Guess(Action):
    message: str

class Seen(Observation):
    text: str = ""

class Game(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **more):
        self.seed, self.steps = seed, 0
        return Seen(text=f"guess {seed}")

    def step(self, action, timeout_s=None, **more):
        self.steps += 1
        if action.message == "boom":
            raise RuntimeError("boom went off")
        right = action.message == str(self.seed)
        return Seen(text="right" if right else "wrong", reward=1.0 if right else -0.25, done=right)

    @property
    def state(self):
        return State(step_count=self.steps)

app = create_fastapi_app(Game, Guess, Seen, max_concurrent_envs=2)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
"""


@contextmanager
def real_server(folder: Path) -> Iterator[str]:
    python = interpreter("OPENENV_PYTHON")
    (folder / "real.py").write_text(REAL)
    url = free_address()
    command = [python, str(folder / "real.py"), url.rpartition(":")[2]]
    with ChildProcess(command, "OpenEnv", folder / "real.log") as process:
        process.wait_until(lambda: answers(f"{url}/health"), 120.0)
        yield url


def test_the_server_of_openenv_itself(tmp_path: Path) -> None:
    with real_server(tmp_path) as url:
        splits = read(url, num_training_tasks=1, num_validation_tasks=1)
        (task,) = splits.training
        assert {name: GUESS[name] for name in ("required", "type")} == {
            name: task.metadata["action"][name] for name in ("required", "type")
        }
        (episode,), _ = played(WORKFLOW, task, saying=["3", "1"])
        assert (episode.reward, len(episode.calls)) == (0.75, 2)

        async def rest() -> None:
            async with OpenEnvClient(url) as one, OpenEnvClient(url) as two:
                assert (await one.reset(seed=3)).messages[0]["content"] == "guess 3"
                assert (await one.step({"message": "x"})).reward == -0.25
                with pytest.raises(ActionRefusedError, match="Field required"):
                    await one.step({"mess": "x"})
                with pytest.raises(ServiceError, match="EXECUTION_ERROR: boom went off"):
                    await one.step({"message": "boom"})
                await two.reset(seed=1)
                full = await failure(url)
                assert "set ajet.rollout.max_env_worker to 2 at most" in str(full)
            async with OpenEnvClient(url) as three:
                await three.reset(seed=1)

        asyncio.run(rest())
