"""The thinnest rollout: put the question to the model once, judge what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_core.engine.protocols import InferenceEngine
from trainer_core.judge.judge import Judge, judge_output
from trainer_core.types import Output, Sample, Sampling, Task


class SingleTurnRollout:
    """Asks the inference engine, decodes, judges."""

    def __init__(
        self,
        engine: InferenceEngine,
        tokenizer: Any,
        judge: Judge,
        prompts: Mapping[str, tuple[int, ...]],
        max_new_tokens: int,
    ) -> None:
        """`prompts` holds the prompts' token ids by question."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._judge = judge
        self._prompts = prompts
        self._max_new_tokens = max_new_tokens

    def run(self, tasks: Sequence[Task], *, repeats: int, sampling: Sampling, seed: int) -> list[Sample]:
        """`repeats` samples of every task; the samples of one task lie together, in the order of their
        attempts.

        Raises:
            TrainingError: the judge failed.
        """
        groups = self._engine.generate(
            [self._prompts[task.main_query] for task in tasks],
            repeats=repeats,
            sampling=sampling,
            max_new_tokens=self._max_new_tokens,
            seed=seed,
        )
        samples = []
        for task, group in zip(tasks, groups, strict=True):
            for attempt, completion in enumerate(group):
                text = self._tokenizer.decode(completion.token_ids, skip_special_tokens=True)
                reward, is_success = judge_output(self._judge, task, Output(text, completion.finished))
                samples.append(
                    Sample(
                        task, attempt, self._prompts[task.main_query], completion, text, reward, is_success
                    )
                )
        return samples
