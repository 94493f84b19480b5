"""The rollout that a config asks for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.backbone.schedule import longest_response
from trainer_core.engine.protocols import Engines
from trainer_core.gateway import Gateway
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


def abnormal_answers(ajet: Ajet, tokenizer: Any) -> AbnormalAnswers:
    """What the config says about answers that no healthy model gives."""
    rollout = ajet.rollout
    return AbnormalAnswers(
        tokenizer,
        rollout.compute_madness_checklist,
        reward=rollout.agent_madness_reward,
        ends=rollout.agent_madness_termination,
    )


def longest_context(ajet: Ajet, engines: Engines) -> int:
    """Tokens of prompt and answer together."""
    longest = ajet.rollout.max_model_len
    return longest if engines.context is None else min(longest, engines.context)


def open_rollout(
    ajet: Ajet,
    engines: Engines,
    tokenizer: Any,
    judge: Judge | None,
    workflow: LoadedWorkflow | None,
    closing: ExitStack,
    *,
    say: Callable[[str], None],
) -> Rollout:
    """One question and one answer for each episode, or episodes of the user's workflow: on backbone `debug`
    one at a time, in the caller's thread, where what it raises ends the run. `closing` ends the server that
    workflows call the model through."""
    rollout, runner, is_debug = ajet.rollout, ajet.task_runner, ajet.backbone == "debug"
    abnormal = abnormal_answers(ajet, tokenizer)
    if workflow is None:
        assert judge is not None  # only a workflow can do without
        prompts = Prompts(tokenizer, ajet.data.max_prompt_length)
        return SingleTurnRollout(
            engines.inference, tokenizer, judge, prompts, longest_response(ajet), abnormal=abnormal
        )
    port = ajet.interchange_server.interchange_server_port
    gateway = Gateway(
        engines.inference,
        tokenizer,
        model=Path(ajet.model.path).name,
        max_model_len=longest_context(ajet, engines),
        port=0 if port == "auto" else port,
    )
    limits = EpisodeLimits(
        longest_response(ajet),
        max_calls=rollout.multi_turn.max_steps,
        max_env_worker=1 if is_debug else rollout.max_env_worker,
        timeout=None if is_debug else runner.wrapper_multiprocessing_timeout,
    )
    places = {"multi-processing": in_process, "asyncio": in_one_loop, "asyncio-with-gc": in_thread}
    return WorkflowRollout(
        engines.inference,
        closing.enter_context(gateway),
        workflow,
        judge,
        abnormal,
        limits,
        execute=in_caller if is_debug else places[runner.wrapper_type],
        stops_at_errors=is_debug,
        say=say,
        tells_every=float("inf") if is_debug else 10.0,
    )
