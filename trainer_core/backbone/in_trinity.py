"""Our agents inside Trinity-RFT: its interpreter imports this, and its configuration names what is here.

Our gateway stands before Trinity's vLLM, so that whatever an agent calls it by is recorded token for token;
our judge gives the rewards, and the sequences become Trinity's experiences.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch
from trinity.common.experience import EID, Experience
from trinity.common.workflows import Workflow
from trinity.utils.monitor import TensorboardMonitor

from trainer_core.backbone.rollouts import open_rollout
from trainer_core.backbone.trinity import read_task
from trainer_core.backbone.users_code import users_code
from trainer_core.config.load import load_config
from trainer_core.config.schema import Ajet
from trainer_core.engine.protocols import Engines, TrainingEngine
from trainer_core.engine.start_model import load_tokenizer
from trainer_core.engine.vllm.completions import CompletionsInference
from trainer_core.rollout.protocol import Rollout, Tries
from trainer_core.seeds import derive_seed
from trainer_core.timeline import merge
from trainer_core.tracking.metrics import console_line
from trainer_core.types import Episode, Sampling, TrainingError
from trainer_core.types import Sequence as TrainedSequence


@lru_cache(maxsize=1)
def _stage(folder: str, started_in: str, address: str, model: str) -> tuple[Ajet, Rollout, Any]:
    """Config, rollout and tokenizer of the run in `folder`, for all workflows of this process; it is one of
    Trinity's runners, and is left as a whole."""
    os.chdir(started_in)  # names of files in the config are seen from there
    ajet = load_config(Path(folder, "config.resolved.yaml"), now=datetime.now()).config.ajet
    tokenizer, (judge, workflow) = load_tokenizer(model), users_code(ajet, Path(folder))
    engine = CompletionsInference(address, model)
    engines = Engines(cast(TrainingEngine, None), engine, start_digest="", context=None, facts={})
    return ajet, open_rollout(ajet, engines, tokenizer, judge, workflow, ExitStack(), say=print), tokenizer


class PlayAjet(Workflow):
    """All repeats of one task. `workflow_args`: `folder` and `started_in`, see `_stage`."""

    can_repeat = True
    is_async = True

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        """See `Workflow.set_repeat_times`."""
        self.repeats, self.run_id_base = repeat_times, run_id_base

    async def run_async(self) -> list[Experience]:
        """Play and judge; an experience for each sequence.

        Raises:
            TrainingError: every repeat failed, or left nothing to train on.
        """
        asked, where = self.task, self.task.workflow_args
        ajet, rollout, tokenizer = _stage(
            where["folder"], where["started_in"], self.model.api_address, self.model.model_path
        )
        task, chosen = read_task(asked.raw_task["task"]), ajet.rollout
        sampling = Sampling(chosen.temperature, chosen.top_p, chosen.top_k)
        if (val := chosen.val_kwargs) and asked.is_eval:
            sampling = Sampling(val.temperature if val.do_sample else 0.0, val.top_p, val.top_k)
        purpose = f"trinity {asked.batch_id} {task.task_id} {self.run_id_base}"
        seed = derive_seed(ajet.trainer_common.seed, purpose, 0)
        tries = Tries(self.repeats, sampling, seed, is_training=not asked.is_eval)
        episodes = await rollout.run([task], tries)
        by_text = ajet.context_tracker.timeline_merging_policy.timeline_compare_level == "text"
        pieces = tokenizer.convert_ids_to_tokens if by_text else None
        merged = merge(episodes, chosen.max_model_len, pieces=pieces)
        made = list(_experiences(episodes, merged.sequences, self.run_id_base))
        if not made:
            raise TrainingError(f"task {task.task_id}: no episode left anything to train on")
        if asked.is_eval:  # a failed episode counts as not solved
            failed = sum(episode.error is not None for episode in episodes)
            return [*_fillers(made, failed, {"success": 0.0}), *made]
        return [*_fillers(made, self.repeats * chosen.multi_turn.expected_steps - len(made), {}), *made]


def _experiences(
    episodes: Sequence[Episode], sequences: Sequence[TrainedSequence], first_run: int
) -> Iterator[Experience]:
    """Metrics of an episode are told once, with its first sequence."""
    told: set[int] = set()
    for step, sequence in enumerate(sequences):
        episode, start = episodes[sequence.episode], int(sequence.trained.argmax())
        earned = {"reward": episode.reward or 0.0, "success": float(episode.is_success)}
        yield Experience(
            eid=EID(run=first_run + episode.repeat, step=step),
            tokens=torch.from_numpy(sequence.ids),
            prompt_length=start,
            action_mask=torch.from_numpy(sequence.trained[start:]),
            logprobs=torch.from_numpy(sequence.logprobs[start:]),
            reward=episode.reward,
            metrics={} if sequence.episode in told else {**earned, **episode.metrics},
            response_text=episode.output,
        )
        told.add(sequence.episode)


def _fillers(made: Sequence[Experience], missing: int, metrics: dict[str, float]) -> Iterator[Experience]:
    """Experiences without a trained token, for episodes that failed: Trinity waits for a fixed number. Their
    reward is the mean; they come first in another episode's run: `multi_step_grpo` reads its last."""
    first, reward = made[0], fmean(each.reward for each in made)
    for _ in range(missing):
        nothing = torch.zeros_like(first.action_mask)
        yield Experience(
            eid=EID(run=first.eid.run), tokens=first.tokens, prompt_length=first.prompt_length,
            action_mask=nothing, logprobs=torch.zeros_like(first.logprobs), reward=reward,
            metrics=metrics,
        )  # fmt: skip


class PrintedMetrics(TensorboardMonitor):
    """TensorBoard, and one line on the console for each row, as the other backbones print it."""

    def log(self, data: dict[str, Any], step: int, commit: bool = False) -> None:
        """See `Monitor.log`."""
        super().log(data, step, commit)
        print(console_line(step, {name: float(value) for name, value in data.items()}), flush=True)
