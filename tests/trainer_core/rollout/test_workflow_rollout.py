"""Episodes of workflows: what comes out, in which order, what fails and what is counted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.gateway.fake import FakeEngine, says
from tests.trainer_core.processes import eventually, is_running
from tests.trainer_core.rollout.conftest import TASKS, Play
from trainer_core.gateway import EpisodeRules, Gateway
from trainer_core.judge.judge import ExactMatchJudge, Score, UnlessBrought
from trainer_core.rollout.execution import in_caller, in_process
from trainer_core.rollout.metrics import failures, rollout_metrics
from trainer_core.rollout.protocol import Tries
from trainer_core.rollout.workflow_rollout import WorkflowRollout
from trainer_core.types import Episode, Sampling, StopReason, Task, TrainingError

RIGHT = """
class Agent(Workflow):
    async def execute(self, task, tuner):
        said = await ask(tuner, task.main_query)
        return WorkflowOutput(reward=float(said == task.answer), log_metrics={"length": len(said)})
"""


def test_episodes_lie_together_per_task_with_calls_reward_and_metrics(play: Play) -> None:
    episodes = play(RIGHT)
    assert [(one.task.task_id, one.repeat, one.output, one.reward, one.is_success) for one in episodes] == [
        ("a", 0, "12", 1.0, True),
        ("a", 1, "12", 1.0, True),
        ("b", 0, "12", 0.0, False),
        ("b", 1, "12", 0.0, False),
    ]
    assert [len(one.calls) for one in episodes] == [1] * 4
    metrics = rollout_metrics(episodes)
    assert metrics["workflow/length"] == 2.0
    assert metrics["rollout/calls/mean"] == metrics["rollout/calls/max"] == 1.0
    assert metrics["rollout/retries"] == 0.0
    assert failures(episodes) == {}


def test_each_episode_has_a_seed_and_a_place_of_its_own(play: Play, engine: FakeEngine) -> None:
    play(RIGHT)
    first = {request.session[:2]: request.seed for request in engine.requests}
    assert sorted(first) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(set(first.values())) == 4
    engine.requests.clear()
    play(RIGHT, max_env_worker=1)
    assert {request.session[:2]: request.seed for request in engine.requests} == first


@pytest.mark.parametrize(
    "code",
    [
        "async def Agent(task, tuner):\n    return float(await ask(tuner, 'q') == task.answer)",
        "def Agent(task, tuner):\n    return asyncio.run(ask(tuner, 'q')) == task.answer"
        .replace("asyncio.run(ask(tuner, 'q'))", "openai.OpenAI(**tuner.as_oai_baseurl_apikey()).chat"
                 ".completions.create(model=tuner.model, messages=[{'role': 'user', 'content': 'q'}])"
                 ".choices[0].message.content"),
        "class Agent:\n    def execute(self, task, tuner):\n        return 1 if task.task_id == 'a' else 0",
    ],
    ids=["coroutine", "function that blocks", "class of another kind"],
)  # fmt: skip
def test_any_form_of_workflow(play: Play, code: str) -> None:
    assert [one.reward for one in play(code)] == [1.0, 1.0, 0.0, 0.0]


def test_code_that_blocks_holds_up_no_other_episode(play: Play) -> None:
    episodes = play(
        "everybody = threading.Barrier(4, timeout=30)\n"
        "async def Agent(task, tuner):\n    everybody.wait()\n    return 1.0\n"
    )
    assert [one.reward for one in episodes] == [1.0] * 4


def test_no_more_episodes_run_at_once_than_allowed(play: Play) -> None:
    episodes = play(
        "running, most = 0, 0\n"
        "async def Agent(task, tuner):\n"
        "    global running, most\n"
        "    running += 1\n"
        "    most = max(most, running)\n"
        "    await asyncio.sleep(0.02)\n"
        "    running -= 1\n"
        "    return WorkflowOutput(1.0, log_metrics={'most': most})\n",
        max_env_worker=2,
    )
    assert max(one.metrics["workflow/most"] for one in episodes) == 2.0


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("raise KeyError('k')", "workflow", "KeyError: 'k'"),
        ("sys.exit(3)", "workflow", "SystemExit(3)"),
        ("raise asyncio.CancelledError", "workflow", "CancelledError"),
        ("return 'good'", "workflow", "reward 'good'"),
        ("return float('nan')", "workflow", "not a finite number"),
        ("return None", "no_reward", "workflow Agent returned no reward, and task_judge names no judge"),
        ("raise ConnectionResetError('gone')", "connection", "ConnectionResetError: gone"),
        ("raise ExceptionGroup('two', [OSError('x'), ConnectionError('y')])", "workflow", "OSError: x"),
    ],
)
def test_a_failed_episode_is_data(play: Play, body: str, kind: str, said: str) -> None:
    episodes = play(
        f"async def Agent(task, tuner):\n    if task.task_id == 'a':\n        return 1.0\n    {body}\n"
    )
    assert [one.reward for one in episodes] == [1.0, 1.0, None, None]
    assert said in str(episodes[2].error)
    assert [one.stop_reason for one in episodes[2:]] == [StopReason.FAILED] * 2
    assert failures(episodes) == {f"{kind}": 2.0}


def test_that_some_failed_is_said_once_for_a_batch(play: Play) -> None:
    said: list[str] = []
    play("def Agent(task, tuner):\n    return 1.0 / (task.task_id == 'a')\n", say=said.append)
    assert said == ["warning: some of 4 episodes failed (2 workflow); train.log says why"]


def test_when_all_fail_training_ends_with_the_first_reason(play: Play) -> None:
    with pytest.raises(TrainingError, match="all 4 episodes failed; the first: ValueError: no"):
        play("async def Agent(task, tuner):\n    raise ValueError('no')\n")


def test_an_outage_is_tried_again_and_the_first_try_leaves_no_calls(play: Play) -> None:
    code = """
tries = {}
async def Agent(task, tuner):
    await ask(tuner, 'q')
    tries[task.task_id] = tries.get(task.task_id, 0) + 1
    if task.task_id == 'a' and tries['a'] == 1:
        try:
            raise openai.APIConnectionError(request=None)
        except openai.OpenAIError as error:
            raise RuntimeError('wrapped') from error
    return 1.0
"""
    episodes = play(code)
    assert sorted(one.metrics["rollout/retries"] for one in episodes) == [0.0, 0.0, 0.0, 1.0]
    assert [(one.error, len(one.calls)) for one in episodes] == [(None, 1)] * 4


def test_retries_are_bounded_and_pause_longer_each_time(play: Play) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    episodes = play(
        "def Agent(task, tuner):\n    if task.task_id == 'a': return 1.0\n    raise TimeoutError('a tool')\n",
        max_env_worker=1, retries=2, first_pause=1.0, sleep=sleep,
    )  # fmt: skip
    assert pauses == [1.0, 2.0] * 2
    assert "a tool" in str(episodes[3].error)
    assert failures(episodes) == {"connection": 2.0}


def test_an_engine_that_fails_is_no_fault_of_the_workflow(play: Play, engine: FakeEngine) -> None:
    def breaks(request: Any, index: int) -> list[int]:
        if request.session[0] == 1:
            raise TrainingError("out of memory")
        return [5]

    engine.say = breaks
    code = """
async def Agent(task, tuner):
    try:
        await ask(tuner, 'q')
    except openai.APIError:
        pass
    return 1.0
"""
    episodes = play(code, retries=0)
    assert [one.error for one in episodes] == [None, None, "out of memory", "out of memory"]
    assert failures(episodes) == {"engine": 2.0}


SLOW = """
async def Agent(task, tuner):
    if task.task_id == 'a':
        return 1.0
    await ask(tuner, 'q')
    {wait}
    return 1.0
"""


@pytest.mark.parametrize("wait", ["await asyncio.sleep(60)", "time.sleep(3)"], ids=["sleeping", "blocking"])
def test_an_episode_that_takes_too_long_is_given_up_with_what_it_did(play: Play, wait: str) -> None:
    episodes = play(SLOW.format(wait=wait), timeout=0.5)
    assert [one.stop_reason for one in episodes] == [StopReason.FINISHED] * 2 + [StopReason.TIMEOUT] * 2
    assert "longer than 0.5 s (task_runner.wrapper_multiprocessing_timeout)" in str(episodes[2].error)
    assert [len(one.calls) for one in episodes] == [0, 0, 1, 1]
    assert failures(episodes) == {"timeout": 2.0}


def test_a_call_of_an_episode_that_is_given_up_is_cancelled(play: Play, engine: FakeEngine) -> None:
    engine.delay_s = 60.0
    play(SLOW.format(wait="pass"), timeout=0.5)
    eventually(lambda: (engine.cancelled, engine.running) == (2, 0))


class Halves:
    """A judge that notes whom it judges."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[int]]] = []

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        self.asked.append((task.task_id, [one.repeat for one in episodes]))
        return [Score(0.5) for _ in episodes]


def test_a_judge_that_nobody_named_is_asked_only_about_what_has_no_reward(play: Play) -> None:
    judge = Halves()
    code = "rewards = iter([None, 2.0, None, None])\ndef Agent(task, tuner):\n    return next(rewards)\n"
    episodes = play(code, UnlessBrought(judge), max_env_worker=1)
    assert [(one.reward, one.is_success) for one in episodes] == [(0.5, False), (2.0, True)] + [
        (0.5, False)
    ] * 2
    assert judge.asked == [("a", [0]), ("b", [0, 1])]


def test_a_named_judge_decides_on_every_reward(play: Play) -> None:
    judge = Halves()
    episodes = play("def Agent(task, tuner):\n    return 2.0\n", judge, max_env_worker=1)
    assert {(one.reward, one.is_success) for one in episodes} == {(0.5, False)}


def test_the_answer_is_what_the_judge_compares(play: Play) -> None:
    code = "async def Agent(task, tuner):\n    await ask(tuner, 'q')\n"
    assert [one.reward for one in play(code, ExactMatchJudge())] == [1.0, 1.0, 0.0, 0.0]


def test_a_group_is_judged_while_another_still_runs(play: Play) -> None:
    class Releasing(Halves):
        async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
            judged.set()
            return await super().score(task, episodes)

    judged = threading.Event()
    threading.judged = judged  # type: ignore[attr-defined]  # how the agent's file finds it
    code = "def Agent(task, tuner):\n    assert task.task_id == 'b' or threading.judged.wait(20)\n"
    assert [one.reward for one in play(code, Releasing())] == [0.5] * 4


def test_a_judge_that_fails_ends_training_and_leaves_nothing_running(play: Play, engine: FakeEngine) -> None:
    class Broken:
        async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
            raise ZeroDivisionError

    engine.delay_s = 60.0
    code = "async def Agent(task, tuner):\n    if task.task_id == 'a':\n        await ask(tuner, 'q')\n"
    with pytest.raises(
        TrainingError, match="judge Broken failed on task 'b' with ZeroDivisionError"
    ) as error:
        play(code, Broken())
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    eventually(lambda: engine.running == 0)


@pytest.mark.parametrize(
    ("asks", "limits", "reason"),
    [("3", {"max_calls": 2}, StopReason.TURNS), ("1, size=200", {}, StopReason.CONTEXT)],
)
def test_a_limit_ends_an_episode_which_has_not_failed(
    play: Play, asks: str, limits: dict[str, int], reason: StopReason
) -> None:
    code = f"""
async def asks(tuner, times, size=1):
    for number in range(times):
        await ask(tuner, str(number) * size)
async def Agent(task, tuner):
    await asks(tuner, {asks})
"""
    without, judged = play(code, **limits), play(code, Halves(), **limits)
    assert [(one.reward, one.error, one.stop_reason) for one in without] == [(0.0, None, reason)] * 4
    assert [one.reward for one in judged] == [0.5] * 4


def test_an_abnormal_answer_is_not_judged(play: Play, engine: FakeEngine, tokenizer: Any) -> None:
    engine.say = says(tokenizer, "12 <|user|>")
    episodes = play(
        "async def Agent(task, tuner):\n    await ask(tuner, 'q')\n", Halves(), checks=["nonsense"]
    )
    assert [one.reward for one in episodes] == [-1.0] * 4
    assert rollout_metrics(episodes)["rollout/abnormal/nonsense"] == 4.0


def test_agents_that_are_not_trained_leave_no_calls(play: Play) -> None:
    code = """
class Agent(Workflow):
    trainable_targets = ["planner"]
    async def execute(self, task, tuner):
        for name in ("planner", "critic"):
            await ask(tuner(agent_name=name), name)
        return 1.0
"""
    for episode in play(code):
        assert [call.agent for call in episode.calls] == ["planner"]


def test_another_model_answers_for_the_agents_that_name_it(
    play: Play, engine: FakeEngine, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = FakeEngine(says(tokenizer, "large"), tokenizer.eos_token_id)
    with Gateway(large, tokenizer, model="large", max_model_len=60) as outside:
        opened = outside.open_episode(EpisodeRules(Sampling(), 20, 0))
        monkeypatch.setenv("CRITIC_KEY", opened.key())
        code = f"""
class Agent(Workflow):
    other_models = {{"critic": OtherModel("{outside.base_url}/v1", api_key_env="CRITIC_KEY", model="large")}}
    async def execute(self, task, tuner):
        said = [await ask(tuner(agent_name=name), "q") for name in ("planner", "critic")]
        return float(said == ["12", "large"])
"""
        episodes = play(code)
    assert [one.reward for one in episodes] == [1.0] * 4
    assert [[call.agent for call in one.calls] for one in episodes] == [["planner"]] * 4
    assert (len(engine.requests), len(large.requests)) == (4, 4)


class Counting(FakeEngine):
    """Notes the open sessions at each change."""

    def __init__(self, inner: FakeEngine) -> None:
        super().__init__(inner.say, inner.end_id)
        self.open: set[tuple[int | str, ...]] = set()
        self.seen: list[set[tuple[int | str, ...]]] = []

    @contextmanager
    def session(self, key: tuple[int | str, ...]) -> Iterator[None]:
        self.open.add(key)
        self.seen.append(set(self.open))
        try:
            yield
        finally:
            self.open.remove(key)
            self.seen.append(set(self.open))


def test_a_session_is_opened_before_the_one_it_follows_is_closed(
    rollout_of: Callable[..., WorkflowRollout], engine: FakeEngine
) -> None:
    counting = Counting(engine)
    rollout = rollout_of("async def Agent(task, tuner):\n    return 1.0\n", max_env_worker=2)
    asyncio.run(replace(rollout, engine=counting).run(TASKS, Tries(2, Sampling(), seed=0)))
    assert counting.seen[:2] == [{(0, 0)}, {(0, 0), (0, 1)}]
    closing = counting.seen[2:]
    assert [len(one) for one in closing] == [3, 2, 3, 2, 1, 0]
    assert {key for one in closing for key in one} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_progress_is_said_while_episodes_run(play: Play) -> None:
    lines: list[str] = []
    threading.lines = lines  # type: ignore[attr-defined]  # how the agent's file finds them
    code = """
async def Agent(task, tuner):
    while not any("4 running" in line for line in threading.lines):
        await asyncio.sleep(0.01)
    return 1.0
"""
    play(code, say=lines.append, tells_every=0.05)
    (first,) = [line for line in lines if "4 running" in line][:1]
    assert first.startswith(
        "rollout of 4 episodes: 4 running, 0 finished, 0 failed, 0 tokens/s; waiting for a#0"
    )


def test_in_the_callers_thread_an_error_ends_the_run(play: Play) -> None:
    code = "def Agent(task, tuner):\n    1 / (threading.current_thread() is not threading.main_thread())\n"
    with pytest.raises(
        TrainingError, match="workflow Agent failed on task 'a' with ZeroDivisionError"
    ) as error:
        play(code, execute=in_caller, stops_at_errors=True, max_env_worker=1)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


# --- in a process -----------------------------------------------------------------------------------------


def test_a_process_plays_with_named_agents_and_returns_everything(play: Play) -> None:
    code = """
class Agent(Workflow):
    async def execute(self, task, tuner):
        said = await ask(tuner(agent_name="planner"), task.main_query)
        print("a word of its own")
        metadata = {"pid": os.getpid(), "group": os.getpgid(0)}
        return WorkflowOutput(float(said == task.answer), metadata=metadata)
"""
    episodes = play(code, execute=in_process)
    assert [(one.reward, one.calls[0].agent) for one in episodes] == [(1.0, "planner")] * 2 + [
        (0.0, "planner")
    ] * 2
    for episode in episodes:
        assert episode.metadata["pid"] == episode.metadata["group"] != os.getpid()


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("os._exit(7)", "crash", "died with exit status 7"),
        ("raise KeyError('k')", "workflow", "KeyError: 'k'"),
        ("return WorkflowOutput(1.0, metadata={'x': lambda: 1})", "workflow", "its output cannot be sent"),
        ("time.sleep(60)", "timeout", "longer than 3 s"),
    ],
)
def test_what_goes_wrong_in_a_process(play: Play, body: str, kind: str, said: str) -> None:
    code = f"def Agent(task, tuner):\n    if task.task_id == 'a': return 1.0\n    {body}\n"
    episodes = play(code, execute=in_process, timeout=3.0)
    assert [one.reward for one in episodes] == [1.0, 1.0, None, None]
    assert said in str(episodes[2].error)
    assert failures(episodes) == {f"{kind}": 2.0}


@pytest.mark.parametrize("end", ["time.sleep(60)", "return 1.0"], ids=["given up", "finished"])
def test_nothing_that_a_process_started_outlives_its_episode(play: Play, tmp_path: Path, end: str) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    code = f"""
def Agent(task, tuner):
    started = subprocess.Popen(["sleep", "60"])
    open(f"{pids}/{{started.pid}}", "w").close()
    if task.task_id == "b":
        {end}
    return 1.0
"""
    play(code, execute=in_process, timeout=3.0)
    found = [int(path.name) for path in pids.iterdir()]
    assert len(found) == 4
    eventually(lambda: not is_running(*found))


def test_a_process_dies_with_the_trainer_however_that_ends(tmp_path: Path) -> None:
    agent, pids = tmp_path / "agent.py", tmp_path / "pids"
    pids.mkdir()
    agent.write_text(f"""
import os, subprocess, time
def Agent(task, tuner):
    started = subprocess.Popen(["sleep", "60"])
    for pid in (os.getpid(), started.pid):
        open(f"{pids}/{{pid}}", "w").close()
    time.sleep(60)
""")
    trainer = subprocess.Popen([sys.executable, "-c", f"""
import asyncio
from trainer_core.rollout.execution import in_process
from trainer_core.types import Task
from trainer_core.workflow import Tuner
from trainer_core.workflow.workflow import load_workflow
tuner = Tuner("http://127.0.0.1:9", "tiny", str)
asyncio.run(in_process(load_workflow("{agent}->Agent"), Task("a", "q"), tuner))
"""])  # fmt: skip
    try:
        eventually(lambda: len(list(pids.iterdir())) == 2)
    finally:
        trainer.kill()
        trainer.wait()
    eventually(lambda: not is_running(*(int(path.name) for path in pids.iterdir())))
