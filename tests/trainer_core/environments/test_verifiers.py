"""Environments of verifiers, of both generations, in verifiers itself."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.environments.stage import interpreter, played, trained
from tests.trainer_core.environments.test_openenv import real_server
from tests.trainer_core.gateway.fake import FakeEngine, says
from tests.trainer_core.gateway.families import family
from tests.trainer_core.processes import eventually
from trainer_core.config.tasks import VerifiersEnvironment
from trainer_core.environments.verifiers import VerifiersEnvironments
from trainer_core.gateway import EpisodeRules, Gateway
from trainer_core.types import DataError, Episode, Sampling, StopReason, Task, TrainingError

ROOT = Path(__file__).parents[3]
WORKFLOW = "trainer_core.environments.verifiers->PlayVerifiers"

HEAD = """
import asyncio
import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.runtimes import ProgramResult

class Data(vf.TaskData):
    answer: str

class Same(vf.Task[Data]):
    @vf.reward
    async def same(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

async def ask(endpoint, secret, model, text, **more):
    async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
        messages = [{"role": "user", "content": text}]
        return await client.chat.completions.create(model=model, messages=messages, **more)

class Once(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = NEEDS_CONTAINER = False
    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        await ask(endpoint, secret, ctx.model, data.prompt)
        return ProgramResult(0, "", "")
"""
ENDLESS = """
class Tasks(vf.Taskset[Same, vf.TasksetConfig]):
    INFINITE = True
    def load(self):
        number = 0
        while True:
            yield Same(Data(prompt=f"say {number}", answer=str(number), id=f"say-{number}"), self.config.task)
            number += 1

__all__ = ["Tasks", "Once"]
"""
FEW = {"package": "endless", "num_training_tasks": 2, "num_validation_tasks": 1}
TWO_AGENTS = """
class Tasks(vf.Taskset[Same, vf.TasksetConfig]):
    def load(self):
        for word in ("a", "b", "c", "d"):
            yield Same(Data(prompt="say " + word, answer=word), self.config.task)

class Config(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    critic: vf.AgentConfig = vf.AgentConfig()

class Both(vf.Env[Config]):
    async def setup(self, agents):
        agents.critic.trainable = False
    async def run(self, task, agents):
        await agents.player.run(task)
        await agents.critic.run(task.with_data(prompt="rate it"))

__all__ = ["Tasks", "Once", "Both"]
"""
FAILS = """
class Slow(Same):
    @vf.metric
    async def length(self, trace) -> float:
        if self.data.answer == "wait":
            open("waiting", "w").close()
            try:
                await asyncio.sleep(60)
            finally:
                open("cancelled", "w").close()
        if self.data.answer == "raise":
            raise RuntimeError("the scorer is broken")
        return len(trace.last_reply)

class Tasks(vf.Taskset[Slow, vf.TasksetConfig]):
    def load(self):
        for word in ("a", "raise", "wait"):
            yield Slow(Data(prompt=word, answer=word), self.config.task)

class Often(Once):
    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        for _ in range(9 if data.answer == "a" else 1):
            await ask(endpoint, secret, ctx.model, data.prompt)
        return ProgramResult(0, "", "")

__all__ = ["Tasks", "Often"]
"""
V0 = """
import verifiers as vf
from datasets import Dataset

def load_environment(rows: int = 5, own_eval: bool = False, groups: bool = False):
    def made(start, count):
        numbers = range(start, start + count)
        return Dataset.from_list([{"question": f"say {n}", "answer": str(n)} for n in numbers])
    def same(completion, answer, **_):
        return float(completion[-1]["content"] == answer)
    def of_group(completions, answers=None, **_):
        return [0.0 for _ in completions]
    def long(completion, **_):
        return float(len(completion))
    rubric = vf.Rubric(funcs=[of_group if groups else same, long], weights=[1.0, 0.0])
    own = made(100, 3) if own_eval else None
    return vf.SingleTurnEnv(dataset=made(0, rows), eval_dataset=own, rubric=rubric)
"""


@pytest.fixture
def v1() -> str:
    return interpreter("VERIFIERS_PYTHON")


@pytest.fixture
def v0() -> str:
    return interpreter("VERIFIERS_V0_PYTHON")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(folder: Path, *environments: dict[str, Any]) -> VerifiersEnvironments:
    named = [VerifiersEnvironment.model_validate(each) for each in environments]
    return VerifiersEnvironments(named, folder)


def played_by(tasks: tuple[Task, ...], *saying: str, **limits: Any) -> tuple[list[Episode], list[str]]:
    return played(WORKFLOW, *tasks, saying=list(saying), **limits)


def test_a_task_set_without_end_is_read_and_played(v1: str, here: Path) -> None:
    (here / "endless.py").write_text(HEAD + ENDLESS)
    one = {"package": "endless", "python": v1, "num_training_tasks": 6, "num_validation_tasks": 2}
    with started(here, one) as environments:
        training, validation = environments.tasks()
        both = {task.task_id for task in (*training, *validation)}
        assert (len(training), len(validation), len(both)) == (6, 2, 8)
        assert (here / "environments" / "0-endless.log").is_file()
        right, wrong = training[:2]
        assert (right.main_query, right.answer, right.env_type) == ("say 0", "0", "endless")
        episodes, asked = played_by((right, wrong), "0", "no")
    assert [episode.reward for episode in episodes] == [1.0, 0.0]
    assert [episode.is_success for episode in episodes] == [True, False]
    assert [call.agent for episode in episodes for call in episode.calls] == ["agent", "agent"]
    assert "say 0" in asked[0] and "say 1" in asked[1]


def test_agents_are_told_apart_and_only_those_train_that_the_environment_trains(v1: str, here: Path) -> None:
    (here / "two.py").write_text(HEAD + TWO_AGENTS)
    with started(here, {"package": "two", "python": v1, "num_validation_tasks": 1}) as environments:
        training, _ = environments.tasks()
        (episode,), asked = played_by(training[:1], training[0].answer or "", "good")
    assert ("say" in asked[0], "rate it" in asked[1]) == (True, True)
    assert [call.agent for call in episode.calls] == ["player"]
    assert episode.reward == 1.0


def test_what_fails_is_data_and_who_gives_up_cancels(v1: str, here: Path) -> None:
    (here / "fails.py").write_text(HEAD + FAILS)
    settings = {"package": "fails", "python": v1, "num_validation_tasks": 1}
    with started(here, settings) as environments:
        training, validation = environments.tasks()
        tasks = {task.answer: task for task in (*training, *validation)}
        both = (tasks["raise"], tasks["a"])
        (failed, episode), _ = played_by(both, *"x" * 9, max_calls=9)
        assert "the scorer is broken" in (failed.error or "")
        assert failed.metrics["rollout/failed/workflow"] == 1.0
        assert (episode.error, episode.metrics["workflow/length"]) == (None, 1.0)
        (episode,), _ = played_by((tasks["a"],), *"xxxxx", max_calls=3)
        assert (episode.stop_reason, episode.error, len(episode.calls)) == (StopReason.TURNS, None, 3)
        with pytest.raises(TrainingError, match="took longer than 5 s"):
            played_by((tasks["wait"],), "x", timeout=5.0)
        eventually((here / "cancelled").exists)


def test_a_worker_that_dies_over_an_episode_plays_it_again(v1: str, here: Path) -> None:
    (here / "fails.py").write_text(HEAD + FAILS)
    with started(here, {"package": "fails", "python": v1, "num_validation_tasks": 1}) as environments:
        training, validation = environments.tasks()
        (task,) = (task for task in (*training, *validation) if task.answer == "wait")
        worker = environments.workers[0]

        def kill_once_it_waits() -> None:
            eventually((here / "waiting").exists, 60.0)
            (here / "fails.py").write_text(HEAD + FAILS.replace("sleep(60)", "sleep(0)"))
            os.kill(worker.pid, signal.SIGKILL)

        async def both() -> list[Episode]:
            killing = asyncio.create_task(asyncio.to_thread(kill_once_it_waits))
            episodes, _ = await asyncio.to_thread(played_by, (task,), "wait", "wait")
            await killing
            return episodes

        (episode,) = asyncio.run(both())
    assert (episode.reward, episode.error, episode.metrics["rollout/retries"]) == (1.0, None, 1.0)


def test_splits_by_arguments_and_several_environments(v0: str, v1: str, here: Path) -> None:
    (here / "older.py").write_text(V0)
    (here / "endless.py").write_text(HEAD + ENDLESS)
    older: dict[str, Any] = {"package": "older", "python": v0, "arguments": {"rows": 4}}
    own = {**older, "arguments": {"rows": 4, "own_eval": True}}
    apart = {**older, "validation_arguments": {"rows": 2}}
    for settings, sizes in ((older, (2, 2)), (own, (4, 3)), (apart, (4, 2))):
        with started(here, settings) as environments:
            training, validation = environments.tasks()
            assert (len(training), len(validation)) == sizes
    with started(here, own, {**FEW, "python": v1}) as environments:
        training, validation = environments.tasks()
        assert {task.env_type for task in training} == {"older", "endless"}
        asked = [task.main_query for task in validation if task.env_type == "older"]
        assert asked == ["say 100", "say 101", "say 102"]
        episodes, _ = played_by((training[1], training[-1]), "1", "x")
        assert [episode.reward for episode in episodes] == [1.0, 0.0]
        assert episodes[0].metrics["workflow/long"] == 1.0


@pytest.mark.parametrize(
    ("generation", "settings", "told"),
    [
        ("v1", [{"package": "endless"}], r"at its start:\n    this task set has no end: set num_tr"),
        (
            "v1",
            [{"package": "endless", "arguments": {"taskset": {"foo": 1}}}],
            r"\n    arguments\.taskset\.foo: Extra inputs are not permitted\n",
        ),
        ("v1", [{"package": "not-there"}], "No module named 'not_there'"),
        ("v1", [FEW, FEW], r"'say-\d' was already used"),
        ("v0", [{"package": "older", "arguments": {"groups": True}}], "compares the answers of a group"),
    ],
)
def test_what_cannot_be_played_is_said(
    generation: str, settings: list[Any], told: str, here: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue(generation)
    (here / "older.py").write_text(V0)
    (here / "endless.py").write_text(HEAD + ENDLESS)
    with started(here, *({"python": python, **one} for one in settings)) as environments:
        with pytest.raises(TrainingError, match=told):
            environments.tasks()


def test_what_is_not_there_is_said(here: Path) -> None:
    with started(here) as environments, pytest.raises(DataError, match="name an environment"):
        environments.tasks()
    with started(here, {"package": "x", "python": "./nowhere/python"}) as environments:
        with pytest.raises(TrainingError, match=r"environments\[0\] \(x\): python: there is no interpreter"):
            environments.tasks()


def test_an_environment_from_pypi_trains_a_step(v0: str, here: Path) -> None:
    """sophistry-bench-sprint, whose rubric counts claims and checks quotations."""
    package = {"package": "sophistry-bench-sprint", "python": v0, "num_validation_tasks": 2}
    (row,) = trained(
        here,
        task_reader={
            "type": "verifiers",
            "environments": [{**package, "arguments": {"n_items": 3, "passage_chars": 200}}],
        },
        data={"max_prompt_length": 4000, "max_response_length": 8, "train_batch_size": 2},
        rollout={"num_repeat": 2},
        trainer_common={"total_training_steps": 1, "val_pass_n": 1, "test_freq": 1, "num_threads": 1},
    )
    assert row["workflow/n_claims_metric"] == 0.0
    assert row["critic/failed_episodes"] == 0


def test_its_train_client_sees_the_tokens_that_are_recorded(v1: str, here: Path) -> None:
    tokenizer = family("qwen3")
    tokenizer.save_pretrained(here / "qwen3")
    engine = FakeEngine(says(tokenizer, "three", "six"), tokenizer.eos_token_id)
    with Gateway(engine, tokenizer, model="qwen3", max_model_len=4000) as gateway:
        opened = gateway.open_episode(EpisodeRules(Sampling(0.5), 9, seed=1))
        script = Path(__file__).with_name("train_client.py")
        command = [v1, str(script), f"{gateway.base_url}/v1", str(here / "qwen3"), "qwen3"]
        ran = subprocess.run(command, env={**os.environ, "AJET_KEY": opened.key()}, capture_output=True)
        recorded = opened.close()
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    seen = json.loads(ran.stdout)
    calls = [(call.prompt_ids, call.completion_ids, call.logprobs) for call in recorded.calls]
    assert [(tuple(prompt), tuple(answer)) for prompt, answer, _ in seen] == [call[:2] for call in calls]
    assert [tuple(request.prompt_ids) for request in engine.requests] == [call[0] for call in calls]
    for (_, _, told), (_, _, logprobs) in zip(seen, calls, strict=True):
        assert told == pytest.approx(logprobs, abs=1e-6)


def test_a_task_set_is_a_client_of_a_swarm(v1: str, here: Path) -> None:
    """`blueprints/verifiers/swarm_client.py` trains a step of an unwarmed model."""
    shutil.copytree(ROOT / "blueprints" / "verifiers", here, dirs_exist_ok=True)
    config = (here / "config.yaml").read_text()
    config = re.sub(r"\n    warmup: .*", "", config).replace("steps: 40", "steps: 1")
    (here / "config.yaml").write_text(config)
    (here / "environment").symlink_to(Path(v1).parents[1])
    client = "environment/bin/python swarm_client.py"
    command = [
        sys.executable,
        "-m",
        "trainer_core.swarm.cli",
        "run",
        "--conf",
        "config.yaml",
        "--client",
        client,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (row,) = map(json.loads, (here / "launcher_record/verifiers/metrics.jsonl").read_text().splitlines())
    assert row["workflow/is_a_place"] < 1.0 and row["critic/failed_episodes"] == 0


def test_its_own_openenv_task_set_with_its_own_harness(v1: str, here: Path) -> None:
    with real_server(here) as url:
        arguments = {
            "taskset": {"base_url": url, "resets": [{"seed": number} for number in range(4)]},
            "player": {"harness": {"id": "null"}},
        }
        with started(here, {"package": "openenv", "python": v1, "arguments": arguments}) as environments:
            training, validation = environments.tasks()
            assert (len(training), len(validation)) == (2, 2)
            (episode,), asked = played_by(training[:1], "no", "neither", max_calls=2, context=4000)
    assert "guess" in asked[0] and "wrong" in asked[1]
    assert (episode.stop_reason, len(episode.calls)) == (StopReason.TURNS, 2)
    assert [call.agent for call in episode.calls] == ["player", "player"]
