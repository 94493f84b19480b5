"""Where environments are played in tests: a server in a thread, a rollout whose model says what it is
told to, and a training."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.trainer_core.gateway.fake import FakeEngine, says
from trainer_core.config.schema import Config
from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.gateway import Gateway
from trainer_core.rollout.abnormal import AbnormalAnswers
from trainer_core.rollout.protocol import Tries
from trainer_core.rollout.workflow_rollout import EpisodeLimits, WorkflowRollout
from trainer_core.tasks.reader import read_tasks
from trainer_core.types import Episode, Sampling, Task, TaskSplits
from trainer_core.workflow.workflow import load_workflow


def interpreter(variable: str) -> str:
    """An interpreter with other people's packages, which `make environments` installs."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"needs {variable}; `make test-environments` sets it")
    return python


@contextmanager
def serving(app: Any, ws: Any = "none") -> Iterator[str]:
    """An ASGI application on a free port, in a thread; its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, interface="asgi3", log_config=None, ws=ws))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    while not server.started:
        time.sleep(0.002)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def free_address() -> str:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def splits_of(kind: str, **settings: Any) -> TaskSplits:
    """The tasks that a reader of this kind reads."""
    tree = {"ajet": {"task_reader": {"type": kind, kind: settings}}}
    return read_tasks(Config.model_validate(tree).ajet.task_reader)


def played(workflow: str, *tasks: Task, saying: list[str], **limits: Any) -> tuple[list[Episode], list[str]]:
    """An episode of each task, one after the other, with the workflow that `workflow` names; and what the
    model was asked, as text."""
    tokenizer: Any = make_tokenizer()
    engine = FakeEngine(says(tokenizer, *saying), tokenizer.eos_token_id)
    settings = {"first_pause": 0.01, "timeout": 60.0, "max_env_worker": 1, **limits}
    with Gateway(engine, tokenizer, model="tiny", max_model_len=settings.pop("context", 400)) as gateway:
        rollout = WorkflowRollout(
            engine,
            gateway,
            load_workflow(workflow),
            None,
            AbnormalAnswers(tokenizer, [], reward=-1.0, ends=True),
            EpisodeLimits(40, **settings),
        )
        episodes = asyncio.run(rollout.run(tasks, Tries(1, Sampling(0.5), seed=9)))
    return episodes, [tokenizer.decode(request.prompt_ids) for request in engine.requests]


def trained(folder: Path, **ajet: Any) -> list[dict[str, Any]]:
    """The rows that a training of a tiny model writes, which `ajet` runs in a folder."""
    tiny = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    model = {"path": "tiny", "tiny": tiny, "warmup": {"enabled": False}}
    (folder / "config.yaml").write_text(json.dumps({"ajet": {"model": model, **ajet}}))
    command = [sys.executable, "-m", "trainer_core.cli", "--conf", "config.yaml", "--exp-dir", "runs"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = (folder / "runs").glob("*/metrics.jsonl")
    return [json.loads(line) for line in written.read_text().splitlines()]
