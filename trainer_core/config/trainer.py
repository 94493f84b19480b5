"""`ajet.trainer_common`: schedule, algorithm, optimizer, and what is written where."""

from typing import Literal

from pydantic import Field

from trainer_core.config.section import DecayPair, NotNegative, Positive, Rate, Section, StepInterval

KlEstimator = Literal[
    "low_var_kl", "kl", "abs", "mse", "k1", "k2", "k3",
    "low_var_kl+", "kl+", "abs+", "mse+", "k1+", "k2+", "k3+",
]  # fmt: skip


class Algorithm(Section, concerns="algorithm"):
    """From rewards to advantages."""

    adv_estimator: Literal[
        "grpo",
        "gae",
        "grpo_passk",
        "opo",
        "reinforce_plus_plus",
        "reinforce_plus_plus_baseline",
        "remax",
        "rloo",
    ] = Field(
        default="grpo", description="Advantage estimator. `grpo`: relative to the group of the same task."
    )
    use_kl_in_reward: bool = Field(default=False, description="Subtract a KL penalty from the reward.")
    norm_adv_by_std: bool = Field(
        default=True, description="Divide advantages by the group's standard deviation (false: Dr. GRPO)."
    )
    shuffle_rewards: bool = Field(
        default=False,
        description="Control experiment: permute rewards across the batch; nothing should be learned.",
    )


class FsdpConfig(Section, concerns="how the training runs"):
    """Where sharded training keeps its state on GPUs."""

    param_offload: bool = Field(default=True, description="Keep parameters in main memory between updates.")
    optimizer_offload: bool = Field(
        default=True, description="Keep optimizer state in main memory between updates."
    )


class Optim(Section, concerns="optimizer"):
    """The optimizer."""

    optimizer: Literal["AdamW"] = Field(default="AdamW", description="Optimizer.")
    lr: Rate = Field(default=1e-6, description="Learning rate.")
    lr_scheduler_type: Literal["constant", "cosine"] = Field(
        default="constant", description="Course of the learning rate after its warm-up."
    )
    lr_warmup_steps: NotNegative = Field(default=0, description="Steps over which the rate rises from zero.")
    betas: DecayPair = Field(default=(0.9, 0.999), description="Decay of the two running means of AdamW.")
    weight_decay: float = Field(default=0.01, ge=0, description="Decoupled weight decay.")
    grad_clip: Rate = Field(default=20.0, description="Largest norm of the gradient.")


class TrainerCommon(
    Section,
    concerns="algorithm",
    but={
        "validation": "val_before_train val_pass_n val_only val_max_num_task_each_validation "
        "val_max_num_task_clip_method test_freq",
        "what is logged and saved": "save_freq max_checkpoints_to_keep save_trajectory_as_json_file",
        "amount of training": "total_epochs total_training_steps",
        "how the training runs": "resume num_threads nnodes n_gpus_per_node ulysses_sequence_parallel_size",
        "seed": "seed",
        "effective batch": "mini_batch_num",
        "experiment tracker": "logger",
        "name or output folder of the run": "checkpoint_base_dir val_print_to_markdown_file_path "
        "train_print_to_markdown_file_path",
    },
):
    """What is common to every backbone."""

    # when things happen
    val_before_train: bool = Field(default=False, description="Validate before the first update.")
    val_pass_n: Positive = Field(default=4, description="Attempts per validation task.")
    val_only: bool = Field(default=False, description="Validate once and end, without training.")
    val_max_num_task_each_validation: Positive | None = Field(
        default=None, description="Validate on at most so many tasks. null: on all."
    )
    val_max_num_task_clip_method: Literal["fix_seed_random_n", "random_n", "first_n"] = Field(
        default="fix_seed_random_n", description="Which tasks those are."
    )
    save_freq: StepInterval = Field(
        default=20, description="Updates between checkpoints; -1 or 0: only one at the end."
    )
    test_freq: StepInterval = Field(
        default=20, description="Updates between validations; -1 or 0: none on the way."
    )
    total_epochs: Positive = Field(default=50, description="Passes over the training tasks.")
    total_training_steps: Positive | None = Field(
        default=None, description="End after so many updates. null: `total_epochs` decides."
    )
    resume: Literal["auto", "never"] = Field(
        default="auto",
        description="`auto`: go on from the last checkpoint if there is one; `never`: refuse to start then.",
    )
    seed: NotNegative = Field(default=0, description="Seed of everything random: model, order, sampling.")
    num_threads: Positive = Field(
        default=1, description="CPU threads of the local backbone; the same number gives the same digits."
    )
    # hardware
    nnodes: Positive = Field(default=1, description="Machines.")
    n_gpus_per_node: Positive = Field(default=8, description="GPUs of each machine.")
    fsdp_config: FsdpConfig = Field(default_factory=FsdpConfig, description="Sharded training on GPUs.")
    ulysses_sequence_parallel_size: Positive = Field(default=1, description="GPUs that share one sequence.")
    # algorithm
    algorithm: Algorithm = Field(default_factory=Algorithm, description="From rewards to advantages.")
    mini_batch_num: Positive = Field(default=1, description="Optimizer steps per pass over a batch.")
    ppo_epochs: Positive = Field(default=1, description="Passes over each batch.")
    clip_ratio_low: float = Field(
        default=0.2, gt=0, lt=1, description="Probability ratios are clipped below 1 - this."
    )
    clip_ratio_high: Rate = Field(default=0.2, description="Probability ratios are clipped above 1 + this.")
    use_kl_loss: bool = Field(
        default=True, description="Add the KL divergence to the start model to the loss."
    )
    kl_loss_coef: float = Field(default=0.002, ge=0, description="Weight of that divergence.")
    kl_loss_type: KlEstimator = Field(
        default="low_var_kl",
        description="Estimator of the divergence; `k1` = `kl`, `k2` = `mse`, `k3` = `low_var_kl`. "
        "A trailing `+` keeps its value but takes the gradient of `k2`, which is right in expectation.",
    )
    kl_penalty_type: Literal["kl", "abs", "mse", "low_var_kl", "full"] = Field(
        default="kl", description="Estimator of the penalty when `use_kl_in_reward` is on."
    )
    loss_extra_scale_ratio: Rate = Field(default=1.0, description="Factor on the whole loss.")
    loss_weight_normalization_episode_level: bool = Field(
        default=False, description="Weigh samples so that every episode counts the same."
    )
    advantage_estimation_episode_level: bool = Field(
        default=False, description="Compute group statistics over episodes instead of samples."
    )
    optim: Optim = Field(default_factory=Optim, description="The optimizer.")
    # what is written
    logger: Literal["console", "swanlab", "wandb", "tensorboard"] = Field(
        default="console",
        description="Where metrics go, besides the console and `metrics.jsonl`, which always get them.",
    )
    checkpoint_base_dir: str = Field(
        default="auto",
        min_length=1,
        description="Folder of the checkpoints. `auto`: `{experiment_dir}/checkpoints`.",
    )
    max_checkpoints_to_keep: Positive | None = Field(
        default=None, description="Remove older checkpoints beyond this number. null: keep all."
    )
    val_print_to_markdown_file_path: str | None = Field(
        default=None, description="File that gets the table of validations, one row each."
    )
    train_print_to_markdown_file_path: str | None = Field(
        default=None, description="File that gets a table of training metrics, one row per update."
    )
    save_trajectory_as_json_file: bool = Field(
        default=False, description="Write every episode to a file of its own."
    )
