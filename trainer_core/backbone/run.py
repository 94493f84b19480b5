"""From a config to a run: everything the loop needs, ready to go on from its last checkpoint."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
import transformers

from trainer_core.algorithm.correction import Correction
from trainer_core.backbone.checkpoint import Checkpoint, Checkpoints
from trainer_core.backbone.recording import open_recorder, validation_table
from trainer_core.backbone.rollouts import has_judge, make_gateway, single_turn, with_workflow
from trainer_core.backbone.schedule import doubts, longest_response, schedule
from trainer_core.config.load import resolved_yaml
from trainer_core.engine.protocols import InferenceEngine, Loss, TrainingEngine
from trainer_core.gateway import Gateway
from trainer_core.judge.choose import make_judge
from trainer_core.records.recorder import Recorder
from trainer_core.rollout.protocol import Rollout
from trainer_core.tasks.order import TaskOrder
from trainer_core.tasks.prompts import Prompts
from trainer_core.tasks.reader import read_tasks
from trainer_core.timeline import Limits
from trainer_core.tracking.atomic import write_atomically
from trainer_core.tracking.environment import write_environment
from trainer_core.tracking.metrics import MetricsLog
from trainer_core.tracking.services import SERVICES, Outside
from trainer_core.types import Episode, Sampling, Task, TaskSplits, TrainingError
from trainer_core.validation.files import MarkdownTable, ValidationRecord
from trainer_core.workflow.workflow import load_workflow

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet, Config

_MAY_CHANGE = ("experiment_dir", "total_training_steps", "total_epochs", "save_freq", "test_freq", "markdown")
"""Parts of keys that a resumed run may change without a remark."""


@dataclass(frozen=True)
class Engines:
    """What a backbone brings."""

    training: TrainingEngine
    inference: InferenceEngine
    start_digest: str
    """Digest of the weights that reinforcement learning starts from."""
    context: int | None
    """Tokens the model can read; None: no bound is known."""
    facts: Mapping[str, Any]
    """About the model, for `environment.json`."""


class Backbone(Protocol):
    """A module of this package that makes engines."""

    def read_tokenizer(self, ajet: Ajet) -> Any:
        """The tokenizer of the model, cheaply: prompts are looked at before the model is made."""

    def make_engines(
        self, ajet: Ajet, tasks: TaskSplits, *, say: Callable[[str], None], safe_point: Callable[[], None]
    ) -> Engines:
        """Engines on the start model.

        Raises:
            TrainingError: there is no such model, or it does not fit.
        """


@dataclass(frozen=True)
class Run:
    """The parts of a run, and where it stands."""

    ajet: Ajet
    start_step: int
    """The last step already done; 0 for a fresh run."""
    total_steps: int
    """0 when the run only validates."""
    order: TaskOrder | None
    """None when the run only validates."""
    validation_tasks: tuple[Task, ...]
    tokenizer: Any
    engines: Engines
    rollout: Rollout
    gateway: Gateway | None
    """What the workflow calls the model through, running; None where there is no workflow."""
    checkpoints: Checkpoints
    metrics: MetricsLog
    service: Outside | None
    validation_record: ValidationRecord
    validation_table: MarkdownTable | None
    episodes: Recorder
    say: Callable[[str], None]
    """Tells a person one line."""
    collected_ahead: Sequence[Episode] = ()
    """Episodes of the first step, from the checkpoint."""

    @property
    def training(self) -> TrainingEngine:
        return self.engines.training

    @property
    def inference(self) -> InferenceEngine:
        return self.engines.inference

    @property
    def train_sampling(self) -> Sampling:
        """How training episodes are sampled."""
        rollout = self.ajet.rollout
        return Sampling(rollout.temperature, rollout.top_p, rollout.top_k)

    @property
    def val_sampling(self) -> Sampling:
        """How validation episodes are sampled."""
        chosen = self.ajet.rollout.val_kwargs
        return Sampling(chosen.temperature if chosen.do_sample else 0.0, chosen.top_p, chosen.top_k)

    @property
    def loss(self) -> Loss:
        """What every optimizer step minimises."""
        common = self.ajet.trainer_common
        return Loss(
            common.algorithm.policy_loss,
            clip_low=common.clip_ratio_low,
            clip_high=common.clip_ratio_high,
            dual_clip=common.algorithm.clip_ratio_c,
            beta=common.algorithm.dro_beta,
            tau_positive=common.algorithm.tau_pos,
            tau_negative=common.algorithm.tau_neg,
            kl_coef=common.kl_loss_coef if common.use_kl_loss else 0.0,
            kl_estimator=common.kl_loss_type,
        )

    @property
    def correction(self) -> Correction | None:
        """What is done about sampling by another policy than the trainer's; None: nothing."""
        chosen = self.ajet.trainer_common.algorithm
        if chosen.rollout_is is None and chosen.rollout_rs is None:
            return None
        return Correction(
            chosen.rollout_is,
            chosen.rollout_is_threshold,
            chosen.rollout_is_threshold_lower,
            reject=chosen.rollout_rs,
            reject_above=chosen.rollout_rs_threshold or 2.0,
            reject_below=chosen.rollout_rs_threshold_lower,
        )

    @property
    def longest_response(self) -> int:
        """Tokens after which an answer is cut off."""
        return longest_response(self.ajet)

    @property
    def limits(self) -> Limits:
        """How long a sequence may be."""
        return Limits(self.ajet.rollout.max_model_len)

    @property
    def pieces(self) -> Callable[[Sequence[int]], Sequence[str]] | None:
        """The text of tokens, where calls are merged by text."""
        policy = self.ajet.context_tracker.timeline_merging_policy
        by_token = policy.timeline_compare_level == "token"
        return None if by_token else self.tokenizer.convert_ids_to_tokens

    def tasks_of_step(self, step: int) -> list[Task]:
        """The training tasks of a step."""
        return self.order.tasks_of_step(step) if self.order is not None else []

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, which count from 1: it rises linearly over `lr_warmup_steps` (the
        first step trains already), then stays, or falls to 0 along half a cosine."""
        optim = self.ajet.trainer_common.optim
        if step < optim.lr_warmup_steps:
            return optim.lr * step / optim.lr_warmup_steps
        if optim.lr_scheduler_type == "constant":
            return optim.lr
        done = (step - optim.lr_warmup_steps) / max(1, self.total_steps - optim.lr_warmup_steps)
        return optim.lr * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))

    def record(self, step: int, row: Mapping[str, float]) -> None:
        """Write the metric row of a step."""
        self.metrics.write(step, row)
        if self.service is not None:
            self.service.log(row, step)

    def save(self, step: int, row: Mapping[str, float], ahead: Sequence[Episode]) -> None:
        """Write the checkpoint of a step; `ahead`: the episodes collected for the next one."""
        self.checkpoints.save(
            step,
            self.engines.training,
            self.tokenizer,
            start_digest=self.engines.start_digest,
            row=row,
            config=self.ajet.model_dump(mode="json"),
            ahead=ahead,
        )

    def close(self) -> None:
        """Let the outside service send what is left, and gateway, engine and records go."""
        if self.gateway is not None:
            self.gateway.__exit__(None, None, None)
        asyncio.run(self.engines.inference.close())
        self.episodes.close()
        if self.service is not None:
            self.service.finish()


def open_run(
    config: Config, backbone: Backbone, *, say: Callable[[str], None], safe_point: Callable[[], None]
) -> Run:
    """Read tasks, find or make the start model, load the last checkpoint, open the files.

    Raises:
        TrainingError: anything that keeps the run from starting.
    """
    ajet = config.ajet
    common = ajet.trainer_common
    folder = Path(ajet.experiment_dir)
    _log_to(folder)
    set_up_libraries(common.num_threads, common.seed)

    validates = common.val_only or common.val_before_train or common.test_freq > 0
    tasks = read_tasks(ajet.task_reader, validates=validates)
    planned = schedule(ajet, len(tasks.training))
    total_steps = planned.total_steps or 0
    order = None if common.val_only else TaskOrder(tasks.training, ajet.data.train_batch_size, common.seed)
    say(
        f"{len(tasks.training)} training tasks, {len(tasks.validation)} validation tasks, {total_steps} steps"
    )
    for doubt in doubts(ajet, planned, tasks):
        say(f"warning: {doubt}")
    judge = make_judge(ajet.task_judge, folder=folder) if has_judge(ajet) else None
    named = ajet.rollout.user_workflow
    workflow = None if named is None else load_workflow(named)
    tokenizer = backbone.read_tokenizer(ajet)
    prompts = Prompts(tokenizer, ajet.data.max_prompt_length)
    longest = prompts.longest((*tasks.training, *tasks.validation)) if workflow is None else 0
    engines = backbone.make_engines(ajet, tasks, say=say, safe_point=safe_point)
    _check_context(ajet, longest, engines.context)
    checkpoints = Checkpoints(Path(common.checkpoint_base_dir), common.max_checkpoints_to_keep)
    checkpoint = _resume(checkpoints, ajet, engines, say)
    done = checkpoint.step if checkpoint else None
    validated = done - 1 if done is not None and common.val_only else done  # val_only validates `done` again

    _describe_run(config, folder, engines)
    metrics = MetricsLog(folder / "metrics.jsonl", sys.stdout, resume_step=done)
    if checkpoint is not None and metrics.last_step != checkpoint.step:
        metrics.write(checkpoint.step, checkpoint.row)  # it was killed between its checkpoint and its row
    gateway: Gateway | None = None
    if workflow is not None:
        gateway = make_gateway(ajet, engines.inference, tokenizer, engines.context).__enter__()
        rollout = with_workflow(ajet, engines.inference, tokenizer, judge, workflow, gateway, say=say)
    else:
        assert judge is not None  # only a workflow can do without
        rollout = single_turn(ajet, engines.inference, tokenizer, judge, prompts)
    return Run(
        ajet=ajet,
        start_step=done or 0,
        total_steps=total_steps,
        order=order,
        validation_tasks=tasks.validation,
        tokenizer=tokenizer,
        engines=engines,
        rollout=rollout,
        gateway=gateway,
        checkpoints=checkpoints,
        metrics=metrics,
        service=_service(config, folder, say),
        validation_record=ValidationRecord(folder / "validation.jsonl", resume_step=validated),
        validation_table=validation_table(ajet, validated),
        episodes=open_recorder(ajet, tokenizer, total_steps, done, validated, say),
        say=say,
        collected_ahead=checkpoint.ahead if checkpoint is not None and common.one_step_off_policy else (),
    )


def _resume(
    checkpoints: Checkpoints, ajet: Ajet, engines: Engines, say: Callable[[str], None]
) -> Checkpoint | None:
    """Load the last checkpoint there is."""
    found = checkpoints.resume(
        engines.training,
        check=lambda each: _check_resumable(each, ajet, engines.start_digest, say),
        say=say,
    )
    if found is not None:
        say(f"going on after step {found.step}, from {found.folder}")
    return found


def _check_context(ajet: Ajet, longest_prompt: int, context: int | None) -> None:
    needed = longest_prompt + longest_response(ajet)
    if context is not None and needed > context:
        raise TrainingError(
            f"model.path: the model reads at most {context} tokens, but the longest question and its answer "
            f"can take {needed}. Lower data.max_response_length, or shorten the questions"
        )


def _log_to(folder: Path) -> None:
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


def set_up_libraries(num_threads: int, seed: int) -> None:
    """Threads, seed and silence; the same digits for the same seed and number of threads."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(num_threads)
    torch.manual_seed(seed)


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


def _describe_run(config: Config, folder: Path, engines: Engines) -> None:
    write_atomically(folder / "config.resolved.yaml", resolved_yaml(config))
    seed, path = config.ajet.trainer_common.seed, config.ajet.model.path
    write_environment(folder / "environment.json", {"seed": seed, "model_path": path, **engines.facts})


def _service(config: Config, folder: Path, say: Callable[[str], None]) -> Outside | None:
    name = config.ajet.trainer_common.logger
    if name == "console":
        return None
    tree = config.ajet.model_dump(mode="json")
    project, experiment = config.ajet.project_name, config.ajet.experiment_name
    return Outside(name, lambda: SERVICES[name](project, experiment, tree, folder), say)
