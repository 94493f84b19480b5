"""Many episodes of a user's workflow at once, each call recorded by the gateway.

A deterministic engine waits for every open session, so the sessions of all episodes that start together are
open before the first of them runs, and each worker opens the next one before it closes its own: what is
computed together then does not depend on which thread is faster.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product

from trainer_core.engine.protocols import InferenceEngine
from trainer_core.gateway import EpisodeRules, Gateway, OtherModel, Recorded
from trainer_core.judge.judge import Judge, judged
from trainer_core.rollout.abnormal import AbnormalAnswers, is_abnormal
from trainer_core.rollout.execution import Execute, in_thread
from trainer_core.rollout.failures import Failure, failure_of
from trainer_core.rollout.metrics import failures
from trainer_core.rollout.progress import Progress, Running
from trainer_core.rollout.protocol import Tries, check_some_succeeded, first_failure, open_session
from trainer_core.seeds import derive_seed
from trainer_core.types import Episode, StopReason, Task, TrainingError
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import LoadedWorkflow, WorkflowOutput, api_key_of

_log = logging.getLogger(__name__)

_TIMEOUT = "task_runner.wrapper_multiprocessing_timeout"


@dataclass(frozen=True)
class EpisodeLimits:
    """Bounds on the episodes of a rollout."""

    max_tokens: int
    """Of one answer."""
    max_calls: int | None = None
    max_env_worker: int = 64
    """Episodes at once."""
    timeout: float | None = None
    """Seconds until an episode is given up, with all its tries; None: never."""
    retries: int = 2
    """How often an episode is tried again that failed for a reason outside the user's code."""
    first_pause: float = 1.0
    """Seconds before the first retry; doubled before each further one."""


@dataclass(frozen=True)
class WorkflowRollout:
    """Plays tasks with a workflow; see `Rollout`.

    Raises:
        TrainingError: the environment lacks the key of another model that the workflow names.
    """

    engine: InferenceEngine
    gateway: Gateway
    workflow: LoadedWorkflow
    judge: Judge | None
    """Of episodes that ended well; None: the workflow gives every reward."""
    abnormal: AbnormalAnswers
    limits: EpisodeLimits
    _: KW_ONLY
    execute: Execute = in_thread
    """Where the workflow runs."""
    stops_at_errors: bool = False
    """What a workflow raises ends the run, instead of being one failed episode."""
    say: Callable[[str], None] = _log.info
    tells_every: float = 10.0
    """Seconds between two lines of progress."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._others()  # a key that is missing is told at once

    async def run(self, tasks: Sequence[Task], tries: Tries) -> list[Episode]:
        """See `Rollout.run`. A group is judged while others still run."""
        rules = EpisodeRules(
            sampling=tries.sampling,
            max_tokens=self.limits.max_tokens,
            seed=tries.seed,
            client_sampling=not tries.is_training,
            max_calls=self.limits.max_calls,
            trainable=self.workflow.trainable,
            others=self._others(),
        )
        progress = Progress(len(tasks) * tries.repeats, self.clock)
        waiting = deque(product(range(len(tasks)), range(tries.repeats)))
        groups: list[list[Episode]] = [[] for _ in tasks]
        telling = asyncio.create_task(progress.tell(self.say, self.tells_every))
        try:
            with ExitStack() as sessions, first_failure():

                async def work(place: tuple[int, int], session: ExitStack) -> None:
                    """Play this episode, then others until none waits."""
                    while True:
                        task, group = tasks[place[0]], groups[place[0]]
                        group.append(await self._episode(task, place, rules, progress))
                        if len(group) == tries.repeats:
                            running.create_task(self._finish(task, group, progress))
                        if not waiting:
                            return session.close()
                        place, own = waiting.popleft(), session
                        session = open_session(self.engine, place, sessions)
                        own.close()

                first = [waiting.popleft() for _ in range(min(self.limits.max_env_worker, len(waiting)))]
                opened = [(place, open_session(self.engine, place, sessions)) for place in first]
                async with asyncio.TaskGroup() as running:
                    for place, session in opened:
                        running.create_task(work(place, session))
        finally:
            telling.cancel()
        episodes = [episode for group in groups for episode in group]
        check_some_succeeded(episodes)
        if kinds := failures(episodes):
            told = ", ".join(f"{count:g} {kind}" for kind, count in kinds.items())
            self.say(f"warning: some of {len(episodes)} episodes failed ({told}); train.log says why")
        return episodes

    def _others(self) -> dict[str, OtherModel]:
        return {
            agent: OtherModel(base_url=other.base_url, api_key=api_key_of(agent, other), model=other.model)
            for agent, other in self.workflow.other_models.items()
        }

    async def _episode(
        self, task: Task, place: tuple[int, int], rules: EpisodeRules, progress: Progress
    ) -> Episode:
        """One episode, with its retries; its reward is None where the judge is to give it."""
        running = progress.start(task, place[1])
        retries, pause, timeout = 0, self.limits.first_pause, self.limits.timeout
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            output, failure, recorded = await self._try(task, place, rules, running, deadline)
            progress.end_try(running)
            if failure is None or not failure.is_worth_another_try or retries == self.limits.retries:
                break
            retries += 1
            await self.sleep(pause)
            pause *= 2
        seconds = progress.end(running, failed=failure is not None)
        episode = self._outcome(task, place[1], output, failure, recorded)
        noted = {"rollout/calls": len(episode.calls), "rollout/seconds": seconds, "rollout/retries": retries}
        return replace(episode, metrics={**episode.metrics, **noted})

    async def _try(
        self,
        task: Task,
        place: tuple[int, int],
        rules: EpisodeRules,
        running: Running,
        deadline: float | None,
    ) -> tuple[WorkflowOutput, Failure | None, Recorded]:
        """Play the workflow once; its output, or why it failed, and what was recorded."""
        gateway, targets = self.gateway, self.workflow.trainable
        opened = running.opened = gateway.open_episode(
            replace(rules, seed=derive_seed(rules.seed, *place), session=place)
        )
        tuner = Tuner(gateway.base_url, gateway.model, opened.key, trainable_targets=targets)
        timeout = asyncio.timeout_at(deadline)
        output, failure = WorkflowOutput(), None
        try:
            async with timeout:
                output = await self.execute(self.workflow, task, tuner)
        except Exception as error:
            if timeout.expired():
                text = f"the episode took longer than {self.limits.timeout:g} s ({_TIMEOUT})"
                failure = Failure("timeout", text)
            elif self.stops_at_errors:
                raise TrainingError(
                    f"workflow {self.workflow.name} failed on task {task.task_id!r} with "
                    f"{type(error).__name__}: {error}"
                ) from error
            else:
                failure = failure_of(error)
            is_code = failure.kind == "workflow"
            _log.warning("task %s#%d: %s", task.task_id, place[1], failure.text, exc_info=is_code and error)
        finally:
            recorded = opened.close()
        if recorded.stop_reason is StopReason.FAILED and not timeout.expired():
            failure = Failure("engine", recorded.error or "the model did not answer")
        return output, failure, recorded

    def _outcome(
        self,
        task: Task,
        repeat: int,
        output: WorkflowOutput,
        failure: Failure | None,
        recorded: Recorded,
    ) -> Episode:
        """The episode that came of it. One that ran into a limit of calls or context has not failed: where
        there is no judge, it earned 0."""
        limit = recorded.stop_reason
        is_ended_by_limit = limit in (StopReason.CONTEXT, StopReason.TURNS)
        if failure is not None and failure.kind == "workflow" and is_ended_by_limit:
            failure = None
        if failure is None and output.reward is None and self.judge is None:
            if is_ended_by_limit:
                output = replace(output, reward=0.0)
            else:
                text = f"workflow {self.workflow.name} returned no reward, and task_judge names no judge"
                failure = Failure("no_reward", text)
        metrics = dict(recorded.metrics)
        calls = tuple(call for call in recorded.calls if call.agent not in output.untrained_agents)
        episode = Episode(task, repeat, calls, recorded.output, metadata=output.metadata)
        if failure is not None:
            reason = StopReason.TIMEOUT if failure.kind == "timeout" else StopReason.FAILED
            metrics[f"rollout/failed/{failure.kind}"] = 1.0
            return replace(episode, error=failure.text, stop_reason=reason, metrics=metrics)
        solved = output.reward is not None and output.reward >= 1.0
        return self.abnormal.marked(
            replace(
                episode,
                reward=output.reward,
                is_success=solved if output.is_success is None else output.is_success,
                stop_reason=limit or StopReason.FINISHED,
                metrics=metrics | {f"workflow/{name}": value for name, value in output.log_metrics.items()},
            )
        )

    async def _finish(self, task: Task, group: list[Episode], progress: Progress) -> None:
        """Bring a group into the order of its repeats, and have it judged, but for abnormal episodes."""
        group.sort(key=lambda episode: episode.repeat)
        open_ones = [episode for episode in group if episode.error is None and not is_abnormal(episode)]
        if not open_ones or self.judge is None:
            return
        running = progress.start(task)
        try:
            scored = {one.repeat: one for one in await judged(self.judge, task, open_ones)}
        finally:
            progress.end(running)
        group[:] = [scored.get(episode.repeat, episode) for episode in group]
