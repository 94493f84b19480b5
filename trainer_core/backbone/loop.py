"""The training loop. It knows neither models nor machines: engines do the work, a `Run` has them.

    collect → sequences → advantages → for each mini-batch: forward_backward, optim_step
            → update_weights → validate → log → checkpoint

With `one_step_off_policy` the answers of the next step are collected meanwhile, by the weights that this
step's update starts from: those of step k come from the weights after step k - 2.

Everything random is derived from the config's seed, the step and a purpose, so the loop carries no state but
the weights, the optimizer's and answers collected ahead, all of them in a checkpoint: a run resumed from one
gives the numbers of an uninterrupted one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import replace

import torch

from trainer_core.algorithm.correction import rollout_correction
from trainer_core.algorithm.weights import token_weights
from trainer_core.backbone.credit import episode_advantages, token_advantages
from trainer_core.backbone.phases import Phases
from trainer_core.backbone.run import Run
from trainer_core.backbone.stop import StopRequested, StopSignals
from trainer_core.rollout.metrics import rollout_metrics
from trainer_core.rollout.protocol import Tries
from trainer_core.seeds import derive_seed
from trainer_core.timeline import merge, to_batch
from trainer_core.tracking.batch_metrics import batch_metrics, drift_warning, mean_of
from trainer_core.types import Batch, Episode, Sampling, TrainingError
from trainer_core.validation.pass_rates import summarize

_GREEDY = -1


async def train(run: Run, stop: StopSignals) -> None:
    """Train until the last step of the run; StopRequested leaves a checkpoint of the last finished one."""
    common = run.ajet.trainer_common
    await run.inference.update_weights(run.start_step)
    if common.val_only or (run.start_step == 0 and common.val_before_train):
        run.record(run.start_step, await _validate(run, run.start_step))
    done = saved = run.start_step
    warned = False
    row: dict[str, float] = {}
    ahead = run.collected_ahead
    try:
        for step in range(run.start_step + 1, run.total_steps + 1):
            phases = Phases(time.perf_counter, run.begins)
            row, ahead = await _step(run, step, ahead, phases, stop)
            done = step
            if not warned and common.old_logprobs == "rollout" and (warning := drift_warning(step, row)):
                run.say(warning)
                warned = True
            if _due(step, common.test_freq, at_end=common.test_freq > 0 and step == run.total_steps):
                with phases("testing"):
                    row |= await _validate(run, step)
            try:
                if _due(step, common.save_freq, at_end=step == run.total_steps):
                    with phases("save_checkpoint"):
                        run.save(step, row, ahead)
                    saved = step
            finally:
                run.record(step, row | phases.metrics(tokens=row["perf/total_num_tokens"]))
    except StopRequested:
        if done > saved:
            run.save(done, row, ahead)
        raise


async def _step(
    run: Run, step: int, episodes: SequenceOf[Episode], phases: Phases, stop: StopSignals
) -> tuple[dict[str, float], SequenceOf[Episode]]:
    """One step, from tasks to updated weights; its metrics, and what was collected for the next step.
    `episodes`: of this step, where they were collected ahead."""
    stop.safe_point()
    if not episodes:
        with phases("gen"):
            episodes = await _collect(run, step)
    stop.safe_point()
    ahead: SequenceOf[Episode] = ()
    if run.ajet.trainer_common.one_step_off_policy and step < run.total_steps:
        collecting = asyncio.create_task(_collect(run, step + 1))
        row = await asyncio.to_thread(_learn, run, step, episodes, phases)
        with phases("gen"):
            ahead = await collecting
        await run.inference.pause()
    else:
        await run.inference.pause()
        row = _learn(run, step, episodes, phases)
    with phases("update_weights"):
        await run.inference.update_weights(step)
    await run.inference.resume()
    return row, ahead


async def _collect(run: Run, step: int) -> SequenceOf[Episode]:
    """The judged episodes of a step; where advantages want them, greedy ones at the end, with repeat -1."""
    tasks, seed = run.tasks_of_step(step), derive_seed(run.ajet.trainer_common.seed, "rollout", step)
    chosen = run.ajet.rollout
    sampling = Sampling(chosen.temperature, chosen.top_p, chosen.top_k)
    episodes = await run.rollout.run(tasks, Tries(chosen.num_repeat, sampling, seed, step=step))
    if run.ajet.trainer_common.algorithm.adv_estimator == "remax":
        greedy = await run.rollout.run(tasks, Tries(1, Sampling(temperature=0.0), seed))
        episodes += [replace(episode, repeat=_GREEDY) for episode in greedy]
    return episodes


def _learn(run: Run, step: int, collected: SequenceOf[Episode], phases: Phases) -> dict[str, float]:
    """From the episodes of a step to updated weights; returns its metrics."""
    common, engine = run.ajet.trainer_common, run.training
    greedy = [episode for episode in collected if episode.repeat == _GREEDY]
    episodes = [episode for episode in collected if episode.repeat != _GREEDY]
    merged = merge(episodes, run.ajet.rollout.max_model_len, pieces=run.pieces)
    if not merged.sequences:
        raise TrainingError(f"step {step}: none of {len(episodes)} episodes left anything to train on")
    batch, owner = to_batch(merged.sequences)
    metrics = dict(merged.metrics)
    if common.old_logprobs == "recompute":
        with phases("old_log_prob"):
            sampled, batch = batch.old_logprobs, replace(batch, old_logprobs=engine.forward(batch))
        if run.correction is not None:
            corrected = rollout_correction(
                batch.old_logprobs, sampled, batch.trained, batch.segment, run.correction
            )
            batch = replace(batch, trained=corrected.kept, weight=batch.weight * corrected.factors)
            metrics |= corrected.metrics
            if not batch.trained.any():
                raise TrainingError(f"step {step}: rollout_rs left nothing; raise rollout_rs_threshold")
    if common.uses_reference:
        with phases("ref"):
            batch = replace(batch, reference_logprobs=engine.forward(batch, "reference"))
    with phases("adv"):
        advantage, found = token_advantages(run, step, episodes, greedy, batch, owner)
        batch, metrics = replace(batch, advantage=advantage), metrics | found
    with phases("update_actor"):
        update = _update(run, step, batch, owner)
    run.episodes.training(step, episodes, episode_advantages(batch, owner, len(episodes)))
    return update | batch_metrics(episodes, batch, run.longest_response) | metrics | rollout_metrics(episodes)


def _update(run: Run, step: int, batch: Batch, owner: torch.Tensor) -> dict[str, float]:
    """The optimizer steps of one training step: `ppo_epochs` passes over `mini_batch_num` mini-batches."""
    lr, grad_clip = run.learning_rate(step), run.ajet.trainer_common.optim.grad_clip
    rows = []
    for mini_batch in _mini_batches(run, step, batch, owner):
        try:
            row = run.training.forward_backward(mini_batch, run.loss)
            rows.append(row | run.training.optim_step(lr, grad_clip))
        except TrainingError as error:
            raise TrainingError(f"step {step}: {error}") from error
    on_policy = {"training/rollout_probs_diff_max": rows[0]["training/rollout_probs_diff_max"]}
    return mean_of(rows) | on_policy | {"actor/lr": lr}


def _mini_batches(run: Run, step: int, batch: Batch, owner: torch.Tensor) -> Iterator[Batch]:
    """Shuffled sequences, or episodes' groups, cut into equal parts; each is weighed as a whole."""
    common = run.ajet.trainer_common
    dealt = (
        torch.arange(len(owner))
        if common.mini_batch_of == "sequence"
        else owner // run.ajet.rollout.num_repeat
    )
    random = torch.Generator().manual_seed(derive_seed(common.seed, "mini-batches", step))
    names = torch.unique(dealt)
    for _ in range(common.ppo_epochs):
        order = names[torch.randperm(len(names), generator=random)]
        for chosen in order.tensor_split(min(common.mini_batch_num, len(names))):
            keep = torch.isin(dealt, chosen)
            part = batch.select(keep)
            if not part.trained.any():
                continue  # all of it was rejected
            weights = token_weights(
                part.trained,
                part.segment,
                owner[keep],
                common.algorithm.loss_agg_mode,
                horizon=run.longest_response,
                episode_level=common.loss_weight_normalization_episode_level,
            )
            yield replace(part, weight=part.weight * weights * common.loss_extra_scale_ratio)


async def _validate(run: Run, step: int) -> dict[str, float]:
    """Try every validation task, write the results down, return the `val/…` metrics."""
    common, chosen = run.ajet.trainer_common, run.ajet.rollout.val_kwargs
    sampling = Sampling(chosen.temperature if chosen.do_sample else 0.0, chosen.top_p, chosen.top_k)
    seed = derive_seed(common.seed, "validation", step)
    tries = Tries(common.val_pass_n, sampling, seed, is_training=False)
    episodes = await run.rollout.run(run.validation_tasks, tries)
    run.episodes.validation(step, episodes)
    result = summarize(step, episodes)
    run.validations.write(result)
    return result.metrics() | {f"val/{name}": value for name, value in rollout_metrics(episodes).items()}


def _due(step: int, every: int, *, at_end: bool) -> bool:
    return at_end or (every > 0 and step % every == 0)
