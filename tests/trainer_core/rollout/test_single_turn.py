"""The rollout with a scripted engine: what goes in, what comes out, in which order."""

from collections.abc import Sequence
from typing import Any

from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.judge.judge import ExactMatchJudge
from trainer_core.rollout.single_turn import SingleTurnRollout
from trainer_core.tasks.prompts import encode_prompts
from trainer_core.types import Completion, Sampling, Task

TASKS = [Task("a", "21", "12"), Task("b", "43", "34")]


class Scripted:
    """Answers every prompt with its digits in order, then with them as they are."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.asked: dict[str, Any] = {}

    def generate(self, prompts: Sequence[Sequence[int]], **asked: Any) -> list[list[Completion]]:
        self.asked = asked
        return [[self._completion(prompt[1:3][::-1]), self._completion(prompt[1:3])] for prompt in prompts]

    def _completion(self, ids: Sequence[int]) -> Completion:
        tokens = (*ids, self._tokenizer.eos_token_id)
        return Completion(tokens, (-0.1,) * len(tokens), True)


def test_samples_lie_together_per_task_and_are_judged_without_special_tokens() -> None:
    tokenizer = make_tokenizer()
    prompts = encode_prompts(tokenizer, TASKS)
    engine = Scripted(tokenizer)
    rollout = SingleTurnRollout(engine, tokenizer, ExactMatchJudge(), prompts, max_new_tokens=5)
    samples = rollout.run(TASKS, repeats=2, sampling=Sampling(0.5), seed=9)
    assert [(sample.task.task_id, sample.attempt, sample.text, sample.reward) for sample in samples] == [
        ("a", 0, "12", 1.0),
        ("a", 1, "21", 0.0),
        ("b", 0, "34", 1.0),
        ("b", 1, "43", 0.0),
    ]
    assert engine.asked == {"repeats": 2, "sampling": Sampling(0.5), "max_new_tokens": 5, "seed": 9}
    assert tokenizer.decode(samples[0].prompt_ids) == "<|user|>21<|end|><|assistant|>"
