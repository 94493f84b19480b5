"""`ajet.data` and `ajet.rollout`: batch and length limits, and how answers are sampled."""

from typing import Literal

from trainer_core.config.section import Fraction, NotNegative, Positive, Section, TopK, key, section

AnswerCheck = Literal["nonsense", "non_ascii", "wrong_toolcall", "format_type_1", "un-paired-think"]


def _usual_checks() -> list[AnswerCheck]:
    return ["nonsense"]


class Data(Section, concerns="prompt or response length", but={"effective batch": "train_batch_size"}):
    """Sizes of a batch and of its sequences, in tasks and tokens."""

    max_prompt_length: Positive = key(3000, "Most tokens before the first generated token.")
    max_response_length: Positive = key(15000, "Most tokens after the prompt, of all turns together.")
    train_batch_size: Positive = key(32, "Tasks per update; each gives `num_repeat` episodes.")


class MultiTurn(Section, concerns="effective batch"):
    """Bounds on episodes with several model calls."""

    max_sample_per_task: Positive = key(30, "Most training samples kept of one episode.")
    max_steps: Positive = key(30, "Most model calls in one episode.")
    expected_steps: Positive = key(1, "Sequences per episode that trinity waits for.")


class ValidationSampling(Section, concerns="validation"):
    """How answers are sampled in validation."""

    temperature: float = key(1.0, "Sampling temperature. Unset: 1.0 if `val_pass_n` > 1, else 0.0.", ge=0)
    top_k: TopK = key(-1, "Sample among the k likeliest tokens; -1 or 0: all.")
    top_p: Fraction = key(1.0, "Sample among the likeliest tokens of this total probability.")
    do_sample: bool = key(True, "false: always the likeliest token. Unset: whether `temperature` is above 0.")
    num_repeat: Positive = key(1, "Answers per call, as verl counts.")


class Rollout(
    Section,
    concerns="algorithm",
    but={
        "code that would be loaded": "user_workflow vllm_python vllm_arguments",
        "how the training runs": "inference max_env_worker tensor_model_parallel_size n_vllm_engine "
        "max_num_seqs name gpu_memory_utilization ppo_max_token_len_per_gpu deterministic "
        "kv_cache_memory_bytes free_cache_engine",
        "prompt or response length": "max_response_length_in_one_turn max_model_len",
        "effective batch": "num_repeat",
        "sampling": "temperature top_p top_k",
        "model": "chat_template_generate_prompt_type",
    },
):
    """How episodes are run and sampled."""

    user_workflow: str | None = key(
        None,
        "Agent that turns a task into an episode: `module.path->Class` or `file.py->Class`. "
        "null: ask the model once with the task's question.",
    )
    force_disable_toolcalls: bool = key(False, "Drop tools from every request to the model.")
    max_env_worker: Positive = key(64, "Episodes run at the same time.")
    gamma: float = key(1.0, "Discount between turns; 1.0 is the only legal value.")
    compute_madness_checklist: list[AnswerCheck] = section(
        _usual_checks,
        'Checks that mark an answer as abnormal. Unset: `["nonsense"]`; `[]` on backbones local and debug.',
    )
    agent_madness_termination: bool = key(True, "Train no call after an abnormal answer.")
    agent_madness_reward: float = key(-1.0, "Reward of an episode with an abnormal answer.")
    max_response_length_in_one_turn: Positive = key(
        4096, "Most tokens of one answer. Unset: 4096, or `ajet.data.max_response_length` if smaller."
    )
    max_model_len: Positive = key(
        18000,
        "Context length of the model, in tokens. Unset: "
        "`ajet.data.max_prompt_length` + `ajet.data.max_response_length`.",
    )
    multi_turn: MultiTurn = section(MultiTurn, "Bounds on several-turn episodes.")
    tensor_model_parallel_size: Positive = key(1, "GPUs that share one inference engine.")
    n_vllm_engine: Positive = key(1, "Inference engines (trinity).")
    max_num_seqs: Positive = key(64, "Sequences an inference engine decodes together.")
    name: Literal["vllm", "sglang"] = key("vllm", "Inference engine on GPUs.")
    inference: Literal["transformers", "vllm", "verl"] = key(
        "transformers",
        "What samples: `transformers` in the trainer's process, a `vllm` server that it starts, or (backbone "
        "verl) `verl`: verl's own vLLM servers, on the GPUs that train. Unset: `vllm` on backbones verl and "
        "trinity.",
    )
    vllm_python: str | None = key(
        None, "Interpreter that has vLLM installed. null: the trainer's own.", min_length=1
    )
    vllm_arguments: list[str] = section(list, "More arguments of vLLM's server, such as `--enforce-eager`.")
    gpu_memory_utilization: Fraction = key(0.85, "Share of GPU memory the inference engine takes.")
    free_cache_engine: bool = key(
        False, "Have vLLM give its GPU memory back while weights are trained. Unset: true with `verl`."
    )
    num_repeat: Positive = key(4, "Episodes per task and update: the size of a group.")
    temperature: float = key(
        0.9, "Sampling temperature in training; 0 would repeat one answer and teach nothing.", ge=0.001
    )
    top_p: Fraction = key(1.0, "Sample among the likeliest tokens of this total probability.")
    top_k: TopK = key(-1, "Sample among the k likeliest tokens; -1 or 0: all.")
    val_kwargs: ValidationSampling = section(ValidationSampling, "How answers are sampled in validation.")
    ppo_max_token_len_per_gpu: NotNegative | None = key(
        None, "Tokens per GPU and micro-batch of the update. null: chosen by the backbone."
    )
    deterministic: bool = key(
        True,
        "Compute requests in a fixed order, so that the same seed gives the same digits; "
        "false: as they come, which is faster where episodes make several calls.",
    )
    kv_cache_memory_bytes: Positive = key(
        2**30, "Most memory for keys and values of what is generated at the same time."
    )
    chat_template_generate_prompt_type: Literal["default", "qwen3.6"] = key("default", "Generation prompt.")

    @property
    def asks_vllm(self) -> bool:
        """True if a vLLM server samples, the trainer's own or verl's."""
        return self.inference != "transformers"
