"""A workflow rollout over a real gateway and an engine that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.gateway.fake import FakeEngine, says
from trainer_core.gateway import Gateway
from trainer_core.judge.judge import Judge
from trainer_core.rollout.abnormal import AbnormalAnswers
from trainer_core.rollout.protocol import Tries
from trainer_core.rollout.workflow_rollout import EpisodeLimits, WorkflowRollout
from trainer_core.types import Episode, Sampling, Task
from trainer_core.workflow.workflow import load_workflow

TASKS = [Task("a", "21", "12"), Task("b", "43", "34")]
HEAD = """
import asyncio, os, subprocess, sys, threading, time
from trainer_core.workflow import OtherModel, Workflow, WorkflowOutput

async def ask(tuner, *texts):
    messages = [{"role": "user", "content": text} for text in texts]
    client = tuner.as_raw_openai_sdk_client()
    answer = await client.chat.completions.create(model=tuner.model, messages=messages)
    return answer.choices[0].message.content

"""


@pytest.fixture
def engine(tokenizer: Any) -> FakeEngine:
    return FakeEngine(says(tokenizer, "12"), tokenizer.eos_token_id)


@pytest.fixture
def gateway(engine: FakeEngine, tokenizer: Any) -> Iterator[Gateway]:
    with Gateway(engine, tokenizer, model="tiny", max_model_len=60) as gateway:
        yield gateway


Play = Callable[..., list[Episode]]


@pytest.fixture
def rollout_of(
    engine: FakeEngine, gateway: Gateway, tokenizer: Any, tmp_path: Path
) -> Callable[..., WorkflowRollout]:
    """`rollout_of(code, judge, **limits)`: of the workflow or function `Agent` in `code`."""

    def make(code: str, judge: Judge | None = None, **given: Any) -> WorkflowRollout:
        path = tmp_path / "agent.py"
        path.write_text(("import openai" if "openai." in code else "") + HEAD + code)
        names = ("execute", "stops_at_errors", "say", "tells_every", "sleep")
        settings = {name: given.pop(name) for name in names if name in given}
        checks = given.pop("checks", [])
        return WorkflowRollout(
            engine,
            gateway,
            load_workflow(f"{path}->Agent"),
            judge,
            AbnormalAnswers(tokenizer, checks, reward=-1.0, ends=True),
            EpisodeLimits(20, **{"first_pause": 0.01, "timeout": 20.0, **given}),
            **settings,
        )

    return make


@pytest.fixture
def play(rollout_of: Callable[..., WorkflowRollout]) -> Play:
    """Play two tasks twice each."""

    def run(
        code: str, judge: Judge | None = None, *, tasks: list[Task] = TASKS, **given: Any
    ) -> list[Episode]:
        rollout = rollout_of(code, judge, **given)
        return asyncio.run(rollout.run(tasks, Tries(2, Sampling(0.5), seed=9)))

    return run
