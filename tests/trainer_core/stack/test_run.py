"""`ajet --backbone verl` with an agent over HTTP, real verl and real vLLM: exactly on-policy, learning, and
what is left when something is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

if importlib.util.find_spec("verl") is None:
    pytest.skip("needs verl; `make test-stack` brings it", allow_module_level=True)

AGENT = """
from trainer_core.workflow import Workflow, WorkflowOutput

class Even(Workflow):
    async def execute(self, task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        answer = await client.chat.completions.create(model=tuner.model, messages=task.messages)
        said = answer.choices[0].message.content or ""
        return WorkflowOutput(sum(each in "02468" for each in said) / 16)
"""
FROZEN = """
from trainer_core.engine.vllm.inference import VllmInference
load, sent = VllmInference._load, []
VllmInference._load = lambda self, **more: sent.append(1) or len(sent) > 1 or load(self, **more)
"""
"""The server gets the first weights and none after them."""
TRAIN = "from trainer_core.cli import main; main()"


class Run:
    """A training in a process of its own."""

    def __init__(self, model: str, vllm_python: str, folder: Path, before: str = "", **common: Any) -> None:
        self.folder, self.out = folder, folder / "out" / "run"
        (folder / "agent.py").write_text(AGENT)
        config = {
            "experiment_name": "run",
            "backbone": "verl",
            "model": {"path": model},
            "task_reader": {"type": "random_dummy"},
            "data": {"max_prompt_length": 100, "max_response_length": 16, "train_batch_size": 8},
            "rollout": {
                "user_workflow": "agent.py->Even", "num_repeat": 4, "temperature": 1.0,
                "vllm_python": vllm_python,
            },
            "task_runner": {"wrapper_type": "asyncio"},
            "trainer_common": {
                "device": "cpu", "total_training_steps": 25, "test_freq": -1, "save_freq": 5,
                "use_kl_loss": False, "optim": {"lr": 3e-3, "grad_clip": 1.0, "weight_decay": 0.0}, **common
            },
        }  # fmt: skip
        (folder / "config.yaml").write_text(json.dumps({"ajet": config}))
        self._before = before

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", self._before + TRAIN, "--conf", "config.yaml", "--exp-dir", "out"]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    @property
    def rows(self) -> list[dict[str, float]]:
        path = self.out / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def wait_for_step(self, process: subprocess.Popen[str], step: int) -> None:
        while not (self.rows and self.rows[-1]["step"] >= step):
            assert process.poll() is None, process.communicate()[0][-3000:]
            time.sleep(0.2)

    def whole(self) -> list[dict[str, float]]:
        process = self.start()
        told, _ = process.communicate(timeout=600)
        assert process.returncode == 0, told[-3000:]
        return self.rows


def score(rows: list[dict[str, float]]) -> tuple[float, float]:
    """Mean reward of the first and of the last five steps."""
    rewards = [row["critic/rewards/mean"] for row in rows]
    return sum(rewards[:5]) / 5, sum(rewards[-5:]) / 5


def largest(rows: list[dict[str, float]]) -> float:
    return max(row["training/rollout_probs_diff_max"] for row in rows)


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def all_gone(processes: list[psutil.Process], within_s: float = 30.0) -> bool:
    return not psutil.wait_procs(processes, timeout=within_s)[1]


def test_exactly_on_policy_and_learning(model: str, vllm_python: str, tmp_path: Path) -> None:
    rows = Run(model, vllm_python, tmp_path).whole()
    first, last = score(rows)
    print(f"synced: largest difference {largest(rows):.1e}, score {first:.3f} -> {last:.3f}")
    assert len(rows) == 25 and largest(rows) < 1e-5
    assert last > first + 0.1


def test_without_new_weights_it_is_not_and_does_not_learn(
    model: str, vllm_python: str, tmp_path: Path
) -> None:
    rows = Run(model, vllm_python, tmp_path, before=FROZEN).whole()
    first, last = score(rows)
    print(f"frozen: largest difference {largest(rows):.1e}, score {first:.3f} -> {last:.3f}")
    assert largest(rows) > 1e-3
    assert last < first + 0.05


def test_the_trainer_is_killed_and_goes_on(model: str, vllm_python: str, tmp_path: Path) -> None:
    run = Run(model, vllm_python, tmp_path, total_training_steps=8)
    process = run.start()
    run.wait_for_step(process, 6)
    started = descendants(process)
    assert len(started) > 2
    process.kill()
    process.wait()
    assert all_gone(started)
    rows = run.whole()
    assert [row["step"] for row in rows] == list(range(1, 9)) and largest(rows) < 1e-5


def test_a_worker_on_ray_is_killed(model: str, vllm_python: str, tmp_path: Path) -> None:
    run = Run(model, vllm_python, tmp_path, total_training_steps=500, n_gpus_per_node=2)
    process = run.start()
    run.wait_for_step(process, 3)
    started = descendants(process)
    workers = [each for each in started if "SplitWorker" in " ".join(each.cmdline())]
    assert len(workers) == 2
    workers[1].send_signal(signal.SIGKILL)
    told, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    (error,) = [line for line in told.splitlines() if line.startswith("error: ")]
    assert "a worker of verl failed" in error and "goes on from the last checkpoint" in error
    assert all_gone(started)
