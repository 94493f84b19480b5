"""Backbone `debug`: nothing is trained or written. The first tasks are played one at a time with fixed seeds,
every call to the model is printed, and `breakpoint()` works in a judge and in a workflow: code of the user's
runs in the main thread, input and output are the terminal's, and other threads print nothing but the calls
that it makes.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import traceback
from bdb import BdbQuit
from contextlib import AbstractContextManager, ExitStack
from statistics import fmean
from types import FrameType
from typing import TYPE_CHECKING, Any

from trainer_core.backbone import local
from trainer_core.backbone.rollouts import has_judge, make_gateway, single_turn, with_workflow
from trainer_core.backbone.run import set_up_libraries
from trainer_core.backbone.seeds import derive_seed
from trainer_core.engine.protocols import Generation, InferenceEngine, Request
from trainer_core.judge.choose import make_judge
from trainer_core.tasks.prompts import Prompts
from trainer_core.tasks.reader import read_tasks
from trainer_core.types import Episode, Sampling, TrainingError
from trainer_core.workflow.workflow import load_workflow

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet

_SHOWN_TOKENS = 100
_LEFT = 130


def debug(ajet: Ajet) -> int:
    """Play the first tasks; the exit status: 1 when the user's code or the data failed, 130 when a person
    left the debugger or pressed Ctrl-C."""
    signal.signal(signal.SIGINT, _interrupt)  # asyncio would replace Python's own, and the debugger needs one
    try:
        asyncio.run(_play(ajet))
    except KeyboardInterrupt:
        _say("[ajet] interrupted")
        return _LEFT
    except TrainingError as error:
        if isinstance(error.__cause__, BdbQuit):
            _say("[ajet] left the debugger")
            return _LEFT
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


async def _play(ajet: Ajet) -> None:
    common, settings, repeats = ajet.trainer_common, ajet.debug, ajet.rollout.num_repeat
    set_up_libraries(common.num_threads, common.seed)
    splits = read_tasks(ajet.task_reader, validates=common.val_only)
    tasks = (splits.training or splits.validation)[: settings.debug_first_n_tasks]
    judge = make_judge(ajet.task_judge, own_thread=False) if has_judge(ajet) else None
    workflow = None if ajet.rollout.user_workflow is None else load_workflow(ajet.rollout.user_workflow)
    tokenizer = local.read_tokenizer(ajet)
    engines = local.make_engines(
        ajet, splits, say=lambda line: _say(f"[ajet] {line}"), safe_point=_no_signals
    )
    engine = ShownCalls(engines.inference, tokenizer)
    sampling = Sampling(ajet.rollout.temperature, ajet.rollout.top_p, ajet.rollout.top_k)
    _say(f"[ajet] debug: {len(tasks)} tasks, {repeats} answers each; nothing is trained or written")
    closing = ExitStack()
    try:
        if workflow is not None:
            gateway = closing.enter_context(make_gateway(ajet, engine, tokenizer, engines.context))
            rollout = with_workflow(ajet, engine, tokenizer, judge, workflow, gateway, say=_say)
        else:
            assert judge is not None  # only a workflow can do without
            prompts = Prompts(tokenizer, ajet.data.max_prompt_length)
            rollout = single_turn(ajet, engine, tokenizer, judge, prompts)
        for number, task in enumerate(tasks, 1):
            _say(f"\n=== task {task.task_id} ({number} of {len(tasks)})")
            seed = derive_seed(settings.debug_vllm_seed, "rollout", number)
            for episode in await rollout.run([task], repeats=repeats, sampling=sampling, seed=seed):
                _say(f"--- answer {episode.repeat + 1}: {_outcome(episode)}")
    finally:
        closing.close()
        await engines.inference.close()


class ShownCalls:
    """An inference engine that prints what goes in and what comes out."""

    def __init__(self, engine: InferenceEngine, tokenizer: Any) -> None:
        self._engine = engine
        self._tokenizer = tokenizer

    async def generate(self, request: Request) -> list[Generation]:
        """See `InferenceEngine.generate`."""
        _say(f"--- prompt, {len(request.prompt_ids)} tokens\n{self._tokenizer.decode(request.prompt_ids)}")
        generations = await self._engine.generate(request)
        for number, generation in enumerate(generations, 1):
            self._show(f"answer {number}", generation)
        return generations

    def session(self, key: tuple[int | str, ...]) -> AbstractContextManager[None]:
        """See `InferenceEngine.session`."""
        return self._engine.session(key)

    async def pause(self) -> None:
        """See `InferenceEngine.pause`."""
        await self._engine.pause()

    async def resume(self) -> None:
        """See `InferenceEngine.resume`."""
        await self._engine.resume()

    async def update_weights(self, version: int) -> None:
        """See `InferenceEngine.update_weights`."""
        await self._engine.update_weights(version)

    async def close(self) -> None:
        """See `InferenceEngine.close`."""
        await self._engine.close()

    def _show(self, name: str, generation: Generation) -> None:
        """The answer, and each of its tokens with its log-probability."""
        ids, logprobs = generation.ids, generation.logprobs
        told = f"{name}, {len(ids)} tokens, finish reason {generation.finish_reason}"
        if ids:
            told += f", logprob mean {fmean(logprobs):.3f}, lowest {min(logprobs):.3f}"
        pieces = self._tokenizer.convert_ids_to_tokens(list(ids[:_SHOWN_TOKENS]))
        tokens = "  ".join(f"{piece} {value:.2f}" for piece, value in zip(pieces, logprobs, strict=False))
        rest = f"  … {len(ids) - _SHOWN_TOKENS} more" if len(ids) > _SHOWN_TOKENS else ""
        _say(f"--- {told}\n{self._tokenizer.decode(ids)}\n    {tokens}{rest}")


def _outcome(episode: Episode) -> str:
    if episode.error is not None:
        return f"failed: {episode.error}"
    return f"reward {episode.reward:g}, {'solved' if episode.is_success else 'not solved'}"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _no_signals() -> None:
    """Nothing waits for a safe point here: Ctrl-C acts at once."""


def _say(line: str) -> None:
    print(line, flush=True)
