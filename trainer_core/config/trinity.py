"""From keys of `ajet:` to a Trinity-RFT configuration: one table, and what is fixed beside it.

Written against Trinity-RFT 0.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.algorithm.names import KL_ESTIMATORS
from trainer_core.config.verl import raw_keys

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet, Config

_LOSS, _ENGINE, _OPTIMIZER = "algorithm.policy_loss_fn", "explorer.rollout_model", "algorithm.optimizer"
_TASKS = "buffer.explorer_input"
TARGETS: Mapping[str, tuple[str, ...]] = {
    "project_name": ("project",),
    "experiment_name": ("name",),
    "model.path": ("model.model_path",),
    "data.max_prompt_length": ("model.max_prompt_tokens",),
    "data.max_response_length": ("model.max_response_tokens",),
    "data.train_batch_size": ("buffer.batch_size",),
    "rollout.num_repeat": ("algorithm.repeat_times",),
    "rollout.temperature": ("model.temperature",),
    "rollout.top_p": ("model.top_p",),
    "rollout.top_k": ("model.top_k",),
    "rollout.max_model_len": ("model.max_model_len",),
    "rollout.max_num_seqs": (f"{_ENGINE}.extra_engine_args.max_num_seqs",),
    "rollout.gpu_memory_utilization": (f"{_ENGINE}.gpu_memory_utilization",),
    "rollout.tensor_model_parallel_size": (f"{_ENGINE}.tensor_parallel_size",),
    "rollout.n_vllm_engine": (f"{_ENGINE}.engine_num",),
    "rollout.ppo_max_token_len_per_gpu": ("trainer.max_token_len_per_gpu",),
    "trainer_common.nnodes": ("cluster.node_num",),
    "trainer_common.n_gpus_per_node": ("cluster.gpu_per_node",),
    "trainer_common.seed": (f"{_ENGINE}.seed", f"{_TASKS}.taskset.data_selector.seed"),
    "trainer_common.fsdp_config.param_offload": ("trainer.param_offload",),
    "trainer_common.fsdp_config.optimizer_offload": ("trainer.optimizer_offload",),
    "trainer_common.ulysses_sequence_parallel_size": ("trainer.ulysses_sequence_parallel_size",),
    "trainer_common.total_epochs": ("buffer.total_epochs",),
    "trainer_common.total_training_steps": ("buffer.total_steps", "trainer.total_steps"),
    "trainer_common.test_freq": ("explorer.eval_interval",),
    "trainer_common.val_before_train": ("explorer.eval_on_startup",),
    "trainer_common.save_freq": ("trainer.save_interval",),
    "trainer_common.max_checkpoints_to_keep": ("trainer.max_checkpoints_to_keep",),
    "trainer_common.checkpoint_base_dir": ("checkpoint_root_dir",),
    "trainer_common.resume": ("continue_from_checkpoint",),
    "trainer_common.logger": ("monitor.monitor_type",),
    "trainer_common.old_logprobs": ("algorithm.bypass_old_logprobs",),
    "trainer_common.clip_ratio_low": (f"{_LOSS}_args.clip_range_low",),
    "trainer_common.clip_ratio_high": (f"{_LOSS}_args.clip_range_high",),
    "trainer_common.kl_loss_type": ("algorithm.kl_loss_fn",),
    "trainer_common.kl_loss_coef": ("algorithm.kl_loss_fn_args.kl_coef",),
    "trainer_common.algorithm.adv_estimator": ("algorithm.algorithm_type",),
    "trainer_common.algorithm.gamma": ("algorithm.advantage_fn_args.gamma",),
    "trainer_common.algorithm.policy_loss": (_LOSS,),
    "trainer_common.algorithm.clip_ratio_c": (f"{_LOSS}_args.clip_ratio_c",),
    "trainer_common.algorithm.loss_agg_mode": ("algorithm.loss_agg_mode", f"{_LOSS}_args.loss_agg_mode"),
    "trainer_common.optim.lr": (f"{_OPTIMIZER}.lr",),
    "trainer_common.optim.lr_scheduler_type": (f"{_OPTIMIZER}.lr_scheduler_type",),
    "trainer_common.optim.lr_warmup_steps": (f"{_OPTIMIZER}.lr_warmup_steps",),
    "trainer_common.optim.betas": (f"{_OPTIMIZER}.betas",),
    "trainer_common.optim.weight_decay": (f"{_OPTIMIZER}.weight_decay",),
    "trainer_common.optim.grad_clip": ("trainer.grad_clip", f"{_OPTIMIZER}.clip_grad"),
}
"""Keys below `ajet`, and where they stand in Trinity's configuration."""
ESTIMATORS = {"grpo": "multi_step_grpo", "rloo": "rloo", "reinforce_plus_plus": "reinforceplusplus"}
"""Advantage estimators that Trinity has → `algorithm_type`. Its `grpo` compares sequences, its
`multi_step_grpo` episodes, as `advantage_estimation_episode_level` asks."""
AGGREGATIONS = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
KL_NAMES = tuple(KL_ESTIMATORS)
_ADAPTER = "trainer_core.backbone.in_trinity"
LOGGERS = {"console": "PrintedMetrics", "tensorboard": "PrintedMetrics", "wandb": "", "swanlab": ""}
"""Loggers that Trinity has → the adapter's class in their place."""
_NEVER = 10**9
_CONVERTED: Mapping[str, Callable[[Any], Any]] = {
    "model.path": lambda path: str(Path(path).expanduser()) if path.startswith("~") else path,
    "trainer_common.test_freq": lambda steps: steps if steps > 0 else _NEVER,
    "trainer_common.save_freq": lambda steps: max(steps, 0),
    "trainer_common.max_checkpoints_to_keep": lambda most: most or 0,
    "trainer_common.checkpoint_base_dir": lambda folder: str(Path(folder).absolute()),
    "trainer_common.resume": lambda resume: resume == "auto",
    "trainer_common.logger": lambda name: f"{_ADAPTER}.{LOGGERS[name]}" if LOGGERS[name] else name,
    "trainer_common.old_logprobs": lambda source: source == "rollout",
    "trainer_common.kl_loss_type": lambda name: {"kl": "k1", "mse": "k2"}.get(name, name),
    "trainer_common.algorithm.adv_estimator": ESTIMATORS.__getitem__,
    "trainer_common.optim.betas": list,
}


def targets(path: str) -> tuple[str, ...]:
    """Where a key of ours, seen from the root, stands in Trinity's configuration; () where it does not."""
    return TARGETS.get(path.removeprefix("ajet."), ())


def rendered(config: Config, *, total_steps: int | None) -> dict[str, Any]:
    """Trinity's configuration, as the tree of its YAML file: what is set in `ajet:`, what is fixed, and the
    keys of `trinity:` on top.

    Args:
        total_steps: of the run; None: not known, `total_epochs` decides.

    Raises:
        TrainingError: a key of `trinity:` has a name in `ajet:`.
    """
    ajet = config.ajet
    values = dict.fromkeys(TARGETS["trainer_common.total_training_steps"], total_steps)
    for path, places in TARGETS.items():
        value = attrgetter(path)(ajet)
        if (made := _CONVERTED.get(path, lambda same: same)(value)) is not None:
            values |= dict.fromkeys(places, made)
    values = {path: value for path, value in (values | _fixed(ajet)).items() if value is not None}
    values.update(raw_keys("trinity", config.trinity, TARGETS))
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return tree


def tasks_folder(ajet: Ajet) -> Path:
    """Where the tasks are written for Trinity: a file for each split."""
    return Path(ajet.experiment_dir, "tasks").absolute()


def _fixed(ajet: Ajet) -> dict[str, Any]:
    """What follows from several keys, or is the same in every run; None: left to Trinity."""
    common, rollout, chosen = ajet.trainer_common, ajet.rollout, ajet.trainer_common.algorithm
    sequences = ajet.data.train_batch_size * rollout.num_repeat * rollout.multi_turn.expected_steps
    groups = min(ajet.data.train_batch_size, max(1, rollout.max_env_worker // rollout.num_repeat))
    waves = -(-rollout.num_repeat // rollout.max_env_worker)  # of the repeats of a task, which run together
    values: dict[str, Any] = {
        "mode": "colocate" if common.nnodes * common.n_gpus_per_node == 1 else "both",
        "algorithm.entropy_loss_fn": "none",
        "algorithm.kl_penalty_fn": "none",
        f"{_OPTIMIZER}.min_lr_ratio": 0.0,
        "buffer.train_batch_size": sequences,
        f"{_ENGINE}.enable_openai_api": True,
        "explorer.runner_per_model": -(-groups // rollout.n_vllm_engine),
        "explorer.max_timeout": waves * ajet.task_runner.wrapper_multiprocessing_timeout + 60,
        "synchronizer.sync_style": "fixed",
        "synchronizer.sync_interval": 1,
        f"{_TASKS}.taskset.data_selector.selector_type": "shuffle",
        **{f"{_TASKS}.taskset.{name}": value for name, value in _taskset(ajet, "training", "train").items()},
        f"{_TASKS}.eval_tasksets": [],
    }
    if common.test_freq > 0 or common.val_before_train:
        validation = {**_taskset(ajet, "validation", "test"), "repeat_times": common.val_pass_n}
        values[f"{_TASKS}.eval_tasksets"] = [validation]
    if chosen.adv_estimator == "grpo" and not common.advantage_estimation_episode_level:
        values["algorithm.algorithm_type"] = "grpo"
    if chosen.adv_estimator != "reinforce_plus_plus":
        values["algorithm.advantage_fn_args.gamma"] = None
    if chosen.policy_loss != "ppo":
        values[f"{_LOSS}_args.clip_ratio_c"] = None
    if not common.use_kl_loss:
        values["algorithm.kl_loss_fn"] = "none"
    return values


def _taskset(ajet: Ajet, name: str, split: str) -> dict[str, Any]:
    """A split of the tasks, and what plays them."""
    return {
        "name": name,
        "split": split,
        "path": str(tasks_folder(ajet)),
        "default_workflow_type": f"{_ADAPTER}.PlayAjet",
        "workflow_args": {
            "folder": str(Path(ajet.experiment_dir).absolute()),
            "started_in": str(Path.cwd()),
        },
    }
