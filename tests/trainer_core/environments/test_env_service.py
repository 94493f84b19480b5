"""Environments of a service: client, workflow and reader against the service, and what can go wrong."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from tests.trainer_core.environments.stage import free_address, played, serving, splits_of, trained
from trainer_core.environments.conversation import ServiceError
from trainer_core.environments.env_service import environment_of
from trainer_core.environments.served import FrozenLake, ServedEnvironment
from trainer_core.environments.service import EnvironmentService
from trainer_core.rollout.failures import failure_of
from trainer_core.types import DataError, StopReason, Task, TaskSplits

WORKFLOW = "trainer_core.environments.env_service->PlayEnvService"


class Scripted(ServedEnvironment):
    """Does what a test says."""

    on_reset: ClassVar[Callable[[], Any]] = lambda: "go"
    on_step: ClassVar[Callable[[str], Any]] = lambda said: ("", 0.0, True)
    worth: ClassVar[Any] = 0.5
    closed: ClassVar[list[str]] = []

    @classmethod
    def tasks(cls, split: str) -> list[str]:
        return {"train": ["a", "b"], "dev": ["c"], "none": []}[split]

    def reset(self, task_id: str) -> Any:
        self._task_id = task_id
        return type(self).on_reset()

    def step(self, action: Mapping[str, Any]) -> Any:
        return type(self).on_step(action["content"])

    def score(self) -> Any:
        return self.worth

    def close(self) -> None:
        self.closed.append(self._task_id)


@pytest.fixture
def scripted() -> type[Scripted]:
    """A fresh class, so that no test sees the script of another."""
    return type("Scripted", (Scripted,), {"closed": []})


def task_at(url: str, task_id: str = "a", env_type: str = "Scripted") -> Task:
    return Task(task_id, "q", env_type=env_type, metadata={"env_url": url})


def read(url: str, **settings: Any) -> TaskSplits:
    return splits_of("env_service", **{"env_type": "frozen_lake", "env_url": url, **settings})


@contextmanager
def started(*words: str) -> Iterator[str]:
    """The service as users start it; its address."""
    command = [sys.executable, "-m", "trainer_core.environments.service", "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://127.0.0.1:\d+", process.stdout.readline())
        try:
            assert found is not None
            yield found.group()
        finally:
            process.terminate()


# --- episodes -----------------------------------------------------------------------------------------------


def test_an_episode_is_a_conversation_whose_reward_is_the_score() -> None:
    service = EnvironmentService([FrozenLake])
    with serving(service) as url:
        lake = [task_at(url, name, "frozen_lake") for name in ("from-13", "from-2")]
        episodes, asked = played(WORKFLOW, *lake, saying=["R", "R", "D", "maybe up?"])
    assert [(one.reward, one.is_success, one.error) for one in episodes] == [
        (1.0, True, None),
        (0.0, False, None),
    ]
    assert [len(one.calls) for one in episodes] == [2, 2]
    first = "<|user|>FFFF\nFHFH\nFFFH\nHAFG<|end|><|assistant|>"
    assert asked[:2] == [first, f"{first}R<|end|><|user|>FFFF\nFHFH\nFFFH\nHFAG<|end|><|assistant|>"]
    assert service.instances == {}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"max_calls": 3}, StopReason.TURNS), ({"context": 400}, StopReason.CONTEXT)],
)
def test_an_episode_at_its_limit_is_evaluated_all_the_same(
    scripted: type[Scripted], limits: dict[str, int], reason: StopReason
) -> None:
    scripted.on_step = lambda said: ("once more" * 10_000 if "context" in limits else "", 0.0, False)
    with serving(EnvironmentService([scripted])) as url:
        (episode,), _ = played(WORKFLOW, task_at(url), saying=["x"], **limits)
    assert (episode.reward, episode.error, episode.stop_reason) == (0.5, None, reason)
    assert scripted.closed == ["a"]


def test_what_an_environment_says_as_somebody_else_is_the_users(scripted: type[Scripted]) -> None:
    scripted.on_reset = lambda: [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    seen = [("assistant", "one"), ("tool", "two"), ("user", "three")]
    answers = iter([([{"role": role, "content": text} for role, text in seen], 0.0, False), ([], 0.0, True)])
    scripted.on_step = lambda said: next(answers)
    with serving(EnvironmentService([scripted])) as url:
        _, asked = played(WORKFLOW, task_at(url), saying=["x"])
    assert asked[1] == (
        "<|system|>s<|end|><|user|>u<|end|><|assistant|>x<|end|>"
        "<|user|>one<|end|><|user|>two<|end|><|user|>three<|end|><|assistant|>"
    )


async def test_an_agent_of_ones_own_has_the_environment_in_a_context(scripted: type[Scripted]) -> None:
    scripted.on_step = lambda said: (said * 10_000_000, 0.25, said == "e")
    service = EnvironmentService([scripted])
    with serving(service) as url:
        async with environment_of(task_at(url)) as environment:
            assert environment.messages == [{"role": "user", "content": "go"}]
            seen = await environment.step("o")
            assert (seen.reward, seen.is_over) == (0.25, False)
            assert seen.messages == [{"role": "user", "content": "o" * 10_000_000}]
            assert (await environment.step({"role": "assistant", "content": "e"})).is_over
            assert await environment.evaluate() == 0.5
            assert len(service.instances) == 1
        assert (service.instances, scripted.closed) == ({}, ["a"])


# --- failures -----------------------------------------------------------------------------------------------


async def failure(url: str, *, steps: int = 1, timeout: float = 30.0) -> ServiceError:
    """What an episode raises."""
    try:
        async with environment_of(task_at(url), timeout=timeout) as environment:
            for _ in range(steps):
                await environment.step("x")
            await environment.evaluate()
    except ServiceError as error:
        return error
    raise AssertionError("it went well")


async def test_a_service_that_is_down_is_an_outage_that_names_the_call() -> None:
    url = free_address()
    error = await failure(url)
    assert str(error).startswith(f"{url}/create: ConnectError: ")
    assert failure_of(error).kind == "connection"


async def test_a_service_that_dies_in_the_middle_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("""
import os
from trainer_core.environments.served import ServedEnvironment
class Scripted(ServedEnvironment):
    reset = lambda self, task_id: "go"
    step = lambda self, action: os._exit(1)
""")
    with started("--env", f"{tmp_path}/dies.py->Scripted") as url:
        error = await failure(url)
    assert re.match(rf"{url}/step: (RemoteProtocol|Read)Error: ", str(error))
    assert failure_of(error).kind == "connection"


def test_a_service_that_was_started_anew_costs_one_more_try(scripted: type[Scripted]) -> None:
    service = EnvironmentService([scripted])
    steps: list[str] = []

    def step(said: str) -> Any:
        steps.append(said)
        if len(steps) == 1:
            service.instances.clear()
        return "on", 0.0, len(steps) == 3

    scripted.on_step = step
    with serving(service) as url:
        (episode,), _ = played(WORKFLOW, task_at(url), saying=["x"])
    assert (episode.reward, episode.metrics["rollout/retries"]) == (0.5, 1)


async def test_a_service_that_hangs_is_an_outage(scripted: type[Scripted]) -> None:
    go_on = threading.Event()
    scripted.on_step = lambda said: (go_on.wait(1.0), 0.0, True)
    with serving(EnvironmentService([scripted])) as url:
        error = await failure(url, timeout=0.2)
        go_on.set()
    assert f"{url}/step: ReadTimeout" in str(error)
    assert failure_of(error).kind == "connection"


REPLIES: list[tuple[int, bytes, str, str]] = [
    (200, b'{"success": true, "data": NaN}', "workflow", "score is nan, not a finite number"),
    (200, b'{"success": true, "data": 1e999}', "workflow", "score is inf, not a finite number"),
    (200, b'{"success": true, "data": "1.0"}', "workflow", "score is 1.0, not a finite number"),
    (200, b'{"success": true, "data": 1' + b"0" * 400 + b"}", "workflow", "score is 1000000000"),
    (200, b'{"success": true, "data": null}', "workflow", "status 200: "),
    (200, b'{"success": false, "data": 1.0}', "workflow", "status 200: "),
    (200, b"<html>garbage</html>", "workflow", "status 200: <html>garbage</html>"),
    (200, b"\xff\xfe\xfd", "workflow", "status 200: "),
    (200, b"[" * 100_000, "workflow", "status 200: [[["),
    (200, b"[1.0]", "workflow", "status 200: [1.0]"),
    (302, b"elsewhere", "workflow", "status 302: elsewhere"),
    (400, b'{"detail": "Instance x not found!"}', "workflow", "status 400: Instance x not found!"),
    (404, b'{"detail": "no instance"}', "connection", "status 404: no instance"),
    (422, b'{"detail": [{"msg": "Field required"}]}', "workflow", "Field required"),
    (429, b'{"detail": "full"}', "connection", "status 429: full"),
    (500, b'{"detail": "' + b"x" * 9999 + b'ValueError: bad"}', "connection", "ValueError: bad"),
    (503, b"", "connection", "status 503: "),
]


GO = b'{"success": true, "data": {"state": {"role": "user", "content": "go"}}}'


Calls = list[dict[str, Any]]


@contextmanager
def answering(created: bytes, status: int = 200, body: bytes = b"") -> Iterator[tuple[str, Calls]]:
    """A service with an answer to /create and one to all else; its address, and what it is asked."""
    calls: Calls = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        calls.append({"path": scope["path"], **json.loads((await receive())["body"])})
        is_create = scope["path"] == "/create"
        await send({"type": "http.response.start", "status": 200 if is_create else status, "headers": []})
        await send({"type": "http.response.body", "body": created if is_create else body})

    with serving(app) as url:
        yield url, calls


@pytest.mark.parametrize(("status", "body", "kind", "said"), REPLIES)
async def test_whatever_a_service_answers_is_one_clear_error(
    status: int, body: bytes, kind: str, said: str
) -> None:
    with answering(GO, status, body) as (url, calls):
        error = await failure(url, steps=0)
    assert str(error).startswith(f"{url}/evaluate: ")
    assert said in str(error)
    assert len(str(error)) < 600
    assert failure_of(error).kind == kind
    assert [call["path"] for call in calls] == ["/create", "/evaluate", "/release"]
    fields = {"path", "env_type", "task_id", "instance_id", "messages", "params"}
    assert all(set(call) == fields and call["messages"] == call["params"] == {} for call in calls)
    assert {(call["env_type"], call["task_id"]) for call in calls} == {("Scripted", "a")}
    assert len({call["instance_id"] for call in calls}) == 1


@pytest.mark.parametrize("state", [None, 7, [7], [{"role": "user"}], [{"content": "x"}], {"role": 1}])
async def test_a_state_without_messages_is_one_clear_error(state: Any) -> None:
    with answering(json.dumps({"data": {"state": state}}).encode()) as (url, _):
        error = await failure(url)
    assert str(error).startswith(f"{url}/create: expected a state of messages, not ")


@pytest.mark.parametrize("call", ["on_reset", "on_step"])
async def test_an_episode_that_is_cancelled_releases_its_instance(
    scripted: type[Scripted], call: str
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def hang(*said: str) -> Any:
        entered.set()
        assert go_on.wait(60.0)
        return ("", 0.0, True) if said else ""

    setattr(scripted, call, hang)
    service = EnvironmentService([scripted])
    with serving(service) as url:
        episode = asyncio.create_task(failure(url))
        await asyncio.to_thread(entered.wait, 60.0)
        episode.cancel()
        asyncio.get_running_loop().call_later(0.1, go_on.set)  # close waits for the call that is being played
        with pytest.raises(asyncio.CancelledError):
            await episode
        assert (service.instances, scripted.closed) == ({}, ["a"])


# --- tasks --------------------------------------------------------------------------------------------------


def test_tasks_are_the_ids_of_the_splits() -> None:
    with serving(EnvironmentService([FrozenLake])) as url:
        splits = read(f"{url}/")
    assert [task.task_id for task in splits.validation] == ["from-0"]
    assert len(splits.training) == 10
    first = splits.training[0]
    assert (first.task_id, first.env_type) == ("from-1", "frozen_lake")
    assert first.main_query == "frozen_lake from-1"
    assert first.metadata == {"env_url": url, "split": "train"}


def test_a_reader_without_its_service_says_how_to_start_one() -> None:
    url = free_address()
    told = (
        f"env_service.env_url: {url} cannot be reached .ConnectError: .*python -m trainer_core.environments.s"
    )
    with pytest.raises(DataError, match=told):
        read(url)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env_type": "appworld"}, "there is no env_type 'appworld' here; there are frozen_lake, Scripted"),
        ({"validation_split": "test"}, "there is no split 'test'; there are train and dev"),
        ({"env_type": "Scripted", "training_split": "none"}, "split none of Scripted: no tasks in it"),
        ({"env_url": "127.0.0.1:1"}, "cannot be reached (UnsupportedProtocol: "),
        ({"env_url": "http://[::1"}, "cannot be reached (InvalidURL: "),
    ],
)
def test_tasks_that_a_service_does_not_have(settings: dict[str, str], said: str) -> None:
    with serving(EnvironmentService([FrozenLake, Scripted])) as url:
        with pytest.raises(DataError, match=re.escape(said)):
            read(url, **settings)


# --- the service --------------------------------------------------------------------------------------------


def post(url: str, call: str, **body: Any) -> tuple[int, dict[str, Any]]:
    response = httpx.post(f"{url}/{call}", json={"env_type": "Scripted", **body})
    return response.status_code, response.json()


def test_what_the_service_refuses(scripted: type[Scripted]) -> None:
    def fail(said: str) -> Any:
        raise {"bad": ValueError, "broken": OSError}[said](f"{said} action")

    scripted.on_step = fail
    with serving(EnvironmentService([scripted], max_instances=1)) as url:
        assert post(url, "create", task_id="a", instance_id="1")[0] == 200
        say = [post(url, "step", instance_id="1", messages={"content": said}) for said in ("bad", "broken")]
        assert [(status, reply["detail"]) for status, reply in say] == [
            (400, "bad action"),
            (500, "OSError: broken action"),
        ]
        assert post(url, "create", task_id="a", instance_id="2")[0] == 429
        assert post(url, "create", task_id="a", instance_id="1")[0] == 200  # anew
        assert post(url, "step", instance_id="3")[0] == 404
        assert post(url, "release", instance_id="3") == (200, {"success": False, "data": False})
        assert post(url, "create", instance_id="1")[0] == 400
        assert post(url, "step", instance_id="1", messages=[])[0] == 400
        assert httpx.post(f"{url}/step", content=b"{nonsense").status_code == 400
        assert httpx.get(f"{url}/step").status_code == 404
        page = {"origin": "http://elsewhere.example"}
        assert httpx.post(f"{url}/step", content=b"{}", headers=page).status_code == 403
        assert httpx.get(f"{url}/healthz").text == "OK"
    assert scripted.closed == ["a", "a"]  # the second when the service ended


async def test_instances_that_nobody_calls_are_dropped(scripted: type[Scripted]) -> None:
    now = [0.0]
    service = EnvironmentService([scripted], max_idle_s=100.0, clock=lambda: now[0])
    with serving(service) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            for number, task_id in enumerate("ab"):
                body = {"env_type": "Scripted", "task_id": task_id, "instance_id": task_id}
                await http.post("/create", json=body)
                now[0] = 60.0 * (number + 1)
        await service.drop_idle()
        assert list(service.instances) == ["b"]
        assert scripted.closed == ["a"]


def test_a_class_that_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainer_core.environments.service", "--env", f"{tmp_path}/no.py->Lake"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: --env: there is no file {tmp_path}/no.py\n")


# --- a training ---------------------------------------------------------------------------------------------


def test_ajet_trains_on_frozen_lake_of_a_service_that_it_starts(tmp_path: Path) -> None:
    url = free_address()
    service = f"{sys.executable} -u -m trainer_core.environments.service --port {url.rpartition(':')[2]}"
    rows = trained(
        tmp_path,
        companions=[{"command": service, "ready_pattern": url}],
        task_reader={"type": "env_service", "env_service": {"env_type": "frozen_lake", "env_url": url}},
        data={"max_prompt_length": 32, "max_response_length": 88, "train_batch_size": 4},
        rollout={"num_repeat": 4, "max_response_length_in_one_turn": 2, "multi_turn": {"max_steps": 4}},
        trainer_common={"total_training_steps": 2, "test_freq": 2, "num_threads": 1, "val_pass_n": 2},
    )
    (printed,) = (tmp_path / "runs").glob("*/companions/*.log")
    assert "[ended with exit status" in printed.read_text()
    steps = [row for row in rows if "actor/pg_loss" in row]
    assert len(steps) == 2
    for row in steps:
        assert (row["critic/failed_episodes"], row["rollout/retries"]) == (0, 0)
        assert row["rollout/calls/mean"] >= 1
        assert 0.0 <= row["critic/rewards/mean"] <= 1.0
