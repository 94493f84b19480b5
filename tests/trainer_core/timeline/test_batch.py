"""Sequences end to end."""

import numpy as np
import torch

from trainer_core.timeline.batch import to_batch
from trainer_core.types import Sequence


def sequence(ids: list[int], trained: list[int], logprob: float, episode: int) -> Sequence:
    mask = np.array(trained, bool)
    logprobs = np.where(mask, logprob, 0.0).astype(np.float32)
    return Sequence(np.array(ids, np.int32), mask, logprobs, episode)


SEQUENCES = [sequence([5, 6, 7], [0, 1, 1], -0.5, 0), sequence([8, 9], [0, 1], -0.25, 2)]


def test_tensors_by_hand() -> None:
    batch, episode_of_segment = to_batch(SEQUENCES)
    assert batch.ids.tolist() == [5, 6, 7, 8, 9]
    assert batch.positions.tolist() == [0, 1, 2, 0, 1]
    assert batch.segment.tolist() == [0, 0, 0, 1, 1]
    assert batch.trained.tolist() == [False, True, True, False, True]
    assert batch.old_logprobs.tolist() == [0, -0.5, -0.5, 0, -0.25]
    assert batch.advantage.tolist() == [0] * 5
    assert batch.weight.tolist() == [0, 1, 1, 0, 1]
    assert len(batch) == 2
    assert episode_of_segment.tolist() == [0, 2]
    whole = (batch.ids, batch.positions, batch.segment, episode_of_segment)
    assert all(tensor.dtype == torch.int64 for tensor in whole)
    assert all(t.dtype == torch.float32 for t in (batch.old_logprobs, batch.advantage, batch.weight))
