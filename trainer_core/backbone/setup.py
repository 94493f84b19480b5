"""From a config to everything a local run needs, ready to go on from its last checkpoint."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from trainer_core.backbone.checkpoint import Checkpoint, Checkpoints
from trainer_core.backbone.engines import start_model, training_engine
from trainer_core.config.load import resolved_yaml
from trainer_core.engine.local_inference import LocalInference
from trainer_core.engine.protocols import TrainingEngine
from trainer_core.engine.start_model import StartModel, weights_digest
from trainer_core.judge.judge import ExactMatchJudge, Judge, load_judge
from trainer_core.rollout.single_turn import SingleTurnRollout
from trainer_core.tasks.order import TaskOrder
from trainer_core.tasks.prompts import encode_prompts
from trainer_core.tasks.reader import read_tasks
from trainer_core.tracking.atomic import write_atomically
from trainer_core.tracking.environment import write_environment
from trainer_core.tracking.metrics import MetricsLog
from trainer_core.tracking.services import SERVICES, Outside
from trainer_core.types import Sampling, Task, TaskSplits, TrainingError
from trainer_core.validation.files import MarkdownTable, ValidationRecord, validation_columns

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet, Config
    from trainer_core.config.tasks import TaskJudge

_MAY_CHANGE = ("experiment_dir", "total_training_steps", "total_epochs", "save_freq", "test_freq", "markdown")
"""Parts of keys that a resumed run may change without a remark."""


@dataclass(frozen=True)
class Run:
    """The parts of a run, and where it stands."""

    ajet: Ajet
    start_step: int
    """The last step already done; 0 for a fresh run."""
    total_steps: int
    order: TaskOrder | None
    """None when the run only validates."""
    validation_tasks: tuple[Task, ...]
    tokenizer: Any
    training: TrainingEngine
    rollout: SingleTurnRollout
    train_sampling: Sampling
    val_sampling: Sampling
    start_digest: str
    """Digest of the weights that reinforcement learning starts from."""
    checkpoints: Checkpoints
    metrics: MetricsLog
    service: Outside | None
    validation_record: ValidationRecord
    validation_table: MarkdownTable | None

    def close(self) -> None:
        """Let the outside service send what is left."""
        if self.service is not None:
            self.service.finish()


def open_run(config: Config, *, say: Callable[[str], None], safe_point: Callable[[], None]) -> Run:
    """Read tasks, find or make the start model, load the last checkpoint, open the files.

    Raises:
        TrainingError: anything that keeps the run from starting.
    """
    ajet = config.ajet
    common = ajet.trainer_common
    folder = Path(ajet.experiment_dir)
    _prepare_process(folder, common.num_threads, common.seed)

    validates = common.val_only or common.val_before_train or common.test_freq > 0
    tasks = read_tasks(ajet.task_reader, validates=validates)
    order, total_steps = _schedule(ajet, tasks)
    say(
        f"{len(tasks.training)} training tasks, {len(tasks.validation)} validation tasks, {total_steps} steps"
    )
    if both := {task.main_query for task in tasks.training} & {task.main_query for task in tasks.validation}:
        say(f"warning: {len(both)} validation questions are also trained on, such as {min(both)[:60]!r}")
    judge = _judge(ajet.task_judge)
    start = start_model(ajet, tasks, say=say, safe_point=safe_point)
    start_digest = weights_digest(start.model)
    training = training_engine(ajet, start.model)
    checkpoints = Checkpoints(Path(common.checkpoint_base_dir), common.max_checkpoints_to_keep)
    checkpoint = checkpoints.latest()
    if checkpoint is not None:
        _check_resumable(checkpoint, ajet, start_digest, say)
        training.restore(checkpoint.folder, checkpoint.engine)
        say(f"going on after step {checkpoint.step}, from {checkpoint.folder}")
    done = checkpoint.step if checkpoint else None
    validated = done - 1 if done is not None and common.val_only else done  # val_only validates `done` again

    _describe_run(config, folder, start)
    metrics = MetricsLog(folder / "metrics.jsonl", sys.stdout, resume_step=done)
    if checkpoint is not None and metrics.last_step != checkpoint.step:
        metrics.write(checkpoint.step, checkpoint.row)  # it was killed between its checkpoint and its row
    return Run(
        ajet=ajet,
        start_step=done or 0,
        total_steps=total_steps,
        order=order,
        validation_tasks=tasks.validation,
        tokenizer=start.tokenizer,
        training=training,
        rollout=_rollout(ajet, start, tasks, judge),
        train_sampling=Sampling(ajet.rollout.temperature, ajet.rollout.top_p, ajet.rollout.top_k),
        val_sampling=_validation_sampling(ajet),
        start_digest=start_digest,
        checkpoints=checkpoints,
        metrics=metrics,
        service=_service(config, folder, say),
        validation_record=ValidationRecord(folder / "validation.jsonl", resume_step=validated),
        validation_table=_validation_table(ajet, validated),
    )


def _schedule(ajet: Ajet, tasks: TaskSplits) -> tuple[TaskOrder | None, int]:
    """Which tasks each step trains on, and how many steps there are."""
    common = ajet.trainer_common
    if common.val_only:
        return None, 0
    order = TaskOrder(tasks.training, ajet.data.train_batch_size, common.seed)
    return order, common.total_training_steps or common.total_epochs * order.steps_per_epoch


def _rollout(ajet: Ajet, start: StartModel, tasks: TaskSplits, judge: Judge) -> SingleTurnRollout:
    longest = ajet.data.max_prompt_length
    training = encode_prompts(start.tokenizer, tasks.training, max_prompt_length=longest)
    validation = encode_prompts(start.tokenizer, tasks.validation, max_prompt_length=longest)
    prompts = {**training, **validation}
    needed = max(map(len, prompts.values())) + longest_response(ajet)
    limit = getattr(start.model.config, "max_position_embeddings", None)
    if limit is not None and needed > limit:
        raise TrainingError(
            f"model.path: the model reads at most {limit} tokens, but the longest question and its answer "
            f"can take {needed}. Lower data.max_response_length, or shorten the questions"
        )
    return SingleTurnRollout(
        LocalInference(start.model, start.tokenizer),
        start.tokenizer,
        judge,
        prompts,
        longest_response(ajet),
    )


def longest_response(ajet: Ajet) -> int:
    """Tokens after which a response is cut off."""
    return min(ajet.data.max_response_length, ajet.rollout.max_response_length_in_one_turn)


def _prepare_process(folder: Path, num_threads: int, seed: int) -> None:
    """Threads, seed and log file of this process; the same digits for the same seed and number of threads."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(folder / "train.log", encoding="utf-8")
    except OSError as error:
        raise TrainingError(
            f"ajet.experiment_dir: cannot write to {folder.absolute()}: {error.strerror or error}"
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("trainer_core")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for earlier in logger.handlers:
        earlier.close()
    logger.handlers = [handler]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(num_threads)
    torch.manual_seed(seed)


def _judge(judge: TaskJudge) -> Judge:
    if judge.judge_type == "exact_match":
        return ExactMatchJudge()
    if judge.judge_type == "customized_protocol":
        return load_judge(judge.judge_protocol)
    raise TrainingError(
        f"task_judge.judge_type: {judge.judge_type!r} is not available on this backbone; "
        "use exact_match or customized_protocol"
    )


def _validation_sampling(ajet: Ajet) -> Sampling:
    chosen = ajet.rollout.val_kwargs
    return Sampling(chosen.temperature if chosen.do_sample else 0.0, chosen.top_p, chosen.top_k)


def _check_resumable(
    checkpoint: Checkpoint, ajet: Ajet, start_digest: str, say: Callable[[str], None]
) -> None:
    if ajet.trainer_common.resume == "never":
        raise TrainingError(
            f"trainer_common.resume is never, but {checkpoint.folder.parent} already holds the "
            "checkpoints of a run (the last is "
            f"{checkpoint.folder.name}). Choose another experiment_dir, or resume: auto"
        )
    before_name = checkpoint.config.get("experiment_name")
    own_folder = checkpoint.folder.parent.absolute() == Path(ajet.experiment_dir, "checkpoints").absolute()
    if before_name != ajet.experiment_name and not own_folder:
        raise TrainingError(
            f"checkpoint {checkpoint.folder} belongs to experiment {before_name!r}, not to "
            f"{ajet.experiment_name!r}. Choose another trainer_common.checkpoint_base_dir, or leave it out"
        )
    if checkpoint.start_digest != start_digest:
        raise TrainingError(
            f"checkpoint {checkpoint.folder} was trained from another start model than the one this "
            "config gives, so the KL loss "
            "would mean something else. Restore model.path, seed and task_reader, or choose "
            "another experiment_dir"
        )
    before, now = _flat(checkpoint.config), _flat(ajet.model_dump(mode="json"))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key) and not any(part in key for part in _MAY_CHANGE):
            say(f"warning: ajet.{key} was {before.get(key)!r} up to here and is {now.get(key)!r} from now on")


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return leaves


def _describe_run(config: Config, folder: Path, start: StartModel) -> None:
    write_atomically(folder / "config.resolved.yaml", resolved_yaml(config))
    write_environment(
        folder / "environment.json",
        {
            "seed": config.ajet.trainer_common.seed,
            "model_path": config.ajet.model.path,
            "model_parameters": start.model.num_parameters(),
            "start_model_cache_key": start.cache_key,
        },
    )


def _service(config: Config, folder: Path, say: Callable[[str], None]) -> Outside | None:
    name = config.ajet.trainer_common.logger
    if name == "console":
        return None
    tree = config.ajet.model_dump(mode="json")
    project, experiment = config.ajet.project_name, config.ajet.experiment_name
    return Outside(name, lambda: SERVICES[name](project, experiment, tree, folder), say)


def _validation_table(ajet: Ajet, done: int | None) -> MarkdownTable | None:
    path = ajet.trainer_common.val_print_to_markdown_file_path
    if path is None:
        return None
    return MarkdownTable(Path(path), validation_columns(ajet.trainer_common.val_pass_n), resume_step=done)
