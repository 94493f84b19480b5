"""How many steps a run has and what a step holds: counted from the config and the data, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainer_core.bounds import MICRO_BATCH_TOKENS
from trainer_core.config.problems import Finding
from trainer_core.config.schema import Ajet
from trainer_core.tasks.order import steps_per_epoch
from trainer_core.types import TaskSplits


@dataclass(frozen=True)
class Schedule:
    """The counts of a run. What follows from the number of training tasks is None where that is unknown."""

    training_tasks: int | None
    steps_per_epoch: int | None
    total_steps: int | None
    """0 when the run only validates."""
    tasks_per_step: int
    samples_per_step: int
    mini_batches: int
    """In each pass over a step's samples; fewer than asked for where there are not as many groups."""
    optimizer_steps: int
    """In each step, of all passes."""
    samples_per_mini_batch: int
    micro_batch_tokens: int
    """Bound on the tokens that are computed on at once, with gradients."""

    @property
    def tasks_left_out(self) -> int | None:
        """Training tasks of every epoch that fill no batch."""
        if self.training_tasks is None or self.steps_per_epoch is None:
            return None
        return self.training_tasks - self.steps_per_epoch * self.tasks_per_step


def schedule(ajet: Ajet, training_tasks: int | None) -> Schedule:
    """Count.

    Raises:
        DataError: the training tasks do not fill one batch.
    """
    common, tasks = ajet.trainer_common, ajet.data.train_batch_size
    per_epoch = total = None
    if common.val_only:
        total = 0
    elif training_tasks is not None:
        per_epoch = steps_per_epoch(training_tasks, tasks)
        total = common.total_epochs * per_epoch
    samples = tasks * ajet.rollout.num_repeat
    dealt = tasks if common.mini_batch_of == "group" else samples
    mini_batches = min(common.mini_batch_num, dealt)
    return Schedule(
        training_tasks=training_tasks,
        steps_per_epoch=per_epoch,
        total_steps=total if common.val_only else common.total_training_steps or total,
        tasks_per_step=tasks,
        samples_per_step=samples,
        mini_batches=mini_batches,
        optimizer_steps=mini_batches * common.ppo_epochs,
        samples_per_mini_batch=-(-dealt // mini_batches) * (samples // dealt),
        micro_batch_tokens=ajet.rollout.ppo_max_token_len_per_gpu or MICRO_BATCH_TOKENS,
    )


def doubts(ajet: Ajet, planned: Schedule, tasks: TaskSplits | None) -> Iterator[Finding]:
    """What is done as told but hardly what was meant, as far as only the data shows it.

    `tasks`: None where they were counted and not read.
    """
    common, steps = ajet.trainer_common, planned.total_steps
    rises = common.optim.lr_warmup_steps
    if steps and rises >= steps:
        why = f"the training ends after {steps} steps, before the learning rate has risen to its full height"
        yield _doubt("trainer_common.optim.lr_warmup_steps", rises, why, "Lower it.")
    if planned.mini_batches < common.mini_batch_num:
        why = f"a step has {planned.tasks_per_step} groups, so no more mini-batches"
        fix = "Lower it, or set mini_batch_of: sequence."
        yield _doubt("trainer_common.mini_batch_num", common.mini_batch_num, why, fix)
    if (left_out := planned.tasks_left_out) and left_out > (planned.training_tasks or 0) // 4:
        why = (
            f"{left_out} of {planned.training_tasks} training tasks fill no batch and are left out each epoch"
        )
        yield _doubt(
            "data.train_batch_size", planned.tasks_per_step, why, "Choose a size that divides better."
        )
    longest = ajet.data.max_prompt_length + longest_response(ajet)
    longest = -(-longest // (common.ulysses_sequence_parallel_size if ajet.backbone == "verl" else 1))
    if planned.micro_batch_tokens < longest:
        why = f"a sample can have {longest} tokens and is then computed on alone, beyond this bound"
        fix = f"Raise it to {longest}, or shorten prompts and answers."
        yield _doubt("rollout.ppo_max_token_len_per_gpu", planned.micro_batch_tokens, why, fix)
    if tasks is None:
        return
    known = {task.main_query for task in tasks.training}
    if both := known.intersection(task.main_query for task in tasks.validation):
        why = f"{len(both)} validation questions are also trained on, such as {min(both)[:60]!r}"
        yield _doubt("task_reader.type", ajet.task_reader.type, why, "Take them out of one of the two.")


def validates(ajet: Ajet) -> bool:
    """True if the run tries the validation tasks at all."""
    common = ajet.trainer_common
    return common.val_only or common.val_before_train or common.test_freq > 0


def longest_response(ajet: Ajet) -> int:
    """Tokens after which a response is cut off."""
    return min(ajet.data.max_response_length, ajet.rollout.max_response_length_in_one_turn)


def _doubt(key: str, value: int | str, why: str, fix: str) -> Finding:
    return Finding(f"ajet.{key}", value, "doubtful", why, fix)
