"""What a run would do, for `ajet --dry-run`: the data is opened, steps are counted, memory is estimated.

Nothing here imports torch, transformers or datasets, or asks the network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainer_core.backbone.schedule import Schedule, doubts, longest_response, schedule
from trainer_core.config.problems import Finding
from trainer_core.config.schema import Ajet
from trainer_core.config.section import path_of
from trainer_core.engine.memory import ModelShape, Work, decoder_shape, estimate, shape_of_folder
from trainer_core.engine.tiny_model import check_size
from trainer_core.tasks.huggingface import count_huggingface
from trainer_core.tasks.reader import read_tasks

_TINY_VOCABULARY = 264
"""256 bytes, two marks and four roles, to the next multiple of 8."""


@dataclass(frozen=True)
class Plan:
    """What is known of a run before it starts."""

    schedule: Schedule
    validation_tasks: int | None
    """None: not counted."""
    validations: int | None
    """How often they are tried; None: not counted."""
    samples_per_validation: int | None
    memory: dict[str, int] | None
    """Bytes at the peak by what takes them, the largest first; None: the model's shape is not known here."""
    parameters: int | None
    doubts: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as a mapping that `json` can write, without the doubts."""
        return {name: value for name, value in asdict(self).items() if name != "doubts"}


def make_plan(ajet: Ajet) -> Plan:
    """Find out what the run would do.

    Raises:
        DataError: the training could not start with this data.
        TrainingError: it could not for another reason.
    """
    tasks, (training, validation) = None, _counted(ajet)
    if ajet.task_reader.type != "huggingface_dat_repo":
        tasks = read_tasks(ajet.task_reader)
        training, validation = len(tasks.training), len(tasks.validation)
    planned = schedule(ajet, training)
    tried = None if validation is None else validation * ajet.trainer_common.val_pass_n
    validations = _validations(ajet, planned.total_steps)
    shape = _shape(ajet)
    memory = estimate(shape, _work(ajet, planned, 0 if validations == 0 else tried or 0)) if shape else None
    found = [*doubts(ajet, planned, tasks), *_too_large(ajet, memory)]
    return Plan(
        schedule=planned,
        validation_tasks=validation,
        validations=validations,
        samples_per_validation=tried,
        memory=memory,
        parameters=shape.parameters if shape else None,
        doubts=tuple(found),
    )


def told(plan: Plan, ajet: Ajet) -> Iterator[str]:
    """The plan in a few lines."""
    planned, common = plan.schedule, ajet.trainer_common
    counts = ((planned.training_tasks, "training"), (plan.validation_tasks, "validation"))
    yield f"data        {', '.join(_tasks(count, split) for count, split in counts)}"
    if common.val_only:
        yield "steps       none: the run only validates"
    else:
        per_epoch = "not counted" if planned.steps_per_epoch is None else f"{planned.steps_per_epoch:,}"
        rest = f" ({planned.tasks_left_out:,} tasks of each left out)" if planned.tasks_left_out else ""
        total = "not counted" if planned.total_steps is None else f"{planned.total_steps:,}"
        yield f"steps       {total}; an epoch has {per_epoch}{rest}"
        yield (
            f"each step   {planned.tasks_per_step:,} tasks x {ajet.rollout.num_repeat} = "
            f"{planned.samples_per_step:,} samples; {planned.mini_batches} mini-batches of "
            f"{planned.samples_per_mini_batch:,}, {planned.optimizer_steps} optimizer steps, "
            f"micro-batches of at most {planned.micro_batch_tokens:,} tokens"
        )
    if plan.validations is None or plan.validations:
        times = "not counted" if plan.validations is None else f"{plan.validations:,} times"
        samples = "not counted" if plan.samples_per_validation is None else f"{plan.samples_per_validation:,}"
        yield f"validation  {times}, each time {samples} samples"
    if plan.memory is None:
        yield f"memory      not estimated: the shape of {ajet.model.path} is not known on this machine"
    else:
        largest, *others = (f"{part} {_size(size)}" for part, size in plan.memory.items())
        total = _size(sum(plan.memory.values()))
        yield f"memory      about {total}: most of it {largest}, then {', '.join(others)}"


def _tasks(count: int | None, split: str) -> str:
    if count is None:
        return f"{split} tasks not counted: the data set is not on this machine"
    return f"{count:,} {split} tasks"


def _counted(ajet: Ajet) -> tuple[int | None, int | None]:
    reader, common = ajet.task_reader, ajet.trainer_common
    if reader.type != "huggingface_dat_repo":
        return None, None
    repo = reader.huggingface_dat_repo
    validates = common.val_only or common.val_before_train or common.test_freq > 0
    splits = (repo.training_split, repo.validation_split if validates else None)
    training, validation = (
        count_huggingface(repo.dataset_path, repo.dataset_name, split) if split else 0 for split in splits
    )
    return training, validation


def _validations(ajet: Ajet, steps: int | None) -> int | None:
    common = ajet.trainer_common
    if common.val_only:
        return 1
    on_the_way = 0
    if common.test_freq > 0:
        if steps is None:
            return None
        on_the_way = -(-steps // common.test_freq)
    return on_the_way + common.val_before_train


def _work(ajet: Ajet, planned: Schedule, samples_per_validation: int) -> Work:
    common, rollout = ajet.trainer_common, ajet.rollout
    trains = not common.val_only
    return Work(
        prompt=ajet.data.max_prompt_length,
        answer=longest_response(ajet),
        samples=max(planned.samples_per_step if trains else 0, samples_per_validation),
        mini_batch=planned.samples_per_mini_batch,
        mini_batch_prompts=min(planned.tasks_per_step, planned.samples_per_mini_batch)
        if common.mini_batch_of == "sequence"
        else -(-planned.samples_per_mini_batch // ajet.rollout.num_repeat),
        micro_batch_tokens=planned.micro_batch_tokens,
        has_reference=common.use_kl_loss or common.algorithm.use_kl_in_reward,
        samples_apart=common.one_step_off_policy,
        is_tempered=rollout.temperature != 1.0,
        trains=trains,
        number_bytes=4 if common.model_dtype == "fp32" else 2,
        cache_bytes=rollout.kv_cache_memory_bytes,
        lora_rank=ajet.lora.lora_rank,
        recomputes=common.enable_gradient_checkpointing,
    )


def _shape(ajet: Ajet) -> ModelShape | None:
    if ajet.model.path == "tiny":
        shape = decoder_shape({**ajet.model.tiny.model_dump(), "vocab_size": _TINY_VOCABULARY})
        check_size(shape.parameters if shape else 0)
        return shape
    folder = path_of(ajet.model.path)
    return shape_of_folder(folder if folder.is_dir() else _in_hub_cache(ajet.model.path))


def _in_hub_cache(name: str) -> Path:
    """Where the Hugging Face hub keeps what it has downloaded of a model."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    kept = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    try:
        return kept / "snapshots" / (kept / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return kept


def _too_large(ajet: Ajet, memory: dict[str, int] | None) -> Iterator[Finding]:
    if ajet.trainer_common.device != "cpu":
        return
    needed, there = sum((memory or {}).values()), _memory_of_machine()
    if there and needed > there:
        why = f"the training may need {_size(needed)} of memory, and this machine has {_size(there)}"
        fix = "Lower ajet.rollout.ppo_max_token_len_per_gpu, or take a smaller model."
        yield Finding("ajet.model.path", ajet.model.path, "doubtful", why, fix)


def _memory_of_machine() -> int | None:
    """Bytes of main memory, or the limit of this control group if that is lower; None where unknown."""
    found = []
    try:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    except (OSError, ValueError):  # no such file, or no limit
        pass
    return min(found, default=None)


def _size(count: int) -> str:
    gigabytes = count / 1e9
    return f"{gigabytes:.1f} GB" if gigabytes >= 0.95 else f"{count / 1e6:.{0 if count > 1e7 else 1}f} MB"
