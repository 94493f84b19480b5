import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from tests.trainer_core.processes import eventually
from tests.trainer_core.swarm.conftest import AGENTS, RunningSwarm, chat
from trainer_core.swarm import async_client, connection, engine_client
from trainer_core.swarm.async_client import AsyncSwarmClient
from trainer_core.swarm.async_client import several as async_several
from trainer_core.swarm.client import SwarmClient, several
from trainer_core.swarm.errors import (
    EpisodeLostError,
    SwarmConfigError,
    SwarmError,
    SwarmRefusedError,
    SwarmServerOfflineError,
)
from trainer_core.swarm.job import AgentJetJob
from trainer_core.types import Task
from trainer_core.workflow import WorkflowOutput


def play(client: SwarmClient, task: str, reward: float = 1.0, **claim: Any) -> dict[str, Any]:
    with client.episode(Task(task, "q"), **claim) as episode:
        chat(episode.base_url, episode.api_key)
        episode.finish(reward=reward)
    return episode.answer


def claimed(client: SwarmClient) -> list[str]:
    return [each["episode_uuid"] for each in client.get_episode_buffer()]


def test_episodes_of_enough_tasks_make_a_step(client: SwarmClient) -> None:
    assert client.get_global_step() == 0
    answers = [play(client, task, reward) for task in ("a", "b") for reward in (0.0, 1.0)]
    assert [answer["recorded_calls"] for answer in answers] == [1, 1, 1, 1]
    assert client.wait_for_step(1) == 1
    assert play(client, "a")["weight_version"] == 1


def test_the_published_style_works(client: SwarmClient) -> None:
    task = Task(
        main_query="q", task_id="t", metadata={"row": np.int64(3), "odd": float("nan"), "at": Path("x")}
    )
    name, endpoint = client.begin_episode(discard_episode_timeout=60)
    assert endpoint.episode_uuid == name and endpoint.base_url == f"{client.server_url}/v1"
    assert chat(endpoint.base_url, endpoint.api_key) == "answer"
    assert client.can_continue_episode(name)
    output = WorkflowOutput(reward=np.float32(0.5), metadata={"k": np.ones(2)}, log_metrics={"m": 1})
    assert client.end_episode(task, name, output)["success"]
    assert not client.can_continue_episode(name)
    stat = client.get_rollout_stat()
    assert stat["completed_episodes"] == 1 and stat["completed_tasks_rewards"] == {"t": [0.5]}


def test_a_lost_answer_can_be_asked_for_again(client: SwarmClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has written the end down; its answer never comes."""
    real, lost = httpx.Client.request, []

    def request(self: httpx.Client, method: str, url: str, **sent: Any) -> httpx.Response:
        answer = real(self, method, url, **sent)
        if url == "/end_episode" and not lost:
            lost.append(answer)
            raise httpx.ReadError("the connection broke")
        return answer

    monkeypatch.setattr(httpx.Client, "request", request)
    assert play(client, "a") == lost[0].json()
    assert client.get_rollout_stat()["completed_episodes"] == 1


@pytest.mark.parametrize("how", ["raises", "is not finished"])
def test_an_episode_that_is_not_finished_is_given_back(client: SwarmClient, how: str) -> None:
    try:
        with client.episode(Task("a", "q")) as episode:
            assert claimed(client) == [episode.uuid]
            episode.output = WorkflowOutput(1.0) if how == "raises" else None
            assert how != "raises"
    except AssertionError:
        assert how == "raises"
    assert claimed(client) == [] and client.get_rollout_stat()["completed_episodes"] == 0


def test_a_lost_episode_is_an_error_and_its_reward_not_used(client: SwarmClient) -> None:
    name, _ = client.begin_episode()
    with pytest.raises(EpisodeLostError) as caught:
        SwarmClient(client.server_url, verbose=False).end_episode("a", name, WorkflowOutput(1.0))
    assert caught.value.code == "not_yours"

    def loses_it() -> None:
        with client.episode(Task("a", "q")) as episode:
            episode.finish(1.0)
            client.abort_episode(episode.uuid)

    with pytest.raises(EpisodeLostError) as caught:
        loses_it()
    assert caught.value.code == "not_claimed"


def test_an_episode_older_than_two_timeouts_is_aborted(
    client: SwarmClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = SwarmClient(client.server_url)
    name, _ = loud.begin_episode(discard_episode_timeout=100)

    def is_late() -> None:
        with loud.episode("b", discard_episode_timeout=100) as episode:
            episode.finish(1.0)
            late = SimpleNamespace(monotonic=lambda: time.monotonic() + 201)
            monkeypatch.setattr(async_client, "time", late)

    with pytest.raises(EpisodeLostError) as caught:
        is_late()
    assert caught.value.code == "too_late"
    assert not loud.can_continue_episode(name)
    assert not loud.end_episode(Task("a", "q"), name, WorkflowOutput(1.0))["success"]
    assert f"episode {name} is older than 2 x discard_episode_timeout" in capsys.readouterr().out
    assert claimed(client) == [] and client.get_rollout_stat()["completed_episodes"] == 0


@pytest.mark.parametrize(
    ("task", "reward", "code"),
    [
        (Task("", "q"), 1.0, "no_task_id"),
        ("a", None, "no_reward"),
        ("a", float("nan"), "invalid_reward"),
        ("a", "good", "invalid_reward"),
    ],
)
def test_a_report_that_cannot_be_used_is_refused(
    client: SwarmClient, task: Any, reward: Any, code: str
) -> None:
    name, _ = client.begin_episode()
    with pytest.raises(SwarmRefusedError) as caught:
        client.end_episode(task, name, WorkflowOutput(reward))
    assert caught.value.code == code
    assert client.end_episode("a", name, WorkflowOutput(1.0))["success"]


def test_a_claim_waits_in_the_server_and_ends_with_the_engine(
    swarm: RunningSwarm, client: SwarmClient
) -> None:
    def waits() -> bool:
        return bool(swarm.call(lambda server: len(server.episodes._waiting)))

    names = [client.begin_episode()[0] for _ in range(8)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.begin_episode)
        eventually(waits)
        client.abort_episode(names[0])
        assert waiting.result(5)[0] not in names
        waiting = pool.submit(client.begin_episode)
        eventually(waits)
        client.stop_engine()
        with pytest.raises(SwarmServerOfflineError, match="stopped by a client"):
            waiting.result(5)
    with pytest.raises(SwarmServerOfflineError):
        client.begin_episode()


def test_a_server_that_is_started_again_is_waited_for(
    swarm: RunningSwarm, client: SwarmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its training goes on meanwhile, and what was finished is not forgotten."""
    play(client, "a")
    held, _ = client.begin_episode()
    swarm.stop(kill=True)
    refused = threading.Event()
    monkeypatch.setattr(connection, "_pause", lambda attempt, after: refused.set() or 0.05)
    with ThreadPoolExecutor(1) as pool:
        claiming = pool.submit(client.begin_episode)
        assert refused.wait(10)
        swarm.start()
        name, _ = claiming.result(10)
    assert client.get_rollout_stat()["completed_episodes"] == 1
    assert client.end_episode("a", name, WorkflowOutput(1.0))["success"]
    with pytest.raises(EpisodeLostError):
        client.end_episode("a", held, WorkflowOutput(1.0))


def test_no_server_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        client = SwarmClient(f"http://127.0.0.1:{taken.getsockname()[1]}", verbose=False)
        pauses: list[float] = []
        clock = [0.0]

        def sleep(pause: float) -> None:
            pauses.append(pause)
            clock[0] += pause

        monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
        assert client.get_engine_status() == ("ENGINE.CANNOT_CONNECT", {})
        assert 2 < clock[0] < 5
        del pauses[:]
        with pytest.raises(SwarmServerOfflineError) as caught:
            client.get_global_step()
        assert caught.value.code == "cannot_connect" and 50 < sum(pauses) < 60
        assert max(pauses) < 10 and pauses[0] < pauses[4]


def test_a_busy_server_says_when_to_ask_again(client: SwarmClient, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = [
        httpx.Response(429, headers={"retry-after": "3"}),
        httpx.Response(507),
        httpx.Response(200, json={"x": 1}),
    ]
    paused: list[float] = []
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: busy.pop(0))
    monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=paused.append, monotonic=time.monotonic))
    assert client.get_rollout_stat() == {"x": 1}
    assert 3 <= paused[0] <= 3.3 and paused[1] <= 0.6


def test_configs_are_refused_by_name(swarm: RunningSwarm, job: AgentJetJob) -> None:
    client = SwarmClient(swarm.url, verbose=False)
    with pytest.raises(SwarmConfigError, match="no config") as caught:
        client.start_engine()
    assert caught.value.code == "no_config"
    with pytest.raises(SwarmConfigError, match=r"ajet\.model\.path"):
        client.sync_train_config(AgentJetJob())
    assert client.server_experiment_dir() == ""
    with pytest.raises(ValueError, match="which job"):
        client.sync_train_config()
    assert SwarmClient(swarm.url, False, job).sync_train_config()["changed"]
    assert client.server_experiment_dir() == job.experiment_dir


def test_a_training_that_dies_ends_the_wait_for_it(swarm: RunningSwarm, client: SwarmClient) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait_for_step, 9)
        pid = client.get_engine_status()[1]["pid"]
        assert pid
        swarm.call(lambda server: os.kill(server.engine.training.launch.pid, 9))
        with pytest.raises(SwarmServerOfflineError, match="the training has died"):
            waiting.result(10)


def test_a_training_that_runs_keeps_its_config_unless_it_is_forced(
    client: SwarmClient, job: AgentJetJob, tmp_path: Path
) -> None:
    play(client, "a")
    other = AgentJetJob(model="tiny", batch_size=1, experiment_dir=str(tmp_path / "other"), num_repeat=1)
    client.auto_sync_train_config_and_start_engine(other)
    assert client.server_experiment_dir() == job.experiment_dir
    with pytest.raises(SwarmRefusedError) as caught:
        client.sync_train_config(other)
    assert caught.value.code == "not_offline"
    client.auto_sync_train_config_and_start_engine(other, force_restart=True)
    assert client.server_experiment_dir() == other.experiment_dir
    play(client, "a")
    assert client.wait_for_step(1) == 1


def test_eval_episodes_feed_nothing_and_throttled_ones_wait(client: SwarmClient) -> None:
    play(client, "a", episode_type="eval")
    assert client.get_rollout_stat()["completed_episodes"] == 0
    policy = {"ratio": 1.0, "expected_batch_size": 1, "current_task_id": "a"}
    play(client, "a", throttle_policy=policy)
    body = {"client_uuid": client.client_uuid, "throttle_policy": policy | {"current_task_id": "b"}}
    answer = AGENTS.post(f"{client.server_url}/claim_episode", json=body).json()
    assert "its share is 1" in answer["fail_cause"]
    with pytest.raises(SwarmRefusedError) as caught:
        client.begin_episode(throttle_policy={"ratio": 1.0})
    assert caught.value.code == "invalid_request"


def test_clients_that_agree_make_a_step(swarm: RunningSwarm, job: AgentJetJob) -> None:
    job.config.ajet.swarm_mode_sample_collection_method = "rollout_until_any_client_agree_sync_weight"
    client = SwarmClient(swarm.url, verbose=False)
    client.auto_sync_train_config_and_start_engine(job)
    play(client, "a")
    client.agree_sync_weight()
    assert client.wait_for_step(1) == 1


def test_a_token_is_wanted(tmp_path: Path, fake_training: None, monkeypatch: pytest.MonkeyPatch) -> None:
    running = RunningSwarm(tmp_path / "server", token="secret")
    try:
        monkeypatch.delenv("AJET_SWARM_TOKEN", raising=False)
        with pytest.raises(SwarmRefusedError) as caught:
            SwarmClient(running.url).get_global_step()
        assert caught.value.code == "wrong_token"
        assert SwarmClient(running.url, token="secret").get_global_step() == 0
        monkeypatch.setenv("AJET_SWARM_TOKEN", "secret")
        assert SwarmClient(running.url).get_global_step() == 0
    finally:
        running.stop()


def test_a_callback_is_called_once_for_each_batch(client: SwarmClient) -> None:
    called: list[int] = []
    awaited: list[int] = []

    def fails() -> None:
        called.append(client.get_global_step())
        raise ZeroDivisionError

    async def is_awaited() -> None:
        await asyncio.sleep(0)
        awaited.append(client.get_global_step())

    client.add_entering_weight_sync_callback(fails)
    client.add_entering_weight_sync_callback(is_awaited)
    for step in (1, 2):
        for task in ("a", "b"):
            play(client, task, 0.0), play(client, task, 1.0)
        client.wait_for_step(step)
    eventually(lambda: len(called) == len(awaited) == 2)


async def test_a_callback_is_awaited_and_outlives_what_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter((0, None, 1))

    def answer(request: httpx.Request) -> httpx.Response:
        step = next(steps)
        told = {"engine_status": "ENGINE.ROLLING", "global_step": step, "number": step}
        return httpx.Response(504) if step is None else httpx.Response(200, json=told)

    monkeypatch.setattr(engine_client, "_AGAIN_S", 0.0)
    client = AsyncSwarmClient("http://swarm", verbose=False, transport=httpx.MockTransport(answer))
    await client.call_at_weight_sync(client.close)
    assert list(steps) == []


def test_who_starts_nothing_waits_until_the_engine_rolls(swarm: RunningSwarm, job: AgentJetJob) -> None:
    driver, follower = (SwarmClient(swarm.url, verbose=False) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(follower.wait_for_status)
        eventually(lambda: len(swarm.server._seen) == 1)
        driver.auto_sync_train_config_and_start_engine(job)
        waiting.result(20)
        ended = pool.submit(follower.wait_for_status, "ENGINE.WEIGHT_SYNCING")
        eventually(lambda: len(swarm.server._seen) == 1)
        driver.stop_engine()
        with pytest.raises(SwarmServerOfflineError):
            ended.result(20)


def test_code_is_not_taken(swarm: RunningSwarm) -> None:
    client = SwarmClient(swarm.url, verbose=False)
    for send in (client.sync_train_code, client.sync_train_code_from_dir):
        with pytest.raises(SwarmRefusedError, match="install the version") as caught:
            send("ajet.zip", force_restart=True)
        assert caught.value.code == "no_code"
    answer = AGENTS.post(f"{swarm.url}/sync_train_code", content=b"PK")
    assert answer.status_code == 400 and answer.json()["code"] == "no_code"


def test_a_client_that_is_not_active_need_not_agree(swarm: RunningSwarm, job: AgentJetJob) -> None:
    job.config.ajet.swarm_mode_sample_collection_method = "rollout_until_all_clients_agree_sync_weight"
    client, silent = (SwarmClient(swarm.url, verbose=False) for _ in range(2))
    client.auto_sync_train_config_and_start_engine(job)
    name, endpoint = silent.begin_episode()
    chat(endpoint.base_url, endpoint.api_key)
    silent.end_episode("a", name, WorkflowOutput(1.0), declare_client_active=False)
    silent.begin_episode(episode_type="eval")
    play(client, "b")
    client.agree_sync_weight()
    silent.abort_episode(silent.get_episode_buffer()[0]["episode_uuid"])
    assert client.wait_for_step(1) == 1


def test_answers_have_the_types_of_agentjets_own_client(client: SwarmClient) -> None:
    name, endpoint = client.begin_episode()
    chat(endpoint.base_url, endpoint.api_key)
    (episode,) = client.get_episode_buffer()
    assert episode["optional_task_id"] == ""
    running = client.get_rollout_stat()["running_episode_details"][name]
    assert all(isinstance(value, str) for value in running.values())
    assert (running["llm_call_count"], running["discard_episode_timeout"]) == ("1", "240.0s")
    known = AGENTS.post(f"{client.server_url}/is_episode_claimed", json={"episode_uuid": name}).json()
    assert known["success"]
    output = WorkflowOutput(1.0, log_metrics={"turns": [1.0, 2.0]})  # type: ignore[dict-item]
    assert client.end_episode("a", name, output)["recorded_calls"] == 1


async def test_one_async_rollout_over_several_servers(client: SwarmClient) -> None:
    clients = [AsyncSwarmClient(client.server_url, verbose=False) for _ in range(2)]
    async with async_several(clients, Task("a", "q")) as (first, second):
        for episode in (first, second):
            await asyncio.to_thread(chat, episode.base_url, episode.api_key)
            episode.finish(1.0)
    async with async_several(clients, Task("a", "q")) as (first, _):
        first.finish(1.0)
    assert claimed(client) == [] and client.get_rollout_stat()["completed_episodes"] == 2
    for each in clients:
        await each.close()


async def test_the_async_twin_does_the_same(swarm: RunningSwarm, job: AgentJetJob) -> None:
    await with_one(AsyncSwarmClient(swarm.url, verbose=False), job)


async def with_one(client: AsyncSwarmClient, job: AgentJetJob) -> None:
    await client.auto_sync_train_config_and_start_engine(job)

    async def one(task: str, reward: float) -> None:
        async with client.episode(Task(task, "q")) as episode:
            await asyncio.to_thread(chat, episode.base_url, episode.api_key)
            episode.finish(reward)

    await asyncio.gather(*(one(task, reward) for task in "ab" for reward in (0.0, 1.0)))
    assert await client.wait_for_step(1) == 1
    with pytest.raises(ZeroDivisionError):
        async with client.episode(Task("a", "q")) as episode:
            episode.finish(1 / 0)
    assert await client.get_episode_buffer() == []
    waiting = asyncio.create_task(client.wait_for_step(2))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await client.close()


def test_one_rollout_over_several_servers(tmp_path: Path, fake_training: None, client: SwarmClient) -> None:
    second = RunningSwarm(tmp_path / "second")
    try:
        other = SwarmClient(second.url, verbose=False)
        with pytest.raises(SwarmServerOfflineError), several([client, other], Task("a", "q")):
            raise AssertionError("there is no training on the second")
        assert claimed(client) == []
        small = AgentJetJob(model="tiny", experiment_dir=str(tmp_path / "second_run"))
        SwarmClient.async_and_start_multi_engine([(client, small), (other, small)])
        with several([client, other], Task("a", "q")) as episodes:
            for episode in episodes:
                chat(episode.base_url, episode.api_key)
                episode.finish(1.0)
        with several([client, other], Task("a", "q")) as (first, _):
            first.finish(1.0)
        for each in (client, other):
            assert claimed(each) == [] and each.get_rollout_stat()["completed_episodes"] == 1
    finally:
        second.stop()


def test_threads_share_a_client(client: SwarmClient, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: play(client, f"task-{number % 4}"), range(32)))
    assert client.get_global_step() >= 2
    client.print_rollout_stat()
    assert "0 running" in capsys.readouterr().out


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="such as http://localhost:10086"):
        SwarmClient("localhost:10086")
    with pytest.raises(ValueError, match=r"not on gpu\.example"):
        SwarmClient("http://gpu.example:10086", auto_start_swarm_server=True)


def test_what_is_no_swarm_server_is_called_so(client: SwarmClient) -> None:
    elsewhere = SwarmClient(f"{client.server_url}/v1", verbose=False)
    with pytest.raises(SwarmError):
        elsewhere.get_global_step()


def test_importing_a_client_imports_no_model() -> None:
    code = "import sys, ajet.tuner_lib.experimental.swarm_client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "transformers", "datasets", "pydantic", "numpy"} & set(loaded.split())
