"""The thinnest rollout: put the question to the model once, judge what it says."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from trainer_core.engine.protocols import Generation, InferenceEngine, Request
from trainer_core.judge.judge import Judge, judged
from trainer_core.rollout.abnormal import AbnormalAnswers
from trainer_core.rollout.protocol import Tries, check_some_succeeded, first_failure, open_session
from trainer_core.seeds import derive_seed
from trainer_core.tasks.prompts import Prompts
from trainer_core.types import Call, Episode, FinishReason, StopReason, Task, TrainingError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SingleTurnRollout:
    """Asks the inference engine about all tasks at once, decodes, judges."""

    engine: InferenceEngine
    tokenizer: Any
    judge: Judge
    prompts: Prompts
    max_tokens: int
    """After which an answer is cut off."""
    abnormal: AbnormalAnswers | None = None
    """What becomes of answers that no healthy model gives; None: nothing."""
    clock: Callable[[], float] = time.perf_counter

    async def run(self, tasks: Sequence[Task], tries: Tries) -> list[Episode]:
        """See `Rollout.run`. A group is judged while others are still being generated. Where a prompt is too
        long or the engine fails, the episodes say so in `error`."""
        with ExitStack() as all_open, first_failure():
            sessions = [open_session(self.engine, (place,), all_open) for place in range(len(tasks))]
            async with asyncio.TaskGroup() as running:
                groups = [
                    running.create_task(self._group(position, task, tries, session))
                    for position, (task, session) in enumerate(zip(tasks, sessions, strict=True))
                ]
        episodes = [episode for group in groups for episode in group.result()]
        check_some_succeeded(episodes)
        return episodes

    async def _group(self, position: int, task: Task, tries: Tries, session: ExitStack) -> list[Episode]:
        """The episodes of one task; `session` is closed once the engine has nothing more to do for it."""
        started = self.clock()
        try:
            prompt = self.prompts.ids([task])[0]
            request = Request(
                prompt,
                tries.sampling,
                self.max_tokens,
                n=tries.repeats,
                seed=derive_seed(tries.seed, position),
                session=(position, 0, 0),
            )
            with session:
                generations = await self.engine.generate(request)
        except Exception as error:  # noqa: BLE001 - one prompt's failure is no reason to lose the others
            _log.warning("no answers to task %s", task.task_id, exc_info=error)
            message = str(error) if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}"
            return [
                Episode(task, repeat, (), error=message, stop_reason=StopReason.FAILED)
                for repeat in range(tries.repeats)
            ]
        seconds = self.clock() - started
        answers = list({one.ids: None for one in generations})
        texts = self.tokenizer.batch_decode(answers, skip_special_tokens=True)
        text_of = dict(zip(answers, texts, strict=True))
        episodes = [
            _episode(task, repeat, prompt, generation, text_of[generation.ids], seconds)
            for repeat, generation in enumerate(generations)
        ]
        scored = await judged(self.judge, task, episodes)
        return scored if self.abnormal is None else list(map(self.abnormal.marked, scored))


def _episode(
    task: Task, repeat: int, prompt: tuple[int, ...], generation: Generation, text: str, seconds: float
) -> Episode:
    call = Call(
        prompt_ids=prompt,
        completion_ids=generation.ids,
        logprobs=generation.logprobs,
        finish_reason=generation.finish_reason,
        weight_version=generation.weight_version,
        seconds=seconds,
    )
    if generation.finish_reason is FinishReason.ABORT:
        return Episode(
            task, repeat, (call,), text, error="the request was cancelled", stop_reason=StopReason.FAILED
        )
    cut = generation.finish_reason is FinishReason.LENGTH
    return Episode(task, repeat, (call,), text, stop_reason=StopReason.LENGTH if cut else StopReason.FINISHED)
