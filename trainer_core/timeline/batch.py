"""From sequences to the flat tensors that engines and algorithms work on."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import numpy as np
import torch

from trainer_core.types import Batch, Sequence


def to_batch(
    sequences: SequenceOf[Sequence],
    advantages: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
) -> Batch:
    """Lay sequences end to end.

    Args:
        advantages: [E] by episode; each trained token gets that of its sequence's episode. None: 0, for
            those who compute them from the batch and `replace`.
        weight: [T]; None: 1 on every trained token, for those who compute it from the batch and `replace`.

    `old_logprobs` are those of the sampling.
    """
    if not sequences:
        empty = torch.zeros(0)
        whole = torch.zeros(0, dtype=torch.int64)
        return Batch(whole, whole, whole, empty.bool(), empty, empty, empty)
    lengths = np.array([len(sequence.ids) for sequence in sequences])
    starts = np.cumsum(lengths) - lengths
    segment = torch.from_numpy(np.repeat(np.arange(len(sequences)), lengths))
    positions = np.arange(len(segment)) - np.repeat(starts, lengths)
    trained = torch.from_numpy(np.concatenate([sequence.trained for sequence in sequences]))
    if advantages is None:
        advantages = torch.zeros(max(sequence.episode for sequence in sequences) + 1)
    return Batch(
        ids=torch.from_numpy(np.concatenate([sequence.ids for sequence in sequences]).astype(np.int64)),
        positions=torch.from_numpy(positions),
        segment=segment,
        trained=trained,
        old_logprobs=torch.from_numpy(np.concatenate([sequence.logprobs for sequence in sequences])),
        advantage=torch.where(trained, advantages.float()[episode_of_segment(sequences)][segment], 0.0),
        weight=trained.float() if weight is None else weight,
    )


def episode_of_segment(sequences: SequenceOf[Sequence]) -> torch.Tensor:
    """[S] int64: the episode of each sequence."""
    return torch.tensor([sequence.episode for sequence in sequences], dtype=torch.int64)
