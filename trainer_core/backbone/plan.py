"""What a run would do, for `ajet --dry-run`: data is opened, the user's code is loaded, steps are counted,
memory is estimated.

Nothing here imports torch, transformers or datasets, or asks the network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainer_core.backbone.capacity import OFFLOAD_POLICY, gpu_memory, misfits, shortages, size_of
from trainer_core.backbone.memory import Memory, estimate
from trainer_core.backbone.schedule import Schedule, doubts, schedule, validates
from trainer_core.companion import companions
from trainer_core.config.problems import Finding
from trainer_core.config.schema import Ajet
from trainer_core.config.section import path_of
from trainer_core.engine.shape import ModelShape, decoder_shape, shape_of_folder
from trainer_core.engine.tiny_model import check_size
from trainer_core.environments.verifiers import VerifiersEnvironments
from trainer_core.tasks.huggingface import check_has_validation, count_huggingface
from trainer_core.tasks.reader import read_tasks
from trainer_core.types import TrainingError

_TINY_VOCABULARY = 264
"""256 bytes, two marks and four roles, to the next multiple of 8."""


@dataclass(frozen=True)
class Plan:
    """What is known of a run before it starts."""

    schedule: Schedule
    validation_tasks: int | None
    """None: not counted."""
    tasks_are_written: bool
    """False: an outside model writes them when the run starts, and there may be fewer."""
    validations: int | None
    """How often they are tried; None: not counted."""
    samples_per_validation: int | None
    memory: dict[str, int] | None
    """Bytes at the peak, where the training computes (each GPU, or the machine), by what takes them, the
    largest first; None: the model's shape is not known here."""
    main_memory: dict[str, int] | None
    """The same of each machine beside its GPUs; {} without any."""
    gpu_memory: int | None
    """Bytes of the smallest GPU of this machine; None: none is seen, or none is needed."""
    parameters: int | None
    doubts: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as a mapping that `json` can write, without the doubts."""
        return {name: value for name, value in asdict(self).items() if name != "doubts"}


def make_plan(ajet: Ajet, raw: Mapping[str, Any] | None = None) -> Plan:
    """Find out what the run would do. `raw`: keys of verl itself.

    Raises:
        DataError: the training could not start with this data.
        TrainingError: it could not for another reason.
    """
    if ajet.rollout.user_workflow is not None or ajet.task_judge.judge_type == "customized_protocol":
        from trainer_core.backbone.users_code import users_code

        users_code(ajet, None)
    tasks, (training, validation, are_written) = None, _counted(ajet)
    is_far = ajet.enable_swarm_mode or ajet.task_reader.type in ("huggingface_dat_repo", "data_generation")
    if not is_far:
        asked = ajet.companions if ajet.task_reader.type in ("env_service", "openenv", "verifiers") else ()
        with TemporaryDirectory() as folder, companions(asked, Path(folder)):
            with VerifiersEnvironments(ajet.task_reader.environments, Path(folder)) as environments:
                tasks = read_tasks(ajet.task_reader, environments)
        training, validation = len(tasks.training), len(tasks.validation)
    planned = schedule(ajet, training)
    tried = None if validation is None else validation * ajet.trainer_common.val_pass_n
    validations = _validations(ajet, planned.total_steps)
    shape, memory, gpus, short = estimated(ajet, planned, 0 if validations == 0 else tried or 0, raw)
    found = [*doubts(ajet, planned, tasks), *short]
    return Plan(
        schedule=planned,
        validation_tasks=validation,
        tasks_are_written=are_written,
        validations=validations,
        samples_per_validation=tried,
        memory=memory.device if memory else None,
        main_memory=memory.host if memory else None,
        gpu_memory=min(gpus, default=None),
        parameters=shape.parameters if shape else None,
        doubts=tuple(found),
    )


def told(plan: Plan, ajet: Ajet) -> Iterator[str]:
    """The plan in a few lines."""
    planned, common = plan.schedule, ajet.trainer_common
    counts = ((planned.training_tasks, "training"), (plan.validation_tasks, "validation"))
    data = ", ".join(_tasks(count, split) for count, split in counts)
    if ajet.enable_swarm_mode:
        yield "data        episodes come from the clients of a swarm"
    elif plan.tasks_are_written:
        yield f"data        {data}"
    else:
        writer = ajet.task_reader.data_generation.llm_model
        yield f"data        at most {data}; {writer} has yet to write those that are not cached"
    if common.val_only:
        yield "steps       none: the run only validates"
    else:
        rest = f" ({planned.tasks_left_out:,} tasks of each left out)" if planned.tasks_left_out else ""
        per_epoch = _number(planned.steps_per_epoch)
        yield f"steps       {_number(planned.total_steps)}; an epoch has {per_epoch}{rest}"
        yield (
            f"each step   {planned.tasks_per_step:,} tasks x {ajet.rollout.num_repeat} = "
            f"{planned.samples_per_step:,} samples; {planned.mini_batches} mini-batches of "
            f"{planned.samples_per_mini_batch:,}, {planned.optimizer_steps} optimizer steps, "
            f"micro-batches of at most {planned.micro_batch_tokens:,} tokens"
        )
    if plan.validations is None or plan.validations:
        times = _number(plan.validations, " times")
        yield f"validation  {times}, each time {_number(plan.samples_per_validation)} samples"
    if plan.memory is None:
        why = f"the shape of {ajet.model.path} is not known on this machine"
        if (owner := "trinity" if ajet.backbone == "trinity" else common.strategy) != "fsdp2":
            why = f"{owner.capitalize()} shares it out"
        yield f"memory      not estimated: {why}"
    elif plan.main_memory:
        has = f", which has {size_of(plan.gpu_memory)}" if plan.gpu_memory else "; none is seen here"
        yield f"GPU memory  {_parts(plan.memory)}, on each{has}"
        rollout = ajet.rollout
        if rollout.asks_vllm:
            turns = ", by turns" if rollout.free_cache_engine else ""
            yield f"            and {rollout.gpu_memory_utilization:.0%} of each GPU that vLLM uses{turns}"
        yield f"memory      {_parts(plan.main_memory)}, on each machine"
    else:
        yield f"memory      {_parts(plan.memory)}"


def _parts(memory: Mapping[str, int]) -> str:
    largest, *others = (f"{part} {size_of(size)}" for part, size in memory.items())
    total = size_of(sum(memory.values()))
    return f"about {total}: most of it {largest}" + (f", then {', '.join(others)}" if others else "")


def _number(count: int | None, unit: str = "") -> str:
    return "not counted" if count is None else f"{count:,}{unit}"


def _tasks(count: int | None, split: str) -> str:
    if count is None:
        return f"{split} tasks not counted: the data set is not on this machine"
    return f"{count:,} {split} tasks"


def _counted(ajet: Ajet) -> tuple[int | None, int | None, bool]:
    """Tasks to train on and to validate on, None where they are not counted, and whether they are there."""
    reader = ajet.task_reader
    if reader.type == "data_generation" and not ajet.enable_swarm_mode:
        from trainer_core.tasks.generation import count_generated

        return count_generated(reader.data_generation)
    if reader.type != "huggingface_dat_repo" or ajet.enable_swarm_mode:
        return None, None, True
    repo = reader.huggingface_dat_repo
    if validates(ajet):
        check_has_validation(repo.dataset_path)
    splits = (repo.training_split, repo.validation_split if validates(ajet) else None)
    training, validation = (
        count_huggingface(repo.dataset_path, repo.dataset_name, split) if split else 0 for split in splits
    )
    return training, validation, True


def _validations(ajet: Ajet, steps: int | None) -> int | None:
    common = ajet.trainer_common
    if common.val_only or common.test_freq <= 0:
        return int(common.val_only or common.val_before_train)
    return None if steps is None else -(-steps // common.test_freq) + common.val_before_train


def estimated(
    ajet: Ajet, planned: Schedule, validated: int, raw: Mapping[str, Any] | None
) -> tuple[ModelShape | None, Memory | None, list[int], list[Finding]]:
    """The shape of the model and what memory the run takes, where the shape is known; the GPUs that are seen
    here, if they are needed; and where the run needs more than this machine has.

    `validated`: samples of a validation; `raw`: keys of verl itself.

    Raises:
        TrainingError: the model cannot be divided, or read, as the config asks.
    """
    if ajet.backbone == "trinity":
        return None, None, [], []
    shape = _shape(ajet)
    if shape is not None and (misfit := next(misfits(ajet, shape), None)):
        raise TrainingError(str(misfit).removesuffix("."))
    found: Any = raw or {}
    for name in OFFLOAD_POLICY.split(".")[1:]:
        found = found.get(name) if isinstance(found, Mapping) else None
    memory = None
    if shape is not None and ajet.trainer_common.strategy != "megatron":
        memory = estimate(shape, ajet, planned, validated, offloads=found is True)
    gpus = gpu_memory() if ajet.trainer_common.device == "cuda" else []
    return shape, memory, gpus, list(shortages(ajet, memory, gpus))


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
