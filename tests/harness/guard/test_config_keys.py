"""The tables of keys: complete for the trainer's own tree, and right for the trees people bring."""

import pytest

from harness.guard.config_keys import (
    ajet_meaning,
    is_protected,
    meaning,
    named_segments,
    nearest_ajet_key,
)
from trainer_core.config.keys import all_keys


def test_every_key_of_the_trainer_has_been_judged() -> None:
    known = [key.path for key in all_keys().values() if key.path.startswith("ajet.") and not key.is_section]
    assert len(known) > 150
    assert [path for path in known if ajet_meaning(path.removeprefix("ajet.")).role == "unknown"] == []


def test_no_key_stands_in_the_table_that_the_trainer_does_not_have() -> None:
    from harness.guard.config_keys import _ajet_table

    paths = set(all_keys())
    assert [key for key in _ajet_table() if f"ajet.{key.removesuffix('.*')}" not in paths] == []


VERL = {
    "running": [
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "actor_rollout_ref.rollout.tensor_model_parallel_size",
        "actor_rollout_ref.rollout.max_num_batched_tokens",
        "actor_rollout_ref.rollout.max_num_seqs",
        "actor_rollout_ref.rollout.enforce_eager",
        "actor_rollout_ref.rollout.free_cache_engine",
        "actor_rollout_ref.actor.fsdp_config.param_offload",
        "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
        "actor_rollout_ref.actor.use_dynamic_bsz",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
        "actor_rollout_ref.model.enable_gradient_checkpointing",
        "actor_rollout_ref.model.use_remove_padding",
        "actor_rollout_ref.model.enable_activation_offload",
        "reward_model.micro_batch_size_per_gpu",
        "data.filter_overlong_prompts_workers",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        "trainer.save_freq",
        "trainer.max_actor_ckpt_to_keep",
        "ray_init.num_cpus",
        "actor_rollout_ref.rollout.name",
        "actor_rollout_ref.rollout.mode",
        "actor_rollout_ref.rollout.agent.num_workers",
        "actor_rollout_ref.rollout.update_weights_bucket_megabytes",
        "actor_rollout_ref.actor.strategy",
    ],
    "science": [
        "actor_rollout_ref.model.lora_rank",
        "actor_rollout_ref.model.target_modules",
        "actor_rollout_ref.actor.ppo_mini_batch_size",
        "actor_rollout_ref.actor.clip_ratio",
        "actor_rollout_ref.actor.entropy_coeff",
        "actor_rollout_ref.actor.kl_loss_coef",
        "actor_rollout_ref.actor.loss_agg_mode",
        "actor_rollout_ref.actor.optim.lr",
        "actor_rollout_ref.actor.optim.total_training_steps",
        "actor_rollout_ref.actor.grad_clip",
        "actor_rollout_ref.actor.shuffle",
        "actor_rollout_ref.actor.fsdp_config.model_dtype",
        "actor_rollout_ref.rollout.n",
        "actor_rollout_ref.rollout.temperature",
        "actor_rollout_ref.rollout.top_p",
        "actor_rollout_ref.rollout.response_length",
        "actor_rollout_ref.rollout.max_model_len",
        "actor_rollout_ref.rollout.load_format",
        "actor_rollout_ref.rollout.val_kwargs.n",
        "algorithm.adv_estimator",
        "algorithm.kl_ctrl.kl_coef",
        "algorithm.anything_new",
        "data.train_batch_size",
        "data.max_prompt_length",
        "data.truncation",
        "data.seed",
        "reward_model.reward_manager",
        "reward_model.timeout",
        "critic.optim.lr",
        "trainer.total_epochs",
        "trainer.test_freq",
        "trainer.val_before_train",
        "trainer.critic_warmup",
        "actor_rollout_ref.rollout.multi_turn.enable",
        "actor_rollout_ref.rollout.multi_turn.format",
    ],
    "place": [
        "actor_rollout_ref.model.path",
        "data.train_files",
        "data.trust_remote_code_path",
        "custom_reward_function.path",
        "trainer.default_local_dir",
        "trainer.default_hdfs_dir",
        "trainer.rollout_data_dir",
        "trainer.resume_from_path",
        "ray_kwargs.ray_init.runtime_env.env_vars.LD_PRELOAD",
        "ray_init.address",
        "data.custom_cls.name_class",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path",
        "callback._target_",
        "hydra.searchpath",
    ],
    "tracker": ["trainer.logger", "trainer.use_wandb"],
    "unknown": [
        "actor_rollout_ref.rollout.ignore_eos",
        "actor_rollout_ref.rollout.skip_rollout",
        "actor_rollout_ref.hybrid_engine",
        "critic.enable",
        "trainer.use_legacy_worker_impl",
    ],
}
HUGGING_FACE = {
    "running": [
        "gradient_checkpointing",
        "dataloader_num_workers",
        "dataloader_pin_memory",
        "per_device_eval_batch_size",
        "torch_empty_cache_steps",
        "attn_implementation",
        "ddp_timeout",
        "save_steps",
        "save_total_limit",
        "logging_steps",
        "vllm_gpu_memory_utilization",
        "vllm_tensor_parallel_size",
        "vllm_server_port",
        "vllm_server_timeout",
        "use_liger_kernel",
        "torch_compile",
        "dataset_num_proc",
        "preprocessing_num_workers",
        "optim_offload",
        "ddp_bucket_cap_mb",
        "skip_memory_metrics",
        "include_tokens_per_second",
        "enable_liger_kernel",
        "plot_loss",
        "preprocessing_batch_size",
        "saves_per_epoch",
        "dataset_processes",
        "flash_attention",
        "fsdp_config.fsdp_offload_params",
    ],
    "science": [
        "learning_rate",
        "warmup_ratio",
        "weight_decay",
        "adam_beta2",
        "max_grad_norm",
        "num_train_epochs",
        "max_steps",
        "lr_scheduler_type",
        "optim",
        "seed",
        "data_seed",
        "bf16",
        "load_in_4bit",
        "use_peft",
        "finetuning_type",
        "lora_target",
        "num_generations",
        "max_completion_length",
        "max_seq_length",
        "cutoff_len",
        "beta",
        "epsilon_high",
        "loss_type",
        "scale_rewards",
        "temperature",
        "top_k",
        "packing",
        "template",
        "stage",
        "eval_steps",
        "eval_strategy",
        "auto_find_batch_size",
        "group_by_length",
        "model_name",
        "model_revision",
        "neftune_noise_alpha",
        "remove_unused_columns",
        "load_best_model_at_end",
        "prediction_loss_only",
    ],
    "place": [
        "output_dir",
        "logging_dir",
        "model_name_or_path",
        "dataset_path",
        "hub_model_id",
        "hub_token",
        "deepspeed",
        "resume_from_checkpoint_path",
        "vllm_server_host",
        "vllm_server_base_url",
    ],
    "tracker": ["report_to"],
}
PLAIN = {
    "running": [
        "max_env_worker",
        "rollout.max_env_workers",
        "env_workers",
        "num_env_workers",
        "num_workers",
        "network.retries",
        "data.cache",
        "data.shared_memory",
        "data.multiprocessing_context",
        "cudnn_benchmark",
        "distributed.backend",
        "tokenizers_parallelism",
        "timeout_s",
        "train.perDeviceEvalBatchSize",
    ],
    "science": [
        "LR",
        "Learning-Rate",
        "learningRate",
        "batch_size",
        "batchSize",
        "train/lr",
        "optim.lr",
        "dropout",
        "hidden",
        "num_layers",
        "gamma",
        "epochs",
        "steps",
        "num_envs",
        "replay_memory_size",
        "num_parallel_envs",
        "envs_per_worker",
        "env.max_env_worker",
        "r",
        "rank",
        "seeds.[0]",
        "target_update",
        "num_return_sequences",
        "env.name",
        "network.dropout",
        "momentum",
    ],
    "place": ["out_dir", "run_name", "script", "ckpt_file", "include", "webhook", "offload_folder"],
    "limited": ["device", "resume", "offline", "local_files_only"],
    "tracker": ["wandb.mode", "trainer.create_wandb_logger", "comet.enabled"],
    "unknown": [
        *(
            "lr0",
            "imgsz",
            "wd",
            "eta",
            "num_boost_round",
            "few_shot",
            "dim",
            "num_experts",
            "name",
            "type",
            "size",
        ),
        *("version", "mosaic", "enabled", "fail_at_start", "strategy", "max_seconds", "wandb_project"),
    ],
}
NEMO = {
    "running": [
        "model.activations_checkpoint_granularity",
        "model.activations_checkpoint_num_layers",
        "model.distributed_timeout_minutes",
        "model.use_cpu_initialization",
        "model.dist_ckpt_format",
        "model.gradient_as_bucket_view",
        "exp_manager.checkpoint_callback_params.save_top_k",
        "trainer.strategy",
        "trainer.log_every_n_steps",
    ],
    "science": ["model.optim.grad_sync_dtype", "trainer.num_sanity_val_steps", "trainer.precision"],
}
WEAK_WORDS = {
    "running": [
        "reward_model.micro_batch_size_per_gpu",
        "reward_model.rollout.gpu_memory_utilization",
        "judge.num_workers",
    ],
    "science": [
        *("reward.strategy", "judge.strategy", "loss.strategy", "validation.strategy", "optimizer.strategy"),
        *("sampling.strategy", "algorithm.recompute_advantage", "algorithm.recompute_old_log_prob"),
        *("algorithm.context_parallel", "evaluation.compile", "evaluation.tracking", "metrics.comet"),
        *("rewards.scales.tracking_lin_vel", "reward.cache", "agent.keep_last_messages", "agent.timeout"),
        *("env.rollout_workers", "data.augmentation.strategy", "metrics.wandb", "tokenizer.verbose"),
    ],
}


@pytest.mark.parametrize(
    ("role", "key"),
    [
        (role, key)
        for tree in (VERL, HUGGING_FACE, PLAIN, NEMO, WEAK_WORDS)
        for role, keys in tree.items()
        for key in keys
    ],
)
def test_keys_of_other_trainers(role: str, key: str) -> None:
    assert meaning(tuple(key.split(".")), is_ajet=False).role == role


@pytest.mark.parametrize("key", [key for keys in VERL.values() for key in keys])
def test_raw_keys_of_verl_mean_the_same_below_verl_in_a_config_of_the_bundled_trainer(key: str) -> None:
    alone = meaning(tuple(key.split(".")), is_ajet=False)
    assert meaning(("verl", *key.split(".")), is_ajet=True) == alone


def test_unknown_words_at_the_top_of_an_ajet_config_are_left_to_people() -> None:
    assert meaning(("defaults", "[0]"), is_ajet=True).role == "place"
    assert meaning(("hydra", "searchpath"), is_ajet=True).role == "place"


def test_spelling_does_not_hide_a_key() -> None:
    assert named_segments(("Train/Opt.LR", "[3]", "per-Device")) == ("train", "opt", "lr", "per_device")
    assert ajet_meaning("rollout.temperature").kind == "sampling"
    assert meaning(("ajet", "Rollout", "Temperature"), is_ajet=True).role == "science"


def test_a_key_inside_a_fixed_section_is_fixed_and_a_section_is_what_is_in_it() -> None:
    assert ajet_meaning("model.anything.new").kind == "model"
    assert ajet_meaning("trainer_common").role == "science"
    assert ajet_meaning("trainer_common.fsdp_config").role == "running"


@pytest.mark.parametrize(
    ("path", "protected", "hit"),
    [
        ("ajet.rollout.max_num_seqs", "ajet.rollout.max_num_seqs", True),
        ("ajet.rollout.max_num_seqs", "rollout.max_num_seqs", True),
        ("ajet.rollout.max_num_seqs", "ajet.rollout", True),
        ("ajet.rollout.max_num_seqs", "ajet.rollout.*", True),
        ("ajet.rollout.max_num_seqs", "max_num_seqs", True),
        ("ajet.Rollout.max-num-seqs", "ajet.rollout.max_num_seqs", True),
        ("ajet.rollout", "ajet.rollout.max_num_seqs", True),
        ("ajet.rollout.max_num_seqs", "ajet.rollout.max_num", False),
        ("ajet.rollout.max_num_seqs", "max_num", False),
        ("ajet.rollout.max_num_seqs", "", False),
    ],
)
def test_protected_keys(path: str, protected: str, hit: bool) -> None:
    assert (is_protected(tuple(path.split(".")), [protected]) is not None) is hit


def test_what_a_misspelt_key_was_meant_to_be() -> None:
    assert nearest_ajet_key("trainer_common.kl_los_coef") == "trainer_common.kl_loss_coef"
    assert nearest_ajet_key("rollout.gpu_memory_utilisation") == "rollout.gpu_memory_utilization"
    assert nearest_ajet_key("rollout.zzzzz") is None
