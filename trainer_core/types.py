"""The words every room of the trainer speaks: tasks, samples, token batches, errors.

`tasks/` makes `Task`s, `rollout/` turns them into `Sample`s, `engine/` works on `TokenBatch`es. Nothing here
imports torch at run time, so that reading a task file or a config never pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class TrainingError(Exception):
    """Training cannot start or go on; the message says what is wrong, where, and how to fix it."""


class DataError(TrainingError):
    """A data set cannot be read; the message names the file and line, or the key in the config."""


@dataclass(frozen=True)
class Task:
    """One item of the data set."""

    task_id: str
    """Unique within its split."""
    main_query: str
    """What the user says to the model, before the chat template."""
    answer: str | None = None
    """The expected answer, for judges that compare; None where only a judge of the user's own can tell."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The whole row the task was read from."""


@dataclass(frozen=True)
class TaskSplits:
    """The three sets a run uses."""

    training: tuple[Task, ...]
    validation: tuple[Task, ...]
    """Reported on, never trained on."""
    warmup: tuple[Task, ...]
    """Decides when the supervised warm-up stops, so that the reported split has no say in it. The warm-up
    trains on the training tasks that are not among these."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    """Smallest set of tokens whose probabilities add up to this; 1 is off."""
    top_k: int = -1
    """The k most probable tokens; -1 is off."""


@dataclass(frozen=True)
class Completion:
    """What the inference engine produced for one prompt."""

    token_ids: tuple[int, ...]
    """The generated ids exactly as sampled, with the end-of-sequence id when there was one."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each id under softmax(logits / temperature), before top-k and top-p."""
    finished: bool
    """True when the model ended by itself, False when the length limit cut it off."""


@dataclass(frozen=True)
class Output:
    """What a judge sees of an episode."""

    text: str
    """The answer without special tokens."""
    finished: bool
    """False when the length limit cut the answer off."""


@dataclass(frozen=True)
class Sample:
    """One episode: a task, one try at it, and what it earned."""

    task: Task
    attempt: int
    """0-based number of the try within its group (the repeats of one task)."""
    prompt_ids: tuple[int, ...]
    completion: Completion
    text: str
    reward: float
    is_success: bool


@dataclass(frozen=True)
class TokenBatch:
    """B samples as tensors: prompts padded on the left to P tokens, responses on the right to R tokens."""

    input_ids: torch.Tensor
    """[B, P + R] int64."""
    attention_mask: torch.Tensor
    """[B, P + R] int64, 1 on real tokens."""
    response_mask: torch.Tensor
    """[B, R] float32, 1 on generated tokens: the only ones that are trained on."""
    rollout_logprobs: torch.Tensor
    """[B, R] float32, as the inference engine reported them; 0 on padding."""

    @property
    def response_length(self) -> int:
        """R, the padded length of the responses."""
        return int(self.response_mask.shape[1])

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])

    def rows(self, index: torch.Tensor | slice) -> TokenBatch:
        """The samples at these positions."""
        return TokenBatch(
            input_ids=self.input_ids[index],
            attention_mask=self.attention_mask[index],
            response_mask=self.response_mask[index],
            rollout_logprobs=self.rollout_logprobs[index],
        )
