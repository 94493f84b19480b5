"""The training loop, on one machine, without anything but torch and transformers.

    tasks → rollouts → rewards → advantages → update → metrics → (validation) → (checkpoint)

Everything random is derived from the config's seed, the step and a purpose, so the loop carries no state but
the weights and the optimizer's: a run resumed from a checkpoint gives the numbers of an uninterrupted one.
"""

from __future__ import annotations

import errno
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import torch

from trainer_core.algorithm.advantages import grpo_advantages
from trainer_core.backbone.phases import Phases
from trainer_core.backbone.seeds import derive_seed
from trainer_core.backbone.setup import Run, longest_response, open_run
from trainer_core.backbone.stop import StopRequested, StopSignals
from trainer_core.config.schema import Config
from trainer_core.engine.batch import collate
from trainer_core.tracking.batch_metrics import batch_metrics
from trainer_core.types import Sample, Task, TrainingError
from trainer_core.validation.validate import summarize, write_down

_log = logging.getLogger(__name__)

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def train(config: Config) -> int:
    """Train as the config says; the exit status of the process.

    Returns:
        0 when all steps are done, 1 when training failed (the reason is on stderr), 143 after SIGTERM and
        130 after SIGINT, with a checkpoint of the last finished step.
    """
    folder = Path(config.ajet.experiment_dir).absolute()
    with StopSignals() as stop:
        try:
            run = open_run(config, say=_say, safe_point=stop.safe_point)
            with closing(run):
                _train(run, stop)
        except StopRequested as request:
            _say(f"stopped by {request}")
            return 128 + request.signal_number
        except TrainingError as error:
            _log.exception("training failed")
            return _failed(str(error))
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            return _failed(
                f"cannot write below {folder}: {error.strerror}. Free some space there and start again: "
                "training goes on from the last checkpoint"
            )
    _say(f"done; results in {folder}")
    return 0


def _train(run: Run, stop: StopSignals) -> None:
    """The loop."""
    common = run.ajet.trainer_common
    if common.val_only or (run.start_step == 0 and common.val_before_train):
        _record(run, run.start_step, _validate(run, run.start_step))
    if run.order is None:
        return
    if run.start_step >= run.total_steps:
        _say(f"all {run.total_steps} steps are done already")
    done = saved = run.start_step
    row: dict[str, float] = {}
    try:
        for step in range(run.start_step + 1, run.total_steps + 1):
            phases = Phases(time.perf_counter)
            row = _step(run, step, run.order.tasks_of_step(step), phases, stop)
            done = step
            if _due(step, common.test_freq, at_end=common.test_freq > 0 and step == run.total_steps):
                with phases("testing"):
                    row |= _validate(run, step)
            try:
                if _due(step, common.save_freq, at_end=step == run.total_steps):
                    with phases("save_checkpoint"):
                        _save(run, step, row)
                    saved = step
            finally:
                _record(run, step, row | phases.metrics(tokens=row["perf/total_num_tokens"]))
    except StopRequested:
        if done > saved:
            _save(run, done, row)
        raise


def _step(run: Run, step: int, tasks: Sequence[Task], phases: Phases, stop: StopSignals) -> dict[str, float]:
    """One optimizer step, from tasks to updated weights; returns its metrics."""
    common = run.ajet.trainer_common
    stop.safe_point()
    with phases("gen"):
        samples = run.rollout.run(
            tasks,
            repeats=run.ajet.rollout.num_repeat,
            sampling=run.train_sampling,
            seed=derive_seed(common.seed, "rollout", step),
        )
        batch = collate(samples, pad_id=0)  # any id will do, padding is masked
    stop.safe_point()
    with phases("old_log_prob"):
        old_logprobs = run.training.logprobs(batch)
    ref_logprobs = None
    if common.use_kl_loss:
        with phases("ref"):
            ref_logprobs = run.training.reference_logprobs(batch)
    with phases("adv"):
        advantages = _advantages(run, step, samples)
    with phases("update_actor"):
        update = run.training.update(
            batch, old_logprobs=old_logprobs, ref_logprobs=ref_logprobs, advantages=advantages, step=step
        )
    return update | batch_metrics(samples, batch, advantages, old_logprobs, longest_response(run.ajet))


def _advantages(run: Run, step: int, samples: Sequence[Sample]) -> torch.Tensor:
    """[B] group-relative advantages; the control experiment first deals rewards to the wrong samples."""
    algorithm = run.ajet.trainer_common.algorithm
    rewards = torch.tensor([sample.reward for sample in samples])
    if algorithm.shuffle_rewards:
        seed = derive_seed(run.ajet.trainer_common.seed, "shuffled rewards", step)
        rewards = rewards[torch.randperm(len(rewards), generator=torch.Generator().manual_seed(seed))]
    groups = torch.arange(len(samples)) // run.ajet.rollout.num_repeat
    return grpo_advantages(rewards, groups, norm_by_std=algorithm.norm_adv_by_std)


def _validate(run: Run, step: int) -> dict[str, float]:
    """Try every validation task, write the results down, return the `val/…` metrics."""
    common = run.ajet.trainer_common
    samples = run.rollout.run(
        run.validation_tasks,
        repeats=common.val_pass_n,
        sampling=run.val_sampling,
        seed=derive_seed(common.seed, "validation", step),
    )
    result = summarize(step, samples)
    write_down(result, run.validation_record, run.validation_table)
    return result.metrics()


def _save(run: Run, step: int, row: Mapping[str, float]) -> None:
    run.checkpoints.save(
        step,
        run.training,
        run.tokenizer,
        start_digest=run.start_digest,
        row=row,
        config=run.ajet.model_dump(mode="json"),
    )


def _record(run: Run, step: int, row: Mapping[str, float]) -> None:
    run.metrics.write(step, row)
    if run.service is not None:
        run.service.log(row, step)


def _due(step: int, every: int, *, at_end: bool) -> bool:
    return at_end or (every > 0 and step % every == 0)


def _failed(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr, flush=True)
    return 1


def _say(line: str) -> None:
    """Progress for a watcher; never shaped like a metric row."""
    print(f"[ajet] {line}", flush=True)
    _log.info(line)
