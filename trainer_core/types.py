"""The words every room of the trainer speaks, in the order the data flows.

    Task → Call → Episode → Sequence → Batch

`tasks/` makes `Task`s, `rollout/` turns them into `Episode`s of `Call`s, `timeline/` merges calls into
`Sequence`s, `algorithm/` weighs their tokens, `engine/` works on flat `Batch`es. Nothing here imports torch
at run time, so that reading a task file or a config never pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import torch


class TrainingError(Exception):
    """Training cannot start or go on; the message says what is wrong, where, and how to fix it."""


class DataError(TrainingError):
    """A data set cannot be read; the message names the file and line, or the key in the config."""


LARGEST_REWARD = 1e15
"""Above it, what float32 computes of rewards overflows."""


def check_reward(reward: float, what: str) -> None:
    """
    Raises:
        ValueError: a reward or score that nothing can be computed with.
    """
    if not abs(reward) <= LARGEST_REWARD:
        raise ValueError(f"{what} {reward!s:.20}, not a finite number of at most {LARGEST_REWARD:g}")


@dataclass(frozen=True)
class Task:
    """One item of the data set."""

    task_id: str = ""
    """Unique within its split."""
    main_query: str = ""
    """What the user says to the model, before the chat template."""
    answer: str | None = None
    """The expected answer, for judges that compare; None where only a judge of the user's own can tell."""
    init_messages: tuple[Mapping[str, Any], ...] = ()
    """The conversation so far; empty: `main_query` alone."""
    env_type: str = "no_env"
    """Which environment the task is played in, for workflows that know several."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Function schemas that are offered to the model."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The whole row the task was read from."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation an episode begins with."""
        return [dict(message) for message in self.init_messages] or [
            {"role": "user", "content": self.main_query}
        ]


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


LossName = Literal["ppo", "gspo", "cispo", "sapo", "dro", "importance_sampling", "cross_entropy"]
"""Of the policy, per token; Tinker's names where it has them. The formulas are in `algorithm/losses.py`."""
Aggregation = Literal[
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
    "episode-mean",
]
"""How the losses of a mini-batch's tokens become one number; the formulas are in `algorithm/weights.py`."""
RejectionStatistic = Literal[
    "token_k1", "token_k2", "token_k3",
    "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
    "seq_mean_k1", "seq_mean_k2", "seq_mean_k3",
    "seq_max_k2", "seq_max_k3",
]  # fmt: skip
"""With r = log(π_train / π_rollout) of a token: k1 = -r, k2 = r²/2, k3 = exp(r) - 1 - r; of each token, or
summed, averaged or maximised over a sequence. Used in `algorithm/correction.py`."""


@dataclass(frozen=True)
class Loss:
    """A loss as a name and numbers, so that it can cross a process boundary; the formulas are in
    `algorithm/losses.py`."""

    name: LossName = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 3.0
    beta: float = 0.05
    """Of `dro`: weight of the squared log-ratio."""
    tau_positive: float = 1.0
    """Of `sapo`: temperature of the gate where the advantage is positive, `tau_negative` where not."""
    tau_negative: float = 1.05
    kl_coef: float = 0.0
    """Weight of the KL divergence from the reference; 0 leaves it out."""
    kl_estimator: str = "low_var_kl"
    """A name in `algorithm/names.py`."""


class FinishReason(StrEnum):
    """Why the model stopped writing."""

    STOP = "stop"
    """It ended by itself, with an end-of-sequence or a stop id."""
    LENGTH = "length"
    """The limit cut it off."""
    ABORT = "abort"
    """Somebody cancelled the request."""


@dataclass(frozen=True)
class Call:
    """One request to the model within an episode, token for token as the engine saw it."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Exactly as sampled, with the end-of-sequence id when there was one."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each sampled id under softmax(logits / temperature), before top-k and
    top-p."""
    finish_reason: FinishReason = FinishReason.STOP
    weight_version: int = 0
    """Optimizer steps that the sampling weights had seen."""
    agent: str = ""
    """Which agent asked, where an episode has several."""
    started: float = 0.0
    """Seconds since the episode began."""
    seconds: float = 0.0


class StopReason(StrEnum):
    """Why an episode ended."""

    FINISHED = "finished"
    """The agent came to its end."""
    LENGTH = "length"
    """Its last answer was cut off."""
    CONTEXT = "context"
    """The conversation no longer fits the model."""
    TURNS = "turns"
    TIMEOUT = "timeout"
    FAILED = "failed"
    """`error` says how."""


@dataclass(frozen=True)
class Episode:
    """One try at a task, and what it earned."""

    task: Task
    repeat: int
    """0-based number of the try within its group (the repeats of one task)."""
    calls: tuple[Call, ...]
    output: str = ""
    """What is judged: the last answer without special tokens."""
    reward: float | None = None
    """None until judged, and where it could not be."""
    is_success: bool = False
    error: str | None = None
    """What went wrong; such an episode is not trained on, and is counted."""
    stop_reason: StopReason = StopReason.FINISHED
    metrics: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the workflow left, for judges and records."""


@dataclass(frozen=True)
class Sequence:
    """The tokens that calls with shared history merge into; each sampled token is in exactly one sequence,
    after exactly the tokens it was sampled after."""

    ids: np.ndarray[Any, np.dtype[np.int32]]
    """[L]."""
    trained: np.ndarray[Any, np.dtype[np.bool_]]
    """[L] true on sampled tokens; never on the first."""
    logprobs: np.ndarray[Any, np.dtype[np.float32]]
    """[L] as sampled; 0 where not trained."""
    episode: int
    """Index of the episode within its batch."""


@dataclass(frozen=True)
class Batch:
    """S sequences, end to end: T tokens, no padding.

    The log-probability *of* a token stands at the token's own place; a sequence's first token has none (0).
    The loss of a batch is Σ weight · loss over its trained tokens: every mean, and every share of an episode,
    is in `weight`, so the parts of a batch add up to the whole however it is cut.
    """

    ids: torch.Tensor
    """[T] int64."""
    positions: torch.Tensor
    """[T] int64: 0, 1, … within each sequence."""
    segment: torch.Tensor
    """[T] int64: index of the sequence, 0 … S-1, ascending."""
    trained: torch.Tensor
    """[T] bool."""
    old_logprobs: torch.Tensor
    """[T] float32 under the policy that the update starts from."""
    advantage: torch.Tensor
    """[T] float32; 0 where not trained."""
    weight: torch.Tensor
    """[T] float32; 0 where not trained."""
    reference_logprobs: torch.Tensor | None = None
    """[T] float32 under the frozen start policy, where the loss has a KL term."""

    def __len__(self) -> int:
        """S, the number of sequences."""
        return int(self.segment[-1]) + 1 if len(self.segment) else 0

    def select(self, keep: torch.Tensor) -> Batch:
        """The sequences where `keep` ([S] bool) is true, in their order."""
        tokens = keep[self.segment]
        number = keep.cumsum(0) - 1
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        chosen = {name: value[tokens] for name, value in values.items() if value is not None}
        return replace(self, **chosen | {"segment": number[chosen["segment"]]})
