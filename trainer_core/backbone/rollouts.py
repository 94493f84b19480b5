"""The rollout that a config asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.backbone.schedule import longest_response
from trainer_core.engine.protocols import InferenceEngine
from trainer_core.gateway import Gateway
from trainer_core.judge.choose import is_named
from trainer_core.judge.judge import Judge
from trainer_core.rollout.abnormal import AbnormalAnswers
from trainer_core.rollout.execution import in_caller, in_one_loop, in_process, in_thread
from trainer_core.rollout.protocol import Rollout
from trainer_core.rollout.single_turn import SingleTurnRollout
from trainer_core.rollout.workflow_rollout import EpisodeLimits, WorkflowRollout
from trainer_core.tasks.prompts import Prompts
from trainer_core.workflow.workflow import LoadedWorkflow

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet


def has_judge(ajet: Ajet) -> bool:
    """False where the workflow alone gives rewards: the config names no judge."""
    unnamed = ajet.task_judge.judge_type == "customized_protocol" and not is_named(ajet.task_judge)
    return ajet.rollout.user_workflow is None or not unnamed


def make_gateway(ajet: Ajet, engine: InferenceEngine, tokenizer: Any, context: int | None) -> Gateway:
    """The server that workflows call the model through. `context`: tokens the model can read."""
    port, longest = ajet.interchange_server.interchange_server_port, ajet.rollout.max_model_len
    return Gateway(
        engine,
        tokenizer,
        model=Path(ajet.model.path).name,
        max_model_len=longest if context is None else min(longest, context),
        port=0 if port == "auto" else port,
    )


def single_turn(
    ajet: Ajet, engine: InferenceEngine, tokenizer: Any, judge: Judge, prompts: Prompts
) -> Rollout:
    """One question and one answer for each episode."""
    abnormal = _abnormal(ajet, tokenizer)
    return SingleTurnRollout(engine, tokenizer, judge, prompts, longest_response(ajet), abnormal=abnormal)


def with_workflow(
    ajet: Ajet,
    engine: InferenceEngine,
    tokenizer: Any,
    judge: Judge | None,
    workflow: LoadedWorkflow,
    gateway: Gateway,
    *,
    say: Callable[[str], None],
) -> Rollout:
    """Episodes of the user's workflow; on backbone `debug` one at a time, in the caller's thread, where what
    it raises ends the run."""
    is_debug, runner = ajet.backbone == "debug", ajet.task_runner
    limits = EpisodeLimits(
        longest_response(ajet),
        max_calls=ajet.rollout.multi_turn.max_steps,
        max_env_worker=1 if is_debug else ajet.rollout.max_env_worker,
        timeout=None if is_debug else runner.wrapper_multiprocessing_timeout,
    )
    places = {"multi-processing": in_process, "asyncio": in_one_loop, "asyncio-with-gc": in_thread}
    return WorkflowRollout(
        engine,
        gateway,
        workflow,
        judge,
        _abnormal(ajet, tokenizer),
        limits,
        execute=in_caller if is_debug else places[runner.wrapper_type],
        stops_at_errors=is_debug,
        say=say,
        tells_every=float("inf") if is_debug else 10.0,
    )


def _abnormal(ajet: Ajet, tokenizer: Any) -> AbnormalAnswers:
    rollout = ajet.rollout
    return AbnormalAnswers(
        tokenizer,
        rollout.compute_madness_checklist,
        reward=rollout.agent_madness_reward,
        ends=rollout.agent_madness_termination,
    )
