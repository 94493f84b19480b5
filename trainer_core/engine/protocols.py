"""The two seams of the trainer: any inference engine goes with any training engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trainer_core.types import Batch, FinishReason, Loss, Sampling

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Request:
    """One prompt, and how to go on from it."""

    prompt_ids: Sequence[int]
    sampling: Sampling
    max_tokens: int
    stop_ids: tuple[int, ...] = ()
    """Ids that end the answer, beside the model's own end-of-sequence ids."""
    n: int = 1
    """Answers to this prompt; they share its prefill."""
    seed: int = 0
    """Same seed, prompt and weights: same tokens, but for rounding where other requests are computed
    beside it."""
    session: tuple[int | str, ...] = ()
    """(task, repeat, call …): the place of this request in a deterministic engine's order. It belongs to the
    open sessions that it begins with."""
    top_logprobs: int = 0
    """How many alternatives to report for each token."""
    stop_texts: tuple[str, ...] = ()
    """The token that completes one of these ends the answer."""
    on_token: Callable[[int, int], None] | None = None
    """Told the number of the answer, 0 to n - 1, and each id as it is drawn; from the engine's thread."""


@dataclass(frozen=True)
class Generation:
    """One answer."""

    ids: tuple[int, ...]
    """Exactly as sampled, with the id that ended it."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each under softmax(logits / temperature), before top-k and top-p."""
    finish_reason: FinishReason
    weight_version: int
    """That of the weights which drew the first token."""
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()
    """For each token the likeliest (id, logprob), descending, where asked for."""


class InferenceEngine(Protocol):
    """Generates from the current policy, for any number of callers at once."""

    async def generate(self, request: Request) -> list[Generation]:
        """`request.n` answers. Cancelling the caller's task cancels the generation.

        Raises:
            TrainingError: the prompt does not fit the model.
        """

    def session(self, key: tuple[int | str, ...]) -> AbstractContextManager[None]:
        """Say that requests whose `session` begins with `key` may come while the context is open. A
        deterministic engine generates nothing before every open session has a request waiting, so that what
        is computed together does not depend on who comes first; other engines take no notice.

        Open the sessions of all episodes that start together before the first of them runs, and an episode's
        successor before closing its own. Agents that ask in parallel within an episode have a session each,
        e.g. (task, repeat, agent).
        """

    async def pause(self) -> None:
        """Let what is being generated end, and hold back the rest: the weights may now be changed."""

    async def resume(self) -> None:
        """Go on."""

    async def update_weights(self, version: int) -> None:
        """From now on the weights are those after `version` optimizer steps."""

    async def close(self) -> None:
        """Give back threads and memory."""


Policy = Literal["policy", "reference"]


class TrainingEngine(Protocol):
    """Owns the weights being trained and the frozen reference they started from. Gradients of several
    `forward_backward` add up until `optim_step`."""

    def forward(self, batch: Batch, policy: Policy = "policy") -> torch.Tensor:
        """[T] float32 log-probabilities of the tokens at the training temperature; 0 where not trained."""

    def forward_backward(self, batch: Batch, loss: Loss) -> dict[str, float]:
        """Add the gradients of Σ weight · loss. Returns `actor/…` metrics; those that are means are means
        over the batch's trained tokens; `training/rollout_probs_diff_max` is the largest
        |exp(old_logprobs) - exp(logprobs)|.

        Raises:
            TrainingError: the loss is not finite.
        """

    def optim_step(self, lr: float, grad_clip: float) -> dict[str, float]:
        """One step of the optimizer; `actor/grad_norm` is the norm before clipping.

        Raises:
            TrainingError: the gradient is not finite; the weights are those before the step.
        """

    def save(self, folder: Path) -> None:
        """Write weights (Hugging Face format) and all else that `load` needs to go on exactly."""

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote.

        Raises:
            TrainingError: it is damaged or of another model.
        """

    def export(self, folder: Path) -> None:
        """Write the weights alone, in Hugging Face format."""

    def on_gpu(self) -> Mapping[str, torch.Tensor] | None:
        """The weights by their names in that format, where this process has them whole on its GPU."""


@dataclass(frozen=True)
class Engines:
    """What a backbone brings."""

    training: TrainingEngine
    inference: InferenceEngine
    start_digest: str
    """Digest of the weights that reinforcement learning starts from."""
    context: int | None
    """Tokens the model can read; None: no bound is known."""
    facts: Mapping[str, Any]
    """About the model, for `environment.json`."""
