"""`ajet.trainer_common`: schedule, algorithm, optimizer, and what is written where."""

import math
from typing import Literal

from trainer_core.config.section import (
    DecayPair,
    Fraction,
    NotNegative,
    Positive,
    Rate,
    Section,
    Seed,
    StepInterval,
    key,
    section,
)
from trainer_core.types import Aggregation, LossName, RejectionStatistic

KlEstimator = Literal[
    "low_var_kl", "kl", "abs", "mse", "k1", "k2", "k3",
    "low_var_kl+", "kl+", "abs+", "mse+", "k1+", "k2+", "k3+",
]  # fmt: skip


class KlCtrl(Section, concerns="algorithm"):
    """The KL penalty in the reward."""

    kl_coef: Rate = key(0.001, "Weight of the penalty when `use_kl_in_reward` is on.")


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
    ] = key("grpo", "Advantage estimator. `grpo`: relative to the group of the same task.")
    gamma: Fraction = key(1.0, "Discount per token of the return (`reinforce_plus_plus`, `gae`).")
    use_kl_in_reward: bool = key(False, "Subtract the KL divergence from the start model from the reward.")
    kl_ctrl: KlCtrl = section(KlCtrl, "How much it weighs there.")
    norm_adv_by_std: bool = key(True, "Divide advantages by the group's deviation (false: Dr. GRPO).")
    policy_loss: LossName = key("ppo", "Loss of the policy, per token.")
    clip_ratio_c: float = key(
        3.0, "`ppo`: ratios above this add nothing where the advantage is negative.", gt=1
    )
    dro_beta: Rate = key(0.05, "`dro`: weight of the squared log-ratio.")
    tau_pos: Rate = key(1.0, "`sapo`: temperature of the gate where the advantage is positive.")
    tau_neg: Rate = key(1.05, "`sapo`: the same where it is not positive.")
    loss_agg_mode: Aggregation = key("token-mean", "How a mini-batch's losses become one number.")
    rollout_is: Literal["token", "sequence"] | None = key(
        None, "Weigh tokens by the ratio of training to sampling probability, per token or sequence."
    )
    rollout_is_threshold: Rate = key(2.0, "Such weights are cut off above this.")
    rollout_is_threshold_lower: Rate | None = key(
        None, "Where set, a token whose weight is not between the two counts nothing (IcePop)."
    )
    rollout_rs: RejectionStatistic | None = key(
        None,
        "Leave out tokens or sequences where training and sampling differ by this statistic: "
        "k1 is the ratio sampling / training; k2 and k3 are distances in nats.",
    )
    rollout_rs_threshold: Rate | None = key(None, "They are above this value; needed with `rollout_rs`.")
    rollout_rs_threshold_lower: Rate | None = key(None, "k1: or below. null: 1 / `rollout_rs_threshold`.")
    shuffle_rewards: bool = key(
        False, "Control experiment: permute rewards across the batch; nothing should be learned."
    )


class FsdpConfig(Section, concerns="how the training runs"):
    """Where sharded training keeps its state on GPUs."""

    param_offload: bool = key(True, "Keep parameters in main memory between updates.")
    optimizer_offload: bool = key(True, "Keep optimizer state in main memory between updates.")


class Megatron(Section, concerns="how the training runs"):
    """How Megatron divides the model; what is left of the GPUs shares the samples."""

    tensor_model_parallel_size: Positive = key(1, "GPUs that share each layer.")
    pipeline_model_parallel_size: Positive = key(1, "Parts of the layers, each on GPUs of its own.")
    context_parallel_size: Positive = key(1, "GPUs that share one sequence.")


class Optim(Section, concerns="optimizer"):
    """The optimizer."""

    optimizer: Literal["AdamW"] = key("AdamW", "Optimizer.")
    lr: Rate = key(1e-6, "Learning rate.")
    lr_scheduler_type: Literal["constant", "cosine"] = key(
        "constant", "Course of the learning rate after its warm-up."
    )
    lr_warmup_steps: NotNegative = key(0, "Steps over which the rate rises from zero.")
    betas: DecayPair = key((0.9, 0.999), "Decay of the two running means of AdamW.")
    weight_decay: float = key(0.01, "Decoupled weight decay.", ge=0)
    grad_clip: Rate = key(20.0, "Largest norm of the gradient.")


class TrainerCommon(
    Section,
    concerns="algorithm",
    but={
        "validation": "val_before_train val_pass_n val_only val_max_num_task_each_validation "
        "val_max_num_task_clip_method test_freq",
        "what is logged and saved": "save_freq max_checkpoints_to_keep save_trajectory_as_json_file",
        "amount of training": "total_epochs total_training_steps",
        "how the training runs": "resume num_threads ray worker_timeout nnodes n_gpus_per_node strategy "
        "ulysses_sequence_parallel_size device enable_gradient_checkpointing ref_param_offload",
        "model": "model_dtype",
        "code that would be loaded": "trinity_python",
        "seed": "seed",
        "effective batch": "mini_batch_num",
        "experiment tracker": "logger",
        "name or output folder of the run": "checkpoint_base_dir val_print_to_markdown_file_path "
        "train_print_to_markdown_file_path",
    },
):
    """What is common to every backbone."""

    # when things happen
    val_before_train: bool = key(False, "Validate before the first update.")
    val_pass_n: Positive = key(4, "Attempts per validation task.")
    val_only: bool = key(False, "Validate once and end, without training.")
    val_max_num_task_each_validation: Positive | None = key(None, "Most tasks validated on. null: all.")
    val_max_num_task_clip_method: Literal["fix_seed_random_n", "random_n", "first_n"] = key(
        "fix_seed_random_n", "Which those are."
    )
    save_freq: StepInterval = key(20, "Updates between checkpoints; -1 or 0: only one at the end.")
    test_freq: StepInterval = key(20, "Updates between validations; -1 or 0: none on the way.")
    total_epochs: Positive = key(50, "Passes over the training tasks.")
    total_training_steps: Positive | None = key(None, "Updates to end after. null: by `total_epochs`.")
    resume: Literal["auto", "never"] = key(
        "auto", "`auto`: go on from the last checkpoint if there is one; `never`: refuse to start then."
    )
    seed: Seed = key(0, "Seed of everything random: model, order, sampling.")
    num_threads: int = key(
        1, "CPU threads of the local backbone; the same number gives the same digits.", gt=0, le=1024
    )
    # hardware
    device: Literal["cpu", "cuda"] = key(
        "cpu",
        "Where the training computes; `local` uses one GPU. Unset: `cuda` on backbones verl and trinity.",
    )
    model_dtype: Literal["fp32", "bf16"] = key(
        "fp32",
        "What the model computes in; the optimizer keeps float32 weights, also of a `bf16` model. "
        "Unset: `bf16` on backbone trinity.",
    )
    enable_gradient_checkpointing: bool = key(
        False, "Compute layers again for the gradient: less memory, more time."
    )
    ref_param_offload: bool = key(False, "Keep the reference of the KL term in main memory between uses.")
    nnodes: Positive = key(1, "Machines.")
    n_gpus_per_node: Positive = key(8, "GPUs of each machine; on `device: cpu` processes. Unset there: 1.")
    ray: Literal["auto", "local", "cluster"] = key(
        "auto",
        "Where verl's workers run: `auto`: one in the trainer's process, several on a Ray that it starts; "
        "`local`: on that Ray in any case; `cluster`: on the one at RAY_ADDRESS.",
    )
    worker_timeout: Rate = key(
        1200.0,
        "Seconds without progress after which what is asked of verl's workers on Ray, or of the vLLM server, "
        "is given up and the run ends, with the stacks of those that hang in `verl.log` or `vllm.log`.",
    )
    trinity_python: str | None = key(
        None, "Interpreter that has Trinity-RFT installed. null: the trainer's own.", min_length=1
    )
    strategy: Literal["fsdp2", "megatron"] = key(
        "fsdp2", "What divides the training among verl's workers; `megatron` has to be installed beside verl."
    )
    fsdp_config: FsdpConfig = section(FsdpConfig, "Sharded training on GPUs.")
    megatron: Megatron = section(Megatron, "The same with `strategy: megatron`.")
    ulysses_sequence_parallel_size: Positive = key(1, "GPUs that share one sequence.")
    # algorithm
    algorithm: Algorithm = section(Algorithm, "From rewards to advantages.")
    old_logprobs: Literal["rollout", "recompute"] = key(
        "rollout", "Log-probabilities that ratios are taken to: as sampled, or by a pass of the trainer."
    )
    one_step_off_policy: bool = key(
        False,
        "Collect the answers of the next step while this one is trained: they come from weights that are one "
        "update older, which `rollout_is` corrects.",
    )
    mini_batch_num: Positive = key(1, "Optimizer steps per pass over a batch.")
    mini_batch_of: Literal["sequence", "group"] = key(
        "sequence", "What is dealt to mini-batches at random: sequences, or all those of a task together."
    )
    ppo_epochs: Positive = key(1, "Passes over each batch.")
    clip_ratio_low: float = key(0.2, "Probability ratios are clipped below 1 - this.", gt=0, lt=1)
    clip_ratio_high: Rate = key(0.2, "Probability ratios are clipped above 1 + this.")
    use_kl_loss: bool = key(True, "Add the KL divergence to the start model to the loss.")
    kl_loss_coef: float = key(0.002, "Weight of that divergence.", ge=0)
    kl_loss_type: KlEstimator = key(
        "low_var_kl",
        "Estimator of the divergence; `k1` = `kl`, `k2` = `mse`, `k3` = `low_var_kl`. "
        "A trailing `+` keeps its value but takes the gradient of `k2`, which is right in expectation.",
    )
    kl_penalty_type: Literal["low_var_kl", "kl", "abs", "mse", "k1", "k2", "k3"] = key(
        "kl", "Estimator of the divergence when `algorithm.use_kl_in_reward` is on."
    )
    loss_extra_scale_ratio: Rate = key(1.0, "Factor on the whole loss.")
    loss_weight_normalization_episode_level: bool = key(
        True, "An episode that became several sequences weighs as much as one that became one."
    )
    advantage_estimation_episode_level: bool = key(
        True, "Compare the episodes of a group, however many sequences each became."
    )
    optim: Optim = section(Optim, "The optimizer.")
    # what is written
    logger: Literal["console", "swanlab", "wandb", "tensorboard"] = key(
        "console", "Where metrics go, besides the console and `metrics.jsonl`, which always get them."
    )
    checkpoint_base_dir: str = key(
        "auto", "Folder of the checkpoints. `auto`: `{experiment_dir}/checkpoints`.", min_length=1
    )
    max_checkpoints_to_keep: Positive | None = key(None, "Remove older ones beyond this. null: keep all.")
    val_print_to_markdown_file_path: str | None = key(
        None, "File that gets the table of validations, one row each."
    )
    train_print_to_markdown_file_path: str | None = key(None, "File of training metrics.")
    save_trajectory_as_json_file: bool = key(
        False,
        "Record the episodes of all steps, not only of the first, the last and those with a validation.",
    )

    @property
    def sequence_parallel_size(self) -> int:
        """Workers of verl that share one sequence."""
        is_megatron = self.strategy == "megatron"
        return self.megatron.context_parallel_size if is_megatron else self.ulysses_sequence_parallel_size

    @property
    def model_parallel_size(self) -> int:
        """Workers of verl that compute the same samples together."""
        if self.strategy == "fsdp2":
            return self.ulysses_sequence_parallel_size
        return math.prod(size for _, size in self.megatron)

    @property
    def uses_reference(self) -> bool:
        """True if log-probabilities under the start model are needed."""
        return self.use_kl_loss or self.algorithm.use_kl_in_reward
