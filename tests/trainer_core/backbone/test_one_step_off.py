"""Answers collected one step ahead: by which weights, and what a checkpoint has to hold for that."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM

from tests.trainer_core.backbone.test_local import numbers, rows, same_weights
from trainer_core.backbone.loop import train as run_loop
from trainer_core.backbone.main import train
from trainer_core.backbone.run import Run
from trainer_core.backbone.stop import StopRequested, StopSignals
from trainer_core.config.schema import Config
from trainer_core.types import Call, Episode

TinyConfig = Callable[..., Config]
AHEAD: dict[str, Any] = {
    "one_step_off_policy": True,
    "old_logprobs": "recompute",
    "algorithm": {"rollout_is": "token"},
    "optim": {"lr": 1e-2},
}


class Recorded:
    """A rollout that remembers what it collected for training, in the order of the steps."""

    def __init__(self, rollout: Any) -> None:
        self._rollout = rollout
        self.steps: list[list[Episode]] = []

    async def run(self, *arguments: Any, **settings: Any) -> list[Episode]:
        episodes: list[Episode] = await self._rollout.run(*arguments, **settings)
        self.steps.append(episodes)
        return episodes


def collected(config: Config) -> list[list[Episode]]:
    with ExitStack() as closing:
        run = Run(config, closing, say=lambda _: None, safe_point=lambda: None)
        recorded = Recorded(run.rollout)
        run.rollout = recorded  # type: ignore[assignment]
        asyncio.run(run_loop(run, StopSignals()))
    return recorded.steps


def worst_difference(checkpoint: Path, calls: Sequence[Call]) -> float:
    """Between the log-probabilities of the calls and those that these weights give."""
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    worst = 0.0
    for call in calls:
        ids = torch.tensor([[*call.prompt_ids, *call.completion_ids]])
        with torch.no_grad():
            logprobs = model(ids).logits[0, :-1].log_softmax(-1)
        own = logprobs[len(call.prompt_ids) - 1 :].gather(1, torch.tensor([call.completion_ids]).T)[:, 0]
        worst = max(worst, float((own - torch.tensor(call.logprobs)).abs().max()))
    return worst


@pytest.mark.parametrize(
    ("common", "rank", "behind"), [(AHEAD, 0, 2), (AHEAD, 4, 2), ({"optim": {"lr": 1e-2}}, 0, 1)]
)
def test_the_weights_that_answer(
    tiny_config: TinyConfig, tmp_path: Path, common: dict[str, Any], rank: int, behind: int
) -> None:
    tree = tiny_config(test_freq=-1, val_before_train=False, save_freq=1, **common).model_dump()
    tree["ajet"]["lora"] |= {"lora_rank": rank}
    steps = collected(Config.model_validate(tree))
    assert len(steps) == 6
    for step, episodes in enumerate(steps, 1):
        calls = [call for episode in episodes for call in episode.calls]
        assert {call.weight_version for call in calls} == {max(0, step - behind)}
        if step > behind:
            checkpoints = tmp_path / "run" / "checkpoints"
            assert worst_difference(checkpoints / f"step_{step - behind:06d}", calls) < 1e-5
            assert worst_difference(checkpoints / f"step_{step - behind + 1:06d}", calls) > 1e-3


@pytest.mark.parametrize("estimator", ["grpo", "remax"])
def test_it_goes_on_from_a_checkpoint_with_the_same_digits(
    tiny_config: TinyConfig, tmp_path: Path, estimator: str
) -> None:
    plan = AHEAD | {"algorithm": {"rollout_is": "token", "adv_estimator": estimator}}
    assert train(tiny_config("whole", **plan)) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut/checkpoints/step_000006")
    (tmp_path / "cut/checkpoints/latest").write_text("step_000004\n")
    assert train(tiny_config("cut", **plan)) == 0
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    last = "checkpoints/step_000006"
    assert same_weights(tmp_path / "cut" / last, tmp_path / "whole" / last)
    found = rows(tmp_path / "whole")
    assert found[1]["rollout_corr/kl"] < 1e-6 < abs(found[3]["rollout_corr/kl"])
    assert not (tmp_path / "whole" / last / "ahead.zst").exists()  # nothing comes after the last step


def test_a_stop_keeps_what_was_collected(tiny_config: TinyConfig, tmp_path: Path) -> None:
    class AfterTwoSteps(StopSignals):
        calls = 0

        def safe_point(self) -> None:
            self.calls += 1
            if self.calls > 4:
                raise StopRequested(15)

    plan = {"save_freq": -1, "total_training_steps": 4, **AHEAD}
    assert train(tiny_config("whole", **plan)) == 0
    with ExitStack() as closing:
        run = Run(tiny_config("cut", **plan), closing, say=lambda _: None, safe_point=lambda: None)
        with pytest.raises(StopRequested):
            asyncio.run(run_loop(run, AfterTwoSteps()))
    assert (tmp_path / "cut/checkpoints/step_000002/ahead.zst").is_file()
    assert train(tiny_config("cut", **plan)) == 0
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_older_answers_want_a_correction(tiny_config: TinyConfig) -> None:
    with pytest.raises(ValidationError, match=r"one_step_off_policy.*rollout_is: token"):
        tiny_config(one_step_off_policy=True)
