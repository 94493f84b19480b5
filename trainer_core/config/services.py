"""The sections around training: context tracking, LoRA, debugging, swarm mode, and the task runner."""

from typing import Literal

from pydantic import Field

from trainer_core.config.section import NotNegative, Positive, Rate, Section, key, section


class TimelineMerging(Section, concerns="algorithm"):
    """When two recorded calls count as the same history."""

    timeline_compare_level: Literal["token", "text", "text_and_image"] = key(
        "token", "Compare token ids (exact), or text, which may train in a context never sampled."
    )
    ignore_tools: bool = key(True, "Merge calls whose tool lists differ.")


class ContextTracker(
    Section, concerns="what is logged and saved", but={"algorithm": "fix_retokenization_drift"}
):
    """From recorded calls to training samples."""

    timeline_merging_policy: TimelineMerging = section(TimelineMerging, "When calls are merged.")
    fix_retokenization_drift: bool = key(True, "Keep sampled token ids where re-tokenised text would differ.")
    log_tool_format_check: bool = key(False, "Log how well tool calls are formed.")
    log_tool_format_error_detail: bool = key(False, "Log every malformed tool call.")
    detect_timeline_snap: bool = key(False, "Find where a history was rewritten (slow).")


class Debug(
    Section, concerns="how the training runs", but={"data": "debug_first_n_tasks", "seed": "debug_vllm_seed"}
):
    """Settings of the `debug` backbone, which plays a few tasks one at a time and trains nothing."""

    debug_max_parallel: Positive = key(4, "Episodes at the same time.")
    debug_first_n_tasks: Positive = key(2, "How many training tasks are played.")
    debug_vllm_port: Positive = key(18000, "Port of the inference server.")
    debug_vllm_seed: NotNegative = key(12345, "Seed of the answers.")
    debug_tensor_parallel_size: Positive = key(4, "GPUs of the inference server.")


class Lora(
    Section,
    concerns="full training or LoRA",
    but={"model": "load_format", "how the training runs": "layered_summon"},
):
    """Low-rank adapters instead of full training."""

    lora_rank: NotNegative = key(0, "Rank of the adapters; 0: train all weights.")
    lora_alpha: Rate = key(16, "Scale of the adapters.")
    target_modules: str | list[str] = key("all-linear", "Layers that get adapters.")
    load_format: str = key("auto", "How the inference engine loads weights.")
    layered_summon: bool = key(False, "Gather sharded weights layer by layer.")


class InterchangeServer(
    Section, concerns="how the training runs", but={"address or key of a service": "already_started"}
):
    """The HTTP endpoint that agents talk to and that records their calls."""

    interchange_method: Literal["ipc", "tcp"] = key("ipc", "Transport behind the endpoint.")
    interchange_server_port: Positive | Literal["auto"] = key("auto", "Port of the endpoint.")
    num_fastapi_process: Positive = key(2, "Server processes.")
    max_fastapi_threads: Positive = key(512, "Threads of each.")
    max_inference_tracker_threads: Positive = key(64, "Threads that record calls.")
    already_started: bool = key(False, "Use an endpoint that runs already.")


class Companion(Section):
    """A program that runs beside the training, such as the server of an environment."""

    command: str = Field(description="What starts it, as typed in `sh`.", min_length=1)
    ready_pattern: str | None = key(None, "It is ready when it has printed this (a regular expression).")
    health_url: str | None = key(None, "And when this address answers with status 200.")
    starts_in_s: Positive = key(600, "Seconds it may take until then.")
    max_restarts: NotNegative = key(3, "How often it is started again when it ends.")


class TaskRunner(Section, concerns="how the training runs"):
    """How user workflows are executed."""

    llm_infer_submit_method: Literal["async", "sync"] = key("async", "How calls reach the engine.")
    wrapper_type: Literal["asyncio-with-gc", "asyncio", "multi-processing"] = key(
        "asyncio-with-gc", "A workflow runs in a thread, for `asyncio` in the one event loop, or a process."
    )
    wrapper_multiprocessing_timeout: Positive = key(3600, "Seconds until a workflow is given up.")
