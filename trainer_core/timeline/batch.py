"""From sequences to the flat tensors that engines and algorithms work on."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import numpy as np
import torch

from trainer_core.types import Batch, Sequence


def to_batch(sequences: SequenceOf[Sequence]) -> tuple[Batch, torch.Tensor]:
    """Lay sequences (one at least) end to end; and [S], the episode of each. `old_logprobs` are those of the
    sampling; advantages are 0 and weights 1 on every trained token, for those who compute them from the
    batch and `replace`."""
    lengths = np.array([len(sequence.ids) for sequence in sequences])
    starts = np.cumsum(lengths) - lengths
    segment = torch.from_numpy(np.repeat(np.arange(len(sequences)), lengths))
    positions = np.arange(len(segment)) - np.repeat(starts, lengths)
    trained = torch.from_numpy(np.concatenate([sequence.trained for sequence in sequences]))
    batch = Batch(
        ids=torch.from_numpy(np.concatenate([sequence.ids for sequence in sequences]).astype(np.int64)),
        positions=torch.from_numpy(positions),
        segment=segment,
        trained=trained,
        old_logprobs=torch.from_numpy(np.concatenate([sequence.logprobs for sequence in sequences])),
        advantage=torch.zeros(len(trained)),
        weight=trained.float(),
    )
    return batch, torch.tensor([sequence.episode for sequence in sequences])
