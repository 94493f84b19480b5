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
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Any

from trainer_core.backbone import local
from trainer_core.backbone.rollouts import open_rollout
from trainer_core.backbone.run import set_up_libraries
from trainer_core.backbone.users_code import users_code
from trainer_core.companion import companions
from trainer_core.engine.protocols import Generation, InferenceEngine, Request
from trainer_core.environments.verifiers import VerifiersEnvironments
from trainer_core.rollout.protocol import Tries
from trainer_core.seeds import derive_seed
from trainer_core.tasks.reader import read_tasks
from trainer_core.types import Episode, Sampling, TaskSplits, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.schema import Config

_SHOWN_TOKENS = 100
_LEFT = 130


def debug(config: Config) -> int:
    """Play the first tasks; the exit status: 1 when the user's code or the data failed, 130 when a person
    left the debugger or pressed Ctrl-C."""
    ajet = config.ajet
    signal.signal(signal.SIGINT, _interrupt)  # asyncio would replace Python's own, and the debugger needs one
    try:
        with TemporaryDirectory() as folder, ExitStack() as closing:
            settings = ajet.task_reader
            closing.enter_context(companions(ajet.companions, Path(folder), _progress))
            environments = closing.enter_context(VerifiersEnvironments(settings.environments, Path(folder)))
            tasks = read_tasks(settings, environments, validates=ajet.trainer_common.val_only, say=_progress)
            asyncio.run(_play(config, tasks, closing))
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


async def _play(config: Config, splits: TaskSplits, closing: ExitStack) -> None:
    ajet, common, settings = config.ajet, config.ajet.trainer_common, config.ajet.debug
    repeats = ajet.rollout.num_repeat
    set_up_libraries(common.num_threads, common.seed)
    tasks = (splits.training or splits.validation)[: settings.debug_first_n_tasks]
    judge, workflow = users_code(ajet, None)
    tokenizer = local.read_tokenizer(ajet)
    # nothing waits for a safe point here: Ctrl-C acts at once
    engines = local.make_engines(config, splits, closing, say=_progress, safe_point=lambda: None)
    shown: Any = ShownCalls(engines.inference, tokenizer)
    sampling = Sampling(ajet.rollout.temperature, ajet.rollout.top_p, ajet.rollout.top_k)
    _say(f"[ajet] debug: {len(tasks)} tasks, {repeats} answers each; nothing is trained or written")
    with ExitStack() as playing:
        seen = replace(engines, inference=shown)
        rollout = open_rollout(ajet, seen, tokenizer, judge, workflow, playing, say=_say)
        for number, task in enumerate(tasks, 1):
            _say(f"\n=== task {task.task_id} ({number} of {len(tasks)})")
            seed = derive_seed(settings.debug_vllm_seed, "rollout", number)
            for episode in await rollout.run([task], Tries(repeats, sampling, seed)):
                _say(f"--- answer {episode.repeat + 1}: {_outcome(episode)}")


class ShownCalls:
    """Prints what goes into an inference engine and what comes out; in all else it is that engine."""

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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

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


def _progress(line: str) -> None:
    _say(f"[ajet] {line}")


def _say(line: str) -> None:
    print(line, flush=True)
