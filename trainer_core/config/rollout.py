"""`ajet.data` and `ajet.rollout`: batch and length limits, and how answers are sampled."""

from typing import Literal

from pydantic import Field

from trainer_core.config.section import Fraction, NotNegative, Positive, Section, TopK

AnswerCheck = Literal["nonsense", "non_ascii", "wrong_toolcall", "format_type_1", "un-paired-think"]


def _usual_checks() -> list[AnswerCheck]:
    return ["nonsense"]


class Data(Section, concerns="prompt or response length", but={"effective batch": "train_batch_size"}):
    """Sizes of a batch and of its sequences, in tasks and tokens."""

    max_prompt_length: Positive = Field(
        default=3000, description="Most tokens before the first generated token."
    )
    max_response_length: Positive = Field(
        default=15000, description="Most tokens after the prompt, of all turns together."
    )
    train_batch_size: Positive = Field(
        default=32, description="Tasks per update; each gives `num_repeat` episodes."
    )


class MultiTurn(Section, concerns="effective batch"):
    """Bounds on episodes with several model calls."""

    max_sample_per_task: Positive = Field(
        default=30, description="Most training samples kept from one episode; a random subset beyond that."
    )
    max_steps: Positive = Field(default=30, description="Most model calls in one episode.")
    expected_steps: Positive = Field(
        default=1, description="Calls per episode assumed when sizing trinity buffers."
    )


class ValidationSampling(Section, concerns="validation"):
    """How answers are sampled in validation."""

    temperature: float = Field(
        default=1.0, ge=0, description="Sampling temperature. Unset: 1.0 if `val_pass_n` > 1, else 0.0."
    )
    top_k: TopK = Field(default=-1, description="Sample among the k likeliest tokens; -1 or 0: all.")
    top_p: Fraction = Field(
        default=1.0, description="Sample among the likeliest tokens of this total probability."
    )
    do_sample: bool = Field(
        default=True,
        description="false: always the likeliest token. Unset: whether `temperature` is above 0.",
    )
    num_repeat: Positive = Field(
        default=1,
        description="Answers per call, as verl counts; `ajet.trainer_common.val_pass_n` sets the attempts.",
    )


class Rollout(
    Section,
    concerns="algorithm",
    but={
        "code that would be loaded": "user_workflow",
        "how the training runs": "max_env_worker tensor_model_parallel_size n_vllm_engine max_num_seqs name "
        "gpu_memory_utilization ppo_max_token_len_per_gpu",
        "prompt or response length": "max_response_length_in_one_turn max_model_len",
        "effective batch": "num_repeat",
        "sampling": "temperature top_p top_k",
        "model": "chat_template_generate_prompt_type",
    },
):
    """How episodes are run and sampled."""

    user_workflow: str | None = Field(
        default=None,
        description="Agent that turns a task into an episode: `module.path->Class` or `file.py->Class`. "
        "null: ask the model once with the task's question.",
    )
    force_disable_toolcalls: bool = Field(
        default=False, description="Drop tools from every request to the model."
    )
    max_env_worker: Positive = Field(default=64, description="Episodes run at the same time.")
    gamma: float = Field(default=1.0, description="Discount between turns; 1.0 is the only legal value.")
    compute_madness_checklist: list[AnswerCheck] = Field(
        default_factory=_usual_checks,
        description="Checks that mark an answer as abnormal. "
        'Unset: `["nonsense"]`, and `[]` on backbone local, which has no such checks.',
    )
    agent_madness_termination: bool = Field(default=True, description="End an episode at an abnormal answer.")
    agent_madness_reward: float = Field(
        default=-1.0, description="Reward of an episode with an abnormal answer."
    )
    max_response_length_in_one_turn: Positive = Field(
        default=4096,
        description="Most tokens of one answer. Unset: 4096, or `ajet.data.max_response_length` if smaller.",
    )
    max_model_len: Positive = Field(
        default=18000,
        description="Context length of the model, in tokens. Unset: "
        "`ajet.data.max_prompt_length` + `ajet.data.max_response_length`.",
    )
    multi_turn: MultiTurn = Field(default_factory=MultiTurn, description="Bounds on several-turn episodes.")
    tensor_model_parallel_size: Positive = Field(
        default=1, description="GPUs that share one inference engine."
    )
    n_vllm_engine: Positive = Field(default=1, description="Inference engines (trinity).")
    max_num_seqs: Positive = Field(default=64, description="Sequences an inference engine decodes together.")
    name: Literal["vllm", "sglang"] = Field(default="vllm", description="Inference engine on GPUs.")
    gpu_memory_utilization: Fraction = Field(
        default=0.85, description="Share of GPU memory the inference engine takes."
    )
    num_repeat: Positive = Field(default=4, description="Episodes per task and update: the size of a group.")
    temperature: float = Field(
        default=0.9,
        gt=0,
        description="Sampling temperature in training; 0 would repeat one answer and teach nothing.",
    )
    top_p: Fraction = Field(
        default=1.0, description="Sample among the likeliest tokens of this total probability."
    )
    top_k: TopK = Field(default=-1, description="Sample among the k likeliest tokens; -1 or 0: all.")
    val_kwargs: ValidationSampling = Field(
        default_factory=ValidationSampling, description="How answers are sampled in validation."
    )
    ppo_max_token_len_per_gpu: NotNegative | None = Field(
        default=None,
        description="Tokens per GPU and micro-batch of the update. null: chosen by the backbone.",
    )
    chat_template_generate_prompt_type: Literal["default", "qwen3.6"] = Field(
        default="default", description="Shape of the generation prompt that the model's chat template writes."
    )
