"""The server, request by request, with a training that the test leads."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.swarm.conftest import CONFIG, LedTraining, Swarm
from trainer_core.swarm import engine as engine_module
from trainer_core.swarm import ledger as rows
from trainer_core.swarm.ledger import read_batch
from trainer_core.swarm.training import Launch


@pytest.fixture
async def swarm(tmp_path: Path, trainings: list[LedTraining]) -> AsyncIterator[Swarm]:
    made = Swarm(tmp_path, trainings)
    yield made
    await made.close()


async def test_a_batch_from_the_config_to_the_next_step(swarm: Swarm) -> None:
    training = await swarm.roll()
    assert (await swarm.status())["global_step"] == 0
    for task in "ABAB":
        answer = await swarm.play(task, reward=float(task == "A"))
        assert answer == {"success": True, "weight_version": 0, "recorded_calls": 1}
    await swarm.until("WEIGHT_SYNCING")
    body = await training.was_asked("/swarm/batch")
    assert body["step"] == 1
    handed = map(json.loads, read_batch(Path(body["ledger"]), body["run"], 1).training)
    ends = [(each["task_id"], each["output"]["reward"]) for each in handed]
    assert ends == [("A", 1.0), ("B", 0.0), ("A", 1.0), ("B", 0.0)]
    await training.goes_on("save_checkpoint", 1)
    await swarm.until("WEIGHT_EXPORTING")
    await training.goes_on("collecting", 2, saved=1)
    status = await swarm.until("ROLLING")
    assert status["global_step"] == 1
    pool = await swarm.pool()
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
    assert training.asked[-1][0] != "/swarm/batch", "one episode still runs"
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
    training = await swarm.roll()
    claimed = await swarm.claim()
    key = {"x-api-key": claimed["openai_api_key"]}
    await swarm.http.post(f"{claimed['openai_base_url']}/v1/messages", json={}, headers=key)
    assert training.asked[-1][0] == "/v1/messages"
    assert (await swarm.end(claimed))["recorded_calls"] == 1


async def test_a_web_page_commands_nothing(swarm: Swarm) -> None:
    answer = await swarm.http.post("/stop_engine", json={}, headers={"origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (403, "from_a_page")


async def test_a_stop_ends_a_start_that_is_under_way(swarm: Swarm, monkeypatch: pytest.MonkeyPatch) -> None:
    await swarm.configure(tasks=1)
    goes_on, begun, real = threading.Event(), threading.Event(), engine_module.launch
    launched: list[Launch] = []

    def slowly(*how: Any) -> Launch:
        begun.set()
        goes_on.wait(10)
        launched.append(real(*how))
        return launched[-1]

    monkeypatch.setattr(engine_module, "launch", slowly)
    starting = asyncio.create_task(swarm.post("/start_engine", 409))
    await asyncio.to_thread(begun.wait, 10)
    await swarm.post("/stop_engine")
    goes_on.set()
    assert (await starting)["code"] == "stopped"
    assert not swarm.trainings[-1].is_alive and (await swarm.status())["engine_status"] == "ENGINE.OFFLINE"
    assert not await asyncio.to_thread(Path(launched[0].place).exists)


async def test_a_batch_that_ends_its_training_twice_is_left_out(swarm: Swarm) -> None:
    training = await swarm.roll(tasks=1)
    for _ in range(2):
        await swarm.play("A")
    for number in range(2):
        if number:
            await swarm.post("/start_engine")
            training = swarm.trainings[-1]
            await training.goes_on("collecting", 1)
        await training.was_asked("/swarm/batch")
        training.dies()
        status = await swarm.until("OFFLINE")
    assert "left out" in status["engine_status_detail"]
    await swarm.post("/start_engine")
    await swarm.trainings[-1].goes_on("collecting", 1)
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
    assert (await training.was_asked("/swarm/drop"))["name"] == f"train/{late['episode_uuid']}"
    pool = await swarm.pool()
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
    training.dies()
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
    swarm: Swarm,
) -> None:
    training = await swarm.roll(step=3)
    await swarm.play("A")
    running = await swarm.claim()
    again = await swarm.again()
    await again.until("ROLLING")
    assert again.server.book.finished == 1
    assert (await again.end(running, 400))["code"] == "not_claimed"
    await again.call(running, 401)
    for task in "ABB":
        await again.play(task)
    await again.until("WEIGHT_SYNCING")
    await training.was_asked("/swarm/batch")
    training.asked.clear()
    third = await again.again()
    body = await training.was_asked("/swarm/batch")
    assert body["step"] == 3, "it had not been handed over, or was lost"
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
    pool = await swarm.pool()
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
