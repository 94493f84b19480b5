"""The sections around training: context tracking, LoRA, debugging, swarm mode, and the task runner."""

from typing import Literal

from pydantic import Field

from trainer_core.config.section import NotNegative, Positive, Rate, Section


class TimelineMerging(Section, concerns="algorithm"):
    """When two recorded calls count as the same history."""

    timeline_compare_level: Literal["token", "text", "text_and_image"] = Field(
        default="token",
        description="Compare token ids (exact), or text, which may train in a context never sampled.",
    )
    ignore_tools: bool = Field(default=True, description="Merge calls whose tool lists differ.")


class ContextTracker(
    Section, concerns="what is logged and saved", but={"algorithm": "fix_retokenization_drift"}
):
    """From recorded calls to training samples."""

    timeline_merging_policy: TimelineMerging = Field(
        default_factory=TimelineMerging, description="When calls are merged."
    )
    fix_retokenization_drift: bool = Field(
        default=True, description="Keep sampled token ids where re-tokenised text would differ."
    )
    log_tool_format_check: bool = Field(default=False, description="Log how well tool calls are formed.")
    log_tool_format_error_detail: bool = Field(default=False, description="Log every malformed tool call.")
    detect_timeline_snap: bool = Field(
        default=False, description="Find where a history was rewritten (slow)."
    )


class Debug(
    Section, concerns="how the training runs", but={"data": "debug_first_n_tasks", "seed": "debug_vllm_seed"}
):
    """Settings of the `debug` backbone."""

    debug_max_parallel: Positive = Field(default=4, description="Episodes at the same time.")
    debug_first_n_tasks: Positive = Field(default=2, description="Run only the first tasks.")
    debug_vllm_port: Positive = Field(default=18000, description="Port of the inference server.")
    debug_vllm_seed: NotNegative = Field(default=12345, description="Seed of the inference server.")
    debug_tensor_parallel_size: Positive = Field(default=4, description="GPUs of the inference server.")


class Lora(
    Section,
    concerns="full training or LoRA",
    but={"model": "load_format", "how the training runs": "layered_summon"},
):
    """Low-rank adapters instead of full training."""

    lora_rank: NotNegative = Field(default=0, description="Rank of the adapters; 0: train all weights.")
    lora_alpha: Rate = Field(default=16, description="Scale of the adapters.")
    target_modules: str | list[str] = Field(default="all-linear", description="Layers that get adapters.")
    load_format: str = Field(default="auto", description="How the inference engine loads weights.")
    layered_summon: bool = Field(default=False, description="Gather sharded weights layer by layer.")


class InterchangeServer(
    Section, concerns="how the training runs", but={"address or key of a service": "already_started"}
):
    """The HTTP endpoint that agents talk to and that records their calls."""

    interchange_method: Literal["ipc", "tcp"] = Field(
        default="ipc", description="Transport behind the endpoint."
    )
    interchange_server_port: Positive | Literal["auto"] = Field(
        default="auto", description="Port of the endpoint."
    )
    num_fastapi_process: Positive = Field(default=2, description="Server processes.")
    max_fastapi_threads: Positive = Field(default=512, description="Threads of each.")
    max_inference_tracker_threads: Positive = Field(default=64, description="Threads that record calls.")
    already_started: bool = Field(default=False, description="Use an endpoint that runs already.")


class TaskRunner(Section, concerns="how the training runs"):
    """How user workflows are executed."""

    llm_infer_submit_method: Literal["async", "sync"] = Field(
        default="async", description="How calls reach the engine."
    )
    wrapper_type: Literal["asyncio-with-gc", "asyncio", "multi-processing"] = Field(
        default="asyncio-with-gc", description="Where a workflow runs."
    )
    wrapper_multiprocessing_timeout: Positive = Field(
        default=3600, description="Seconds until a workflow in a process of its own is given up."
    )
