"""From a config to a run: everything the loop needs, ready to go on from its last checkpoint."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers

from trainer_core.algorithm.correction import Correction
from trainer_core.backbone.checkpoint import Checkpoint, Checkpoints
from trainer_core.backbone.plan import estimated
from trainer_core.backbone.rollouts import open_rollout
from trainer_core.backbone.schedule import doubts, longest_response, schedule, validates
from trainer_core.backbone.swarm import open_swarm
from trainer_core.backbone.users_code import users_code
from trainer_core.companion import companions
from trainer_core.config.load import resolved_yaml
from trainer_core.config.verl import leaves
from trainer_core.environments.verifiers import VerifiersEnvironments
from trainer_core.records.recorder import Recorder
from trainer_core.tasks.order import TaskOrder
from trainer_core.tasks.prompts import Prompts
from trainer_core.tasks.reader import read_tasks
from trainer_core.tracking.atomic import write_atomically
from trainer_core.tracking.environment import write_environment
from trainer_core.tracking.metrics import MetricsLog
from trainer_core.tracking.services import Outside, connect
from trainer_core.types import Episode, Loss, Task, TaskSplits, TrainingError
from trainer_core.validation.files import ValidationFiles
from trainer_core.validation.pass_rates import summarize

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet, Config

_ENDLESS = 10**9
_MAY_CHANGE = ("experiment_dir", "total_training_steps", "total_epochs", "save_freq", "test_freq", "markdown")
"""Parts of keys that a resumed run may change without a remark."""


class Run:
    """The parts of a run, and where it stands."""

    def __init__(
        self,
        config: Config,
        closing: ExitStack,
        *,
        say: Callable[[str], None],
        safe_point: Callable[[], None],
    ) -> None:
        """Read tasks, find or make the start model, load the last checkpoint, open the files.

        Args:
            closing: gets what is to be closed.
            say: tells a person one line.

        Raises:
            TrainingError: anything that keeps the run from starting.
        """
        self.ajet = ajet = config.ajet
        self.say = say
        backbone = importlib.import_module(f"trainer_core.backbone.{ajet.backbone}")
        set_up_libraries(ajet.trainer_common.num_threads, ajet.trainer_common.seed)
        self._folder = Path(ajet.experiment_dir)
        judge, workflow = users_code(ajet, self._folder)
        is_asked = workflow is None and not ajet.enable_swarm_mode
        tasks = self._read_tasks(config, closing, safe_point)

        self.tokenizer = backbone.read_tokenizer(ajet)
        prompts = Prompts(self.tokenizer, ajet.data.max_prompt_length)
        longest = prompts.longest((*tasks.training, *tasks.validation)) if is_asked else 0
        self.longest_response = longest_response(ajet)
        """Tokens after which an answer is cut off."""
        engines = backbone.make_engines(config, tasks, closing, say=say, safe_point=safe_point)
        self.training, self.inference = engines.training, engines.inference
        self.start_digest = engines.start_digest
        needed = longest + self.longest_response
        if engines.context is not None and needed > engines.context:
            raise TrainingError(
                f"model.path: the model reads at most {engines.context} tokens, but the longest question and "
                f"its answer can take {needed}. Lower data.max_response_length, or shorten the questions"
            )
        by_text = ajet.context_tracker.timeline_merging_policy.timeline_compare_level == "text"
        self.pieces = self.tokenizer.convert_ids_to_tokens if by_text else None
        """The text of tokens, where calls are merged by text."""

        checkpoint = self._resume()
        write_atomically(self._folder / "config.resolved.yaml", resolved_yaml(config))
        facts = {"seed": ajet.trainer_common.seed, "model_path": ajet.model.path}
        facts |= {"device": ajet.trainer_common.device, **engines.facts}
        write_environment(self._folder / "environment.json", facts)
        self._open_records(checkpoint, closing)
        self.begins: Callable[[str], None] = lambda name: None
        """Told of each phase of a step."""
        if ajet.enable_swarm_mode:
            self.rollout, self.begins = open_swarm(self, engines, closing, safe_point)
        else:
            self.rollout = open_rollout(ajet, engines, self.tokenizer, judge, workflow, closing, say=say)

    def _read_tasks(self, config: Config, closing: ExitStack, safe_point: Callable[[], None]) -> TaskSplits:
        """Start what tasks may come from, read them, and plan the steps."""
        ajet, folder, say = config.ajet, self._folder, self.say
        is_swarm = ajet.enable_swarm_mode
        closing.enter_context(companions(ajet.companions, folder, say, safe_point))
        environments = closing.enter_context(VerifiersEnvironments(ajet.task_reader.environments, folder))
        tasks = TaskSplits((), (), ())
        if not is_swarm or (ajet.model.path == "tiny" and ajet.model.warmup.enabled):
            tasks = read_tasks(
                ajet.task_reader, environments, validates=validates(ajet), say=say, safe_point=safe_point
            )
        planned = schedule(ajet, None if is_swarm else len(tasks.training))
        common, size = ajet.trainer_common, ajet.data.train_batch_size
        self.validation_tasks = tasks.validation
        self.total_steps = planned.total_steps or (_ENDLESS if is_swarm else 0)
        """0 when the run only validates."""
        self.order = None
        if is_swarm:
            say(f"clients play the episodes, {planned.total_steps or 'any number of'} steps")
        elif not common.val_only:
            self.order = TaskOrder(tasks.training, size, common.seed)
        if not is_swarm:
            say(
                f"{len(tasks.training)} training tasks, {len(tasks.validation)} validation tasks, "
                f"{self.total_steps} steps"
            )
        short = estimated(ajet, planned, len(tasks.validation) * common.val_pass_n, config.verl)[-1]
        for doubt in (*doubts(ajet, planned, None if is_swarm else tasks), *short):
            say(f"warning: {doubt}")
        return tasks

    def _resume(self) -> Checkpoint | None:
        """Go on from the last checkpoint, if there is one."""
        common = self.ajet.trainer_common
        self.checkpoints = Checkpoints(Path(common.checkpoint_base_dir), common.max_checkpoints_to_keep)
        checkpoint = self.checkpoints.resume(
            self.training,
            check=lambda each: _check_resumable(each, self.ajet, self.start_digest, self.say),
            say=self.say,
        )
        self.start_step = 0 if checkpoint is None else checkpoint.step
        """The last step already done; 0 for a fresh run."""
        self.collected_ahead: Sequence[Episode] = ()
        """Episodes of the first step, from the checkpoint."""
        if checkpoint is not None:
            self.say(f"going on after step {checkpoint.step}, from {checkpoint.folder}")
            self.collected_ahead = checkpoint.ahead if common.one_step_off_policy else ()
        return checkpoint

    def _open_records(self, checkpoint: Checkpoint | None, closing: ExitStack) -> None:
        """Open what the run writes, and cut it back to the checkpoint."""
        ajet, common, folder = self.ajet, self.ajet.trainer_common, self._folder
        done = validated = None
        if checkpoint is not None:
            done = checkpoint.step
            is_again = common.val_only or ajet.enable_swarm_mode
            validated = done - 1 if is_again else done  # `done` is validated again
        self.metrics = MetricsLog(folder / "metrics.jsonl", sys.stdout, resume_step=done)
        if checkpoint is not None and self.metrics.last_step != done:
            self.metrics.write(checkpoint.step, checkpoint.row)  # killed between its checkpoint and its row
        self.service: Outside | None = None
        if (name := common.logger) != "console":
            names, tree = (ajet.project_name, ajet.experiment_name), ajet.model_dump(mode="json")
            self.service = Outside(name, lambda: connect(name, *names, tree, folder), self.say)
            closing.callback(self.service.finish)
        table = common.val_print_to_markdown_file_path
        self.validations = ValidationFiles(
            folder / "validation.jsonl",
            None if table is None else Path(table),
            common.val_pass_n,
            resume_step=validated,
        )
        self.episodes = Recorder(
            folder / "episodes",
            self.tokenizer,
            keeps=self._keeps_episodes,
            resume={"train": done, "validation": validated},
            say=self.say,
        )
        closing.callback(self.episodes.close)

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

    def evaluated(self, step: int, episodes: Sequence[Episode]) -> None:
        """Write down the eval episodes of a swarm that saw the weights of a step, as many of each task as
        there are of every task."""
        counts = Counter(episode.task.task_id for episode in episodes)
        kept = [episode for episode in episodes if episode.repeat < min(counts.values())]
        self.episodes.validation(step, kept)
        self.validations.write(summarize(step, kept))

    def record(self, step: int, row: Mapping[str, float]) -> None:
        """Write the metric row of a step."""
        self.metrics.write(step, row)
        if self.service is not None:
            self.service.log(row, step)

    def save(self, step: int, row: Mapping[str, float], ahead: Sequence[Episode]) -> None:
        """Write the checkpoint of a step; `ahead`: the episodes collected for the next one."""
        config = self.ajet.model_dump(mode="json")
        checkpoint = Checkpoint(step, self.start_digest, row, config, ahead)
        self.checkpoints.save(checkpoint, self.training, self.tokenizer)

    def _keeps_episodes(self, step: int) -> bool:
        """True if the episodes of a training step are recorded."""
        common = self.ajet.trainer_common
        is_validated = common.test_freq > 0 and step % common.test_freq == 0
        return common.save_trajectory_as_json_file or is_validated or step in (1, self.total_steps)


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
    before, now = dict(leaves(checkpoint.config)), dict(leaves(ajet.model_dump(mode="json")))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key) and not any(part in key for part in _MAY_CHANGE):
            say(f"warning: ajet.{key} was {before.get(key)!r} up to here and is {now.get(key)!r} from now on")
