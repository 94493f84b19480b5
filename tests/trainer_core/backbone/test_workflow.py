"""A training of a user's agent, through real HTTP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.backbone.test_debug import Terminal
from trainer_core.backbone.main import train
from trainer_core.config.load import resolved_yaml
from trainer_core.config.schema import Config

TinyConfig = Callable[..., Config]
AGENT = """
import asyncio, random
from trainer_core.workflow import Workflow, WorkflowOutput

class Agent(Workflow):
    async def execute(self, task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "user", "content": task.main_query}]
        for turn in range(1 + len(task.main_query.strip("123"))):
            await asyncio.sleep(random.random() / 50)
            answer = await client.chat.completions.create(model=tuner.model, messages=messages)
            said = answer.choices[0].message.content or ""
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "?"}]
        return WorkflowOutput(reward=said.count("1") / 5, log_metrics={"ones": said.count("1")})
"""


def with_agent(config: Config, path: Path, code: str = AGENT, **settings: Any) -> Config:
    path.write_text(code)
    tree: dict[str, Any] = config.model_dump(exclude_unset=True)  # or it would name a judge
    tree["ajet"]["data"]["max_response_length"] = 56
    tree["ajet"]["rollout"] |= {
        "user_workflow": f"{path}->Agent",
        "max_response_length_in_one_turn": 5,
        "max_model_len": 64,
    }
    for section, keys in settings.items():
        tree["ajet"][section] = tree["ajet"].get(section, {}) | keys
    return Config.model_validate(tree)


def rows(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    timed = ("timing", "perf/", "rollout/seconds", "val/rollout/seconds")
    return [
        {name: value for name, value in json.loads(line).items() if not name.startswith(timed)}
        for line in lines
    ]


def test_two_runs_of_an_agent_give_the_same_rows(tiny_config: TinyConfig, tmp_path: Path) -> None:
    made = []
    for folder in ("one", "two"):
        config = with_agent(
            tiny_config(folder, total_training_steps=2), tmp_path / "agent.py", rollout={"max_env_worker": 5}
        )
        assert train(config) == 0
        made.append(rows(tmp_path / folder))
    assert made[0] == made[1]
    steps = [row for row in made[0] if "actor/pg_loss" in row]
    assert len(steps) == 2
    for row in steps:
        assert 2.0 < row["rollout/calls/mean"] < row["rollout/calls/max"] == 4.0
        assert row["critic/failed_episodes"] == 0
        assert row["timeline/trained_token_recall"] == 1.0
        assert row["timeline/merge_compression"] > 1.0  # the second call goes on from the first
        assert row["workflow/ones"] == pytest.approx(5 * row["critic/rewards/mean"])
    assert "val/workflow/ones" in made[0][0]


def test_a_process_of_its_own_gives_the_same_rows_as_a_thread(
    tiny_config: TinyConfig, tmp_path: Path
) -> None:
    made = []
    for folder, wrapper in (("thread", "asyncio"), ("process", "multi-processing")):
        config = with_agent(
            tiny_config(folder, total_training_steps=1, val_before_train=False, test_freq=-1),
            tmp_path / "agent.py",
            task_runner={"wrapper_type": wrapper},
            rollout={"num_repeat": 2},
            data={"train_batch_size": 2},
        )
        assert train(config) == 0
        made.append(rows(tmp_path / folder))
    assert made[0] == made[1]
    assert made[0][0]["actor/grad_norm"] > 0


def test_a_workflow_that_cannot_be_loaded_is_one_line(
    tiny_config: TinyConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(with_agent(tiny_config(), tmp_path / "agent.py", "def Agent(task): ...\n")) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("error: rollout.user_workflow: ")
    assert error.endswith("agent.py->Agent is neither a Workflow nor a function of (task, tuner)")


def debugging(config: Config) -> Config:
    tree: dict[str, Any] = config.model_dump(exclude_unset=True)
    tree["ajet"] |= {"backbone": "debug", "debug": {"debug_first_n_tasks": 1}}
    tree["ajet"]["rollout"]["num_repeat"] = 1
    return Config.model_validate(tree)


def test_debug_plays_a_workflow_and_shows_its_calls(
    tiny_config: TinyConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(debugging(with_agent(tiny_config(), tmp_path / "agent.py"))) == 0
    shown = capfd.readouterr().out
    assert shown.count("--- prompt, ") >= 1
    assert "--- answer 1: reward " in shown


def test_what_a_workflow_raises_in_debug_is_shown_with_its_line(
    tiny_config: TinyConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "def Agent(task, tuner):\n    return 1 / 0\n"
    assert train(debugging(with_agent(tiny_config(), tmp_path / "agent.py", code))) == 1
    error = capfd.readouterr().err
    assert f'File "{tmp_path / "agent.py"}", line 2, in Agent' in error
    assert error.splitlines()[-1].startswith("error: workflow Agent failed on task ")


def test_a_breakpoint_in_a_workflow_is_at_home(tiny_config: TinyConfig, tmp_path: Path) -> None:
    code = AGENT.replace("        return Work", "        breakpoint()\n        return Work")
    path = tmp_path / "config.yaml"
    path.write_text(resolved_yaml(debugging(with_agent(tiny_config(), tmp_path / "agent.py", code))))
    terminal = Terminal(path)
    assert "--- prompt, " in terminal.until("(Pdb) ")
    terminal.type("p 'in', __import__('threading').current_thread().name\n")
    assert "MainThread" in terminal.until("(Pdb) ")
    terminal.type("continue\n")
    terminal.until("--- answer 1: reward ")
    assert terminal.end() == 0
