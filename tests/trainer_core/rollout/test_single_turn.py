"""The rollout with a scripted engine: what goes in, what comes out, in which order, and what fails."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.trainer_core.gateway.fake import FakeEngine
from trainer_core.engine.protocols import Generation, Request
from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.judge.judge import ExactMatchJudge, Judge, OneByOne, Output, Score
from trainer_core.rollout.protocol import Tries
from trainer_core.rollout.single_turn import SingleTurnRollout
from trainer_core.tasks.prompts import Prompts
from trainer_core.types import Episode, FinishReason, Sampling, StopReason, Task, TrainingError

TASKS = [Task("a", "21", "12"), Task("b", "43", "34")]
TOKENIZER = make_tokenizer()


class Scripted(FakeEngine):
    """Answers every prompt with its digits in order, then with them as they are."""

    def __init__(self, before: Callable[[str], Any] = lambda question: None) -> None:
        super().__init__(lambda request, index: ())
        self.asked: list[Request] = []
        self._before = before

    async def generate(self, request: Request) -> list[Generation]:
        self.asked.append(request)
        if (waits := self._before(TOKENIZER.decode(request.prompt_ids[1:3]))) is not None:
            await waits
        digits = tuple(request.prompt_ids[1:3])
        return [self._generation(digits[:: (-1) ** (number + 1)]) for number in range(request.n)]

    def _generation(self, ids: tuple[int, ...]) -> Generation:
        ids = (*ids, TOKENIZER.eos_token_id)
        return Generation(ids, (-0.1,) * len(ids), FinishReason.STOP, weight_version=7)


def rollout(engine: Any, judge: Judge | None = None, longest: int | None = None) -> SingleTurnRollout:
    ticks = itertools.count()
    prompts = Prompts(TOKENIZER, longest)
    return SingleTurnRollout(
        engine, TOKENIZER, judge or ExactMatchJudge(), prompts, 5, clock=lambda: float(next(ticks))
    )


def run(engine: Any, *tasks: Task, judge: Judge | None = None, longest: int | None = None) -> list[Episode]:
    running = rollout(engine, judge, longest).run(tasks, Tries(2, Sampling(0.5), seed=9))
    return asyncio.run(running)


def test_episodes_lie_together_per_task_and_are_judged_without_special_tokens() -> None:
    engine = Scripted()
    episodes = run(engine, *TASKS)
    assert [(one.task.task_id, one.repeat, one.output, one.reward, one.is_success) for one in episodes] == [
        ("a", 0, "12", 1.0, True),
        ("a", 1, "21", 0.0, False),
        ("b", 0, "34", 1.0, True),
        ("b", 1, "43", 0.0, False),
    ]
    (call,) = episodes[0].calls
    assert TOKENIZER.decode(call.prompt_ids) == "<|user|>21<|end|><|assistant|>"
    assert TOKENIZER.decode(call.completion_ids) == "12<|end|>"
    assert (call.weight_version, call.logprobs, call.seconds) == (7, (-0.1,) * 3, 1.0)
    assert [one.stop_reason for one in episodes] == [StopReason.FINISHED] * 4


def test_one_request_asks_for_all_answers_to_a_task_with_a_seed_and_place_of_its_own() -> None:
    engine = Scripted()
    run(engine, *TASKS, TASKS[0])
    assert [(one.n, one.max_tokens, one.sampling) for one in engine.asked] == [(2, 5, Sampling(0.5))] * 3
    assert [one.session for one in engine.asked] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    assert len({one.seed for one in engine.asked}) == 3
    again = Scripted()
    run(again, *TASKS)
    assert [one.seed for one in again.asked] == [one.seed for one in engine.asked[:2]]


def test_a_group_is_judged_while_another_is_still_generated() -> None:
    judged_first = asyncio.Event()

    class Noting(ExactMatchJudge):
        async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
            judged_first.set()
            return await super().score(task, episodes)

    engine = Scripted(lambda question: judged_first.wait() if question == "21" else None)
    episodes = run(engine, *TASKS, judge=Noting())  # the first answer waits for the second's judge
    assert [one.task.task_id for one in episodes] == ["a", "a", "b", "b"]


def test_a_judge_that_blocks_holds_up_no_other_group() -> None:
    generated = threading.Event()

    class Slow:
        def compute_reward(self, task: Task, output: Output) -> tuple[float, None]:
            return float(task.task_id == "a" or generated.wait(timeout=30)), None

    async def later() -> None:
        await asyncio.sleep(0.01)  # the other group is with its judge by now
        generated.set()

    engine = Scripted(lambda question: later() if question == "21" else None)
    episodes = run(engine, *TASKS, judge=OneByOne(Slow()))
    assert [one.reward for one in episodes] == [1.0] * 4


def breaks_on(wanted: str, error: Exception) -> Callable[[str], None]:
    def before(question: str) -> None:
        if question == wanted:
            raise error

    return before


@pytest.mark.parametrize(
    ("error", "said"),
    [(TrainingError("does not fit the model"), "does not fit the model"), (KeyError("k"), "KeyError: 'k'")],
)
def test_what_the_engine_cannot_answer_is_an_episode_with_an_error(error: Exception, said: str) -> None:
    episodes = run(Scripted(breaks_on("43", error)), *TASKS)
    assert [(one.reward, one.error) for one in episodes] == [
        (1.0, None),
        (0.0, None),
        (None, said),
        (None, said),
    ]
    assert [one.stop_reason for one in episodes[2:]] == [StopReason.FAILED] * 2


def test_a_prompt_that_is_too_long_is_an_error_that_names_its_task() -> None:
    episodes = run(Scripted(), TASKS[0], Task("long", "12345"), longest=5)
    assert [one.error is None for one in episodes] == [True, True, False, False]
    assert "task 'long' has 8 tokens" in str(episodes[2].error)


def test_when_all_fail_training_ends() -> None:
    def always(question: str) -> None:
        raise OSError("engine is gone")

    with pytest.raises(TrainingError, match="all 4 episodes failed; the first: OSError: engine is gone"):
        run(Scripted(always), *TASKS)


def test_a_judge_that_fails_ends_training_and_leaves_nothing_running() -> None:
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    class Broken:
        async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
            raise ZeroDivisionError

    engine = Scripted(lambda question: forever() if question == "21" else None)
    with pytest.raises(
        TrainingError, match="judge Broken failed on task 'b' with ZeroDivisionError"
    ) as error:
        run(engine, *TASKS, judge=Broken())
    assert isinstance(error.value.__cause__, ZeroDivisionError)  # the traceback leads to the user's line
    assert cancelled == [True]


@pytest.mark.parametrize(
    ("reason", "stop", "failed"),
    [
        (FinishReason.LENGTH, StopReason.LENGTH, False),
        (FinishReason.ABORT, StopReason.FAILED, True),
    ],
)
def test_why_an_answer_ended_is_kept(reason: FinishReason, stop: StopReason, failed: bool) -> None:
    class Ending(Scripted):
        async def generate(self, request: Request) -> list[Generation]:
            whole = await super().generate(request)
            cut = Generation(request.prompt_ids[1:2], (-0.1,), reason, 7)  # type: ignore[arg-type]
            return [whole[0], cut]

    episodes = run(Ending(), TASKS[0])
    assert (episodes[1].stop_reason, episodes[1].error is not None) == (stop, failed)
    assert [one.reward for one in episodes] == [1.0, None if failed else 0.0]
