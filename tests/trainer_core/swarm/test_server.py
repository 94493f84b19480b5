"""The server, request by request, with a training that this file plays."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from trainer_core.gateway.exchange import Exchange
from trainer_core.records.payload import pack, unpack
from trainer_core.swarm import engine as engine_module
from trainer_core.swarm import ledger as rows
from trainer_core.swarm.ledger import Ledger, read_batch
from trainer_core.swarm.server import SwarmServer
from trainer_core.swarm.training import Launch
from trainer_core.types import Call, Episode, Task

CONFIG = """
ajet:
  experiment_name: swarm
  experiment_dir: {folder}/run
  model: {{path: tiny}}
  data: {{train_batch_size: {tasks}}}
  rollout: {{num_repeat: 2, max_env_worker: 4}}
  swarm_mode_late_episodes: {late}
"""


class PlayedTraining:
    """In the place of `Training`: does what the test says."""

    last: PlayedTraining

    def __init__(self, launched: Launch) -> None:
        self.launch = SimpleNamespace(**vars(launched), is_alive=True)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.is_dead, self.answers = False, True
        self._number, self._phase = 0, {"name": "booting", "step": 0, "saved": 0}
        self._changed = asyncio.Condition()
        PlayedTraining.last = self

    async def goes_on(self, name: str, step: int, saved: int = 0) -> None:
        async with self._changed:
            self._number += 1
            self._phase = {"name": name, "step": step, "saved": saved}
            self._changed.notify_all()

    async def dies(self) -> None:
        async with self._changed:
            self.is_dead = True
            self._changed.notify_all()

    async def phase(self, seen: int) -> dict[str, Any] | None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._number != seen or self.is_dead)
            return None if self.is_dead else {"number": self._number, **self._phase}

    async def ask(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        if not self.answers:
            raise httpx.ConnectError("no answer")
        self.asked.append((path, body))
        if path != "close":
            return httpx.Response(200, json={})
        output, task = body["output"], Task(body["task_id"], **body["task"])
        episode = Episode(task, 0, (Call((1,), (2,), (-0.5,)),), reward=output["reward"])
        return httpx.Response(200, content=pack([episode]), headers={"x-ajet-calls": "1"})

    @asynccontextmanager
    async def call(self, method: str, path: str, name: str, asked: Exchange) -> AsyncIterator[httpx.Response]:
        self.asked.append((path, {"name": name, "body": asked.raw}))
        yield httpx.Response(200, json={"path": path}, request=httpx.Request(method, "http://gate"))

    async def stop(self, grace_s: float) -> None:
        self.is_dead = True

    async def close(self) -> None:
        pass

    def exit_status(self) -> int:
        return 1

    def last_words(self) -> str:
        return "error: no memory left"


class Swarm:
    """A server and one who asks it."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        self.folder = folder
        self.ledger = Ledger(folder / "swarm.sqlite")
        self.server = SwarmServer(self.ledger, folder, secret=b"s" * 32, token=token)
        transport = httpx.ASGITransport(self.server)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://swarm:10086")

    async def post(self, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def status(self, **query: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get("/get_engine_status", params=query)).json()
        return found

    async def until(self, state: str) -> dict[str, Any]:
        found = await self.status()
        while found["engine_status"] != f"ENGINE.{state}":
            found = await self.status(wait_s=5, seen=found["number"])
        return found

    async def roll(self, step: int = 1, tasks: int = 2, late: str = "drain") -> PlayedTraining:
        config = CONFIG.format(folder=self.folder, tasks=tasks, late=late)
        await self.post("/sync_train_config", yaml_as_string=config)
        await self.post("/start_engine")
        await PlayedTraining.last.goes_on("collecting", step)
        await self.until("ROLLING")
        return PlayedTraining.last

    async def claim(self, client: str = "a", **more: Any) -> dict[str, Any]:
        return await self.post("/claim_episode", client_uuid=client, **more)

    async def call(self, claimed: dict[str, Any], status: int = 200) -> None:
        key = {"authorization": f"Bearer {claimed['openai_api_key']}"}
        url = f"{claimed['openai_base_url']}/chat/completions"
        answer = await self.http.post(url, json={"messages": []}, headers=key)
        assert answer.status_code == status, answer.text

    async def end(self, claimed: dict[str, Any], status: int = 200, **more: Any) -> dict[str, Any]:
        body = {"client_uuid": claimed["client_uuid"], "episode_uuid": claimed["episode_uuid"]}
        output = {"reward": more.pop("reward", 1.0), "metadata": {}}
        return await self.post(
            "/end_episode", status, **body | {"task_id": "t", "workflow_output": output} | more
        )

    async def play(self, task: str, reward: float = 1.0, **more: Any) -> dict[str, Any]:
        claimed = await self.claim(**more)
        await self.call(claimed)
        return await self.end(claimed, task_id=task, reward=reward)

    async def close(self) -> None:
        await self.server.engine.close()
        await self.http.aclose()
        self.ledger.close()


@pytest.fixture
async def swarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Swarm]:
    def launch(folder: Path, config: Path, console: Path, run: str) -> Launch:
        return Launch(4242, str(tmp_path / "place"), str(console), run)

    monkeypatch.setattr(engine_module, "launch", launch)
    monkeypatch.setattr(engine_module, "Training", PlayedTraining)
    made = Swarm(tmp_path)
    yield made
    await made.close()


async def test_a_batch_from_the_config_to_the_next_step(swarm: Swarm) -> None:
    training = await swarm.roll()
    assert (await swarm.status())["global_step"] == 0
    for task in "ABAB":
        answer = await swarm.play(task, reward=float(task == "A"))
        assert answer == {"success": True, "weight_version": 0, "recorded_calls": 1}
    await swarm.until("WEIGHT_SYNCING")
    path, body = training.asked[-1]
    assert (path, body["step"]) == ("batch", 1)
    handed = read_batch(Path(body["ledger"]), body["run"], 1).training
    episodes = [unpack(each)[0] for each in handed]
    assert [(each.task.task_id, each.reward) for each in episodes] == [
        ("A", 1.0), ("B", 0.0), ("A", 1.0), ("B", 0.0)
    ]  # fmt: skip
    await training.goes_on("save_checkpoint", 1)
    await swarm.until("WEIGHT_EXPORTING")
    await training.goes_on("collecting", 2, saved=1)
    status = await swarm.until("ROLLING")
    assert status["global_step"] == 1
    pool = (await swarm.http.get("/get_current_batch_rollout_pool_information")).json()
    assert pool["completed_episodes"] == 0 and pool["reward_curve"] == [[1, 0.5]]


async def test_claims_say_why_they_fail_in_words_that_clients_look_for(swarm: Swarm) -> None:
    assert "offline" in (await swarm.claim())["fail_cause"]
    training = await swarm.roll(tasks=1)
    claims = [await swarm.claim() for _ in range(4)]
    assert claims[0]["openai_base_url"] == "http://swarm:10086/v1"
    assert (await swarm.claim())["fail_cause"].startswith("No available episodes to claim.")
    for claimed in claims[:2]:
        await swarm.call(claimed)
        await swarm.end(claimed)
    assert (await swarm.until("ROLLING_POST")) and "post-rolling phase" in (await swarm.claim())["fail_cause"]
    await swarm.post("/abort_episode", client_uuid="a", episode_uuid=claims[2]["episode_uuid"])
    assert training.asked[-1][0] != "batch", "one episode still runs"
    await swarm.call(claims[3])
    await swarm.end(claims[3])
    await swarm.until("WEIGHT_SYNCING")
    assert "Engine is syncing weights" in (await swarm.claim())["fail_cause"]


async def test_a_waiting_client_gets_the_place_that_is_given_back(swarm: Swarm) -> None:
    await swarm.roll()
    held = [await swarm.claim() for _ in range(4)]
    waiting = [asyncio.create_task(swarm.claim(name, wait_s=30)) for name in "bc"]
    await asyncio.sleep(0)
    await swarm.post("/abort_episode", client_uuid="a", episode_uuid=held[0]["episode_uuid"])
    first = await waiting[0]
    assert (
        first["success"] and first["client_uuid"] == "b" and first["episode_uuid"] != held[0]["episode_uuid"]
    )
    await swarm.call(held[1])
    await swarm.end(held[1])
    assert (await waiting[1])["success"]
    assert not (await swarm.claim("d", wait_s=0.01))["success"]


async def test_who_has_his_share_holds_nobody_up(swarm: Swarm) -> None:
    await swarm.roll()
    policy = {"expected_batch_size": 1, "ratio": 1.0, "current_task_id": "1"}
    held = await swarm.claim("a", throttle_policy=policy)
    await swarm.call(held)
    await swarm.end(held, task_id="1")
    another = policy | {"current_task_id": "2"}
    waiting = asyncio.create_task(swarm.claim("a", wait_s=30, throttle_policy=another))
    await swarm.status(wait_s=0.05, seen=swarm.server.book.number)
    assert swarm.server.episodes._waiting
    assert (await swarm.claim("b"))["success"] and (await swarm.claim("c", wait_s=30))["success"]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not swarm.server.episodes._waiting, "who has gone is forgotten"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/../swarm/close"),
        ("POST", "/v1/../swarm/drop"),
        ("GET", "/v1/models/../../swarm/batch"),
        ("GET", "/v1/models/.."),
        ("POST", "/v1/chat/completions/../../../swarm/drop"),
    ],
)
async def test_nothing_but_the_models_own_paths_is_passed_on(swarm: Swarm, method: str, path: str) -> None:
    training = await swarm.roll()
    claimed = await swarm.claim()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {claimed['openai_api_key']}".encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    await swarm.server(scope, receive, send)
    assert sent[0]["status"] == 404 and training.asked == []


async def test_a_base_url_that_has_v1_twice_is_understood(swarm: Swarm) -> None:
    await swarm.roll()
    claimed = await swarm.claim()
    key = {"x-api-key": claimed["openai_api_key"]}
    answer = await swarm.http.post(f"{claimed['openai_base_url']}/v1/messages", json={}, headers=key)
    assert answer.json() == {"path": "/v1/messages"}
    assert (await swarm.end(claimed))["recorded_calls"] == 1


async def test_a_web_page_commands_nothing(swarm: Swarm) -> None:
    answer = await swarm.http.post("/stop_engine", json={}, headers={"origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (403, "from_a_page")


async def test_a_stop_ends_a_start_that_is_under_way(swarm: Swarm, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIG.format(folder=swarm.folder, tasks=1, late="drain")
    await swarm.post("/sync_train_config", yaml_as_string=config)
    goes_on, begun, real = threading.Event(), threading.Event(), engine_module.launch

    def slowly(*how: Any) -> Launch:
        begun.set()
        goes_on.wait(10)
        return real(*how)

    monkeypatch.setattr(engine_module, "launch", slowly)
    starting = asyncio.create_task(swarm.post("/start_engine", 409))
    await asyncio.to_thread(begun.wait, 10)
    await swarm.post("/stop_engine")
    goes_on.set()
    assert (await starting)["code"] == "stopped"
    assert PlayedTraining.last.is_dead and (await swarm.status())["engine_status"] == "ENGINE.OFFLINE"


async def test_a_batch_that_ends_its_training_twice_is_left_out(swarm: Swarm) -> None:
    for _ in range(2):
        training = await swarm.roll(tasks=1) if not swarm.server.engine.run else PlayedTraining.last
        if swarm.server.engine.training is None:
            await swarm.post("/start_engine")
            training = PlayedTraining.last
            await training.goes_on("collecting", 1)
        else:
            for _ in range(2):
                await swarm.play("A")
        while not any(path == "batch" for path, _ in training.asked):
            await swarm.status(wait_s=0.05, seen=swarm.server.book.number)
        await training.dies()
        status = await swarm.until("OFFLINE")
    assert "left out" in status["engine_status_detail"]
    await swarm.post("/start_engine")
    await PlayedTraining.last.goes_on("collecting", 1)
    assert (await swarm.until("ROLLING"))["global_step"] == 0


async def test_an_end_sent_again_is_acknowledged_again_and_kept_once(swarm: Swarm) -> None:
    await swarm.roll()
    claimed = await swarm.claim()
    await swarm.call(claimed)
    twice = await asyncio.gather(swarm.end(claimed), swarm.end(claimed))
    assert twice[0] == twice[1] == await swarm.end(claimed)
    assert (await swarm.end(claimed, 409, reward=0.0))["code"] == "ended_otherwise"
    assert swarm.server.book.finished == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"task_id": " "}, 400, "no_task_id"),
        ({"reward": None}, 400, "no_reward"),
        ({"reward": []}, 400, "no_reward"),
        ({"workflow_output": {"reward": 1.0, "metadata": {"task_id": "u"}}}, 400, "task_id_differs"),
        ({"reward": 1e16}, 400, "invalid_request"),
        ({"client_uuid": "b"}, 404, "not_yours"),
        ({"episode_uuid": "unknown"}, 400, "not_claimed"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_the_episode_goes_on(
    swarm: Swarm, body: dict[str, Any], status: int, code: str
) -> None:
    await swarm.roll()
    claimed = await swarm.claim()
    answer = await swarm.end(claimed, status, **body)
    assert (answer["success"], answer["code"]) == (False, code)
    assert (await swarm.post("/can_continue_episode", client_uuid="a", episode_uuid=claimed["episode_uuid"]))[
        "can_continue"
    ]


async def test_rewards_that_are_no_numbers_are_refused(swarm: Swarm) -> None:
    await swarm.roll()
    claimed = await swarm.claim()
    raw = json.dumps({
        "client_uuid": "a", "episode_uuid": claimed["episode_uuid"], "task_id": "t",
        "workflow_output": {"reward": float("nan")},
    })  # fmt: skip
    answer = await swarm.http.post("/end_episode", content=raw)
    assert answer.status_code == 400 and "not JSON" in answer.json()["error"]
    assert (await swarm.end(claimed, reward=[0.0, 1.0]))["success"], "several rewards count as their mean"


async def test_an_idle_client_loses_its_episode_and_cannot_come_back(swarm: Swarm) -> None:
    training = await swarm.roll()
    late = await swarm.claim(discard_episode_timeout=0.01)
    await swarm.call(late)
    await asyncio.sleep(0.02)
    swarm.server.book.expired()
    assert (await swarm.end(late, 400))["code"] == "not_claimed"
    await swarm.call(late, 401)
    assert training.asked[-1] == ("drop", {"name": f"train/{late['episode_uuid']}"})
    pool = (await swarm.http.get("/get_current_batch_rollout_pool_information")).json()
    assert pool["episode_counts"] == {"idle": 1} and pool["completed_episodes"] == 0


async def test_two_who_start_it_get_one_engine(swarm: Swarm) -> None:
    config = CONFIG.format(folder=swarm.folder, tasks=1, late="drain")
    assert (await swarm.post("/start_engine", 400))["code"] == "no_config"
    assert (await swarm.post("/sync_train_config", yaml_as_string=config))["changed"]
    assert not (await swarm.post("/sync_train_config", yaml_as_string=config))["changed"]
    told = await asyncio.gather(swarm.post("/start_engine"), swarm.post("/start_engine"))
    assert sorted(each["started"] for each in told) == [False, True]
    refused = await swarm.post("/sync_train_config", 400, yaml_as_string=config)
    assert refused["code"] == "not_offline" and "stop_engine" in refused["error"]
    await swarm.post("/stop_engine")
    wrong = await swarm.post("/sync_train_config", 400, yaml_as_string="ajet: {data: {batch: 3}}")
    assert wrong["code"] == "bad_config" and "ajet.data.batch" in wrong["error"]


async def test_a_training_that_dies_is_told_with_its_last_words(swarm: Swarm) -> None:
    training = await swarm.roll()
    claimed = await swarm.claim()
    await training.dies()
    status = await swarm.until("OFFLINE")
    assert "error: no memory left" in status["engine_status_detail"]
    assert "console.log" in status["engine_status_detail"]
    assert (await swarm.end(claimed, 400))["code"] == "not_claimed"
    assert (await swarm.post("/start_engine"))["started"], "and it can be started again"


async def test_a_training_that_does_not_answer_costs_no_reward(swarm: Swarm) -> None:
    training = await swarm.roll()
    claimed = await swarm.claim()
    await swarm.call(claimed)
    training.answers = False
    assert (await swarm.end(claimed, 503))["code"] == "no_training"
    training.answers = True
    assert (await swarm.end(claimed))["success"]


async def test_a_full_disk_refuses_the_end_which_may_be_sent_again(
    swarm: Swarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    await swarm.roll()
    claimed = await swarm.claim()
    await swarm.call(claimed)
    with monkeypatch.context() as full:
        full.setattr(rows, "add", lambda episode: lambda database: database.execute("INSERT INTO full"))
        assert (await swarm.end(claimed, 507))["code"] == "not_durable"
    assert (await swarm.end(claimed))["recorded_calls"] == 1
    assert swarm.server.book.finished == 1


@pytest.mark.parametrize("late", ["keep", "refuse"])
async def test_an_episode_that_runs_when_the_batch_is_complete(swarm: Swarm, late: str) -> None:
    training = await swarm.roll(tasks=1, late=late)
    slow = await swarm.claim()
    await swarm.call(slow)
    for _ in range(2):
        await swarm.play("A")
    await swarm.until("WEIGHT_SYNCING")
    if late == "refuse":
        assert (await swarm.end(slow, 400))["code"] == "not_claimed"
    else:
        assert (await swarm.end(slow, task_id="B"))["success"]
    await training.goes_on("collecting", 2)
    await swarm.until("ROLLING")
    assert list(swarm.server.book.tasks) == (["B"] if late == "keep" else [])


async def test_eval_episodes_carry_their_weights_and_train_nothing(swarm: Swarm) -> None:
    training = await swarm.roll(step=8)
    answer = await swarm.play("A", episode_type="eval")
    assert answer == {"success": True, "weight_version": 7, "recorded_calls": 1}
    assert training.asked[-1][1]["name"].startswith("eval/")
    assert swarm.server.book.finished == 0 and swarm.server.book.counts["eval"] == 1


async def test_a_server_that_is_started_again_finds_the_training_and_what_was_finished(
    swarm: Swarm, tmp_path: Path
) -> None:
    await swarm.roll(step=3)
    await swarm.play("A")
    running = await swarm.claim()
    swarm.ledger._lock.close()  # as when it was killed
    again = Swarm(tmp_path)
    await again.server.engine.reopen()
    await PlayedTraining.last.goes_on("collecting", 3)
    await again.until("ROLLING")
    assert again.server.book.finished == 1
    assert (await again.end(running, 400))["code"] == "not_claimed"
    await again.call(running, 401)
    for task in "ABB":
        await again.play(task)
    await again.until("WEIGHT_SYNCING")
    again.ledger._lock.close()
    third = Swarm(tmp_path)
    await third.server.engine.reopen()
    await PlayedTraining.last.goes_on("collecting", 3)
    while not PlayedTraining.last.asked:
        await third.status(wait_s=0.01, seen=third.server.book.number)
    path, body = PlayedTraining.last.asked[-1]
    assert (path, body["step"]) == ("batch", 3), "it had not been handed over, or was lost"
    await again.close()
    await third.close()


async def test_an_episode_without_calls_is_taken_with_a_warning(swarm: Swarm) -> None:
    await swarm.roll()
    answer = await swarm.end(await swarm.claim())
    assert answer["success"] and "nothing to train on" in answer["warning"]
    assert swarm.server.book.finished == 0


async def test_commands_want_the_token_and_calls_their_key(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path, token="secret")
    assert (await swarm.post("/claim_episode", 401, client_uuid="a"))["code"] == "wrong_token"
    assert (await swarm.http.get("/health")).status_code == 200
    right = {"authorization": "Bearer secret"}
    assert (await swarm.http.get("/get_engine_status", headers=right)).status_code == 200
    call = await swarm.http.post("/v1/chat/completions", json={}, headers=right)
    assert call.status_code == 401 and "not issued" in call.text
    assert (await swarm.http.get("/v1/models")).status_code == 503
    await swarm.close()


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/claim_episode", {}, "client_uuid: Field required"),
        ("/claim_episode", {"client_uuid": "a", "episode_type": "test"}, "episode_type"),
        ("/claim_episode", {"client_uuid": "a", "discard_episode_timeout": -1}, "discard_episode_timeout"),
        ("/nowhere", {}, "there is no POST /nowhere"),
    ],
)
async def test_bad_requests_are_told_by_field(
    swarm: Swarm, path: str, body: dict[str, Any], told: str
) -> None:
    answer = await swarm.http.post(path, json=body)
    assert answer.status_code in (400, 404) and told in answer.json()["error"]


async def test_the_buffer_and_the_pool_have_the_fields_of_the_protocol(swarm: Swarm) -> None:
    await swarm.roll()
    claimed = await swarm.claim()
    (episode,) = (await swarm.post("/get_episode_buffer"))["buffer"]
    assert episode.keys() == {
        "episode_uuid", "episode_status", "episode_type", "openai_base_url", "openai_api_key", "client_uuid",
        "zmq_listen_result_addr", "latest_activity_timestamp", "discard_episode_timeout", "llm_call_count",
        "debug_log", "optional_task_id",
    }  # fmt: skip
    pool = (await swarm.http.get("/get_current_batch_rollout_pool_information")).json()
    assert pool.keys() >= {
        "sample_collection_method", "completed_episodes", "completed_episode_target", "completed_tasks",
        "completed_task_target", "completed_non_dummy_tasks", "completed_non_dummy_task_target",
        "task_expected_num_repeat", "completed_tasks_details", "completed_tasks_client_uuids",
        "running_episode_details", "engine_status", "global_step", "booting_start_time",
    }  # fmt: skip
    assert pool["running_episode_details"][claimed["episode_uuid"]].keys() >= {
        "episode_status", "time_since_last_activity", "discard_episode_timeout", "llm_call_count",
        "client_uuid", "optional_task_id",
    }  # fmt: skip
