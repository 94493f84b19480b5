"""The real Trinity-RFT validates what is rendered and plays our agents; its own loop needs GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from trainer_core.backbone.trinity import look, write
from trainer_core.config.schema import Config
from trainer_core.types import Task, TaskSplits, TrainingError

PYTHON = os.environ.get("TRINITY_PYTHON") or (sys.executable if find_spec("trinity") else "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="needs TRINITY_PYTHON, an interpreter with trinity-rft")
ROOT = Path(__file__).parents[3]
AGENT = """
import httpx

def play(task, tuner):
    where, messages = tuner.as_oai_baseurl_apikey(), task.messages
    for _ in range(2):
        asked = {"model": tuner.model, "messages": messages}
        key = {"Authorization": f"Bearer {where.api_key}"}
        reply = httpx.post(f"{where.base_url}/chat/completions", json=asked, headers=key, timeout=60)
        said = reply.raise_for_status().json()["choices"][0]["message"]
        messages += [said, {"role": "user", "content": "again"}]
    if said["content"] == "c":
        raise RuntimeError("the agent failed")
    return float(said["content"] == "a")
"""


class FakeVllm(ThreadingHTTPServer):
    """Answers two calls with a, two with b, two with c, two with a, …; tokens of the tiny model."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[dict[str, Any]] = []
        self.said: dict[int, int] = {}

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        letter = self.said.setdefault(body["seed"], len(self.said) // 2 % 3)
        told = {"token_logprobs": [-0.25, -0.5], "top_logprobs": [{}, {}]}
        choice = {"token_ids": [70 + letter, 1], "logprobs": told, "finish_reason": "stop"}
        return {"choices": [{**choice, "index": index} for index in range(body["n"])]}


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, FakeVllm)
        reply = json.dumps(self.server.answer(body)).encode()
        self.send_response(200 if self.path == "/v1/completions" else 404)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def vllm() -> Iterator[FakeVllm]:
    with FakeVllm() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def config(folder: Path, model: str = "tiny", trinity: dict[str, Any] | None = None, **ajet: Any) -> Config:
    tree: dict[str, Any] = {
        "backbone": "trinity",
        "experiment_dir": str(folder),
        "model": {"path": model},
        "task_reader": {"type": "builtin"},
        "data": {"max_prompt_length": 100, "max_response_length": 16, "train_batch_size": 1},
    }
    common = {"trinity_python": PYTHON, **ajet.pop("trainer_common", {})}
    return Config.model_validate(
        {"ajet": {**tree, "trainer_common": common, **ajet}, "trinity": trinity or {}}
    )


@pytest.mark.parametrize(
    "common",
    [
        {"test_freq": -1, "optim": {"lr_scheduler_type": "cosine", "lr_warmup_steps": 2}},
        {"use_kl_loss": False, "n_gpus_per_node": 1, "algorithm": {"adv_estimator": "reinforce_plus_plus"}},
        {
            "advantage_estimation_episode_level": False,
            "kl_loss_type": "mse",
            "algorithm": {"policy_loss": "gspo", "loss_agg_mode": "seq-mean-token-mean"},
        },
        {"algorithm": {"adv_estimator": "rloo", "policy_loss": "cispo"}},
    ],
)
def test_trinity_takes_what_is_rendered(tmp_path: Path, common: dict[str, Any]) -> None:
    looked = look(config(tmp_path, trainer_common=common), total_steps=10)
    assert looked["checked"].startswith("validated by Trinity-RFT")
    assert list(tmp_path.iterdir()) == []


def test_what_trinity_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"(?s)refuses the configuration.*no_such_key"):
        look(config(tmp_path, trinity={"algorithm": {"no_such_key": 1}}), total_steps=10)


def play(config: Config, tasks: list[Task], vllm: FakeVllm, split: str) -> list[dict[str, Any]]:
    ajet = config.ajet
    write(config, TaskSplits(tuple(tasks), tuple(tasks), ()), lambda _: None, lambda: None)
    program = Path(__file__).with_name("play_in_trinity.py")
    address = f"http://127.0.0.1:{vllm.server_port}"
    command = [PYTHON, str(program), ajet.experiment_dir, address, ajet.model.path, split]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    told: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_an_agents_calls_become_experiences_and_a_failed_episode_leaves_a_gap_that_trains_nothing(
    tmp_path: Path, model: str, vllm: FakeVllm
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    rollout = {"user_workflow": f"{tmp_path}/agent.py->play", "num_repeat": 4, "max_env_worker": 1}
    task = Task("t", "say a", metadata={"nested": [{"of": 1}, {"other": "kind"}]})
    filler, *made = play(config(tmp_path, model, rollout=rollout), [task], vllm, "train")
    assert [each["reward"] for each in made] == [1.0, 0.0, 1.0]
    assert [each["run"] for each in made] == [10, 11, 13]
    assert (filler["run"], any(filler["trained"]), filler["reward"]) == (10, False, pytest.approx(2 / 3))
    for each, letter in zip(made, "aba", strict=True):
        answer = ["abc".index(letter) + 70, 1]
        response = each["ids"][each["prompt"] :]
        assert (response[:2], response[-2:]) == (answer, answer)
        assert each["trained"] == [True, True, *[False] * (len(response) - 4), True, True]
        assert each["logprobs"][:2] == each["logprobs"][-2:] == [-0.25, -0.5]
        assert each["metrics"]["rollout/calls"] == 2
    scores = [each["advantages"][0] for each in made]  # (reward - mean) / sample deviation of 1, 0, 1
    assert scores == pytest.approx([0.5774, -1.1547, 0.5774], abs=1e-3)
    first, second, *_ = vllm.asked
    assert second["prompt"][: len(first["prompt"]) + 2] == [*first["prompt"], 70, 1]
    assert (first["model"], first["temperature"], first["return_token_ids"]) == (model, 0.9, True)


def test_validation_asks_each_task_as_often_as_configured_and_counts_what_failed(
    tmp_path: Path, model: str, vllm: FakeVllm
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    rollout = {"user_workflow": f"{tmp_path}/agent.py->play", "max_env_worker": 1}
    common = {"val_pass_n": 3, "val_before_train": True}
    made = play(
        config(tmp_path, model, rollout=rollout, trainer_common=common), [Task("t", "say a")], vllm, "test"
    )
    assert [each["metrics"]["success"] for each in made] == [0.0, 1.0, 0.0]
    assert {asked["temperature"] for asked in vllm.asked} == {1.0}
