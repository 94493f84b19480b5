"""Sequences end to end."""

import numpy as np
import torch

from trainer_core.timeline.batch import episode_of_segment, to_batch
from trainer_core.types import Sequence


def sequence(ids: list[int], trained: list[int], logprob: float, episode: int) -> Sequence:
    mask = np.array(trained, bool)
    logprobs = np.where(mask, logprob, 0.0).astype(np.float32)
    return Sequence(np.array(ids, np.int32), mask, logprobs, episode)


SEQUENCES = [sequence([5, 6, 7], [0, 1, 1], -0.5, 0), sequence([8, 9], [0, 1], -0.25, 2)]


def test_tensors_by_hand() -> None:
    batch = to_batch(SEQUENCES, torch.tensor([1.0, 100.0, -2.0]))
    assert batch.ids.tolist() == [5, 6, 7, 8, 9]
    assert batch.positions.tolist() == [0, 1, 2, 0, 1]
    assert batch.segment.tolist() == [0, 0, 0, 1, 1]
    assert batch.trained.tolist() == [False, True, True, False, True]
    assert batch.old_logprobs.tolist() == [0, -0.5, -0.5, 0, -0.25]
    assert batch.advantage.tolist() == [0, 1, 1, 0, -2]
    assert batch.weight.tolist() == [0, 1, 1, 0, 1]
    assert len(batch) == 2
    assert episode_of_segment(SEQUENCES).tolist() == [0, 2]
    whole = (batch.ids, batch.positions, batch.segment)
    assert all(tensor.dtype == torch.int64 for tensor in whole)
    assert all(t.dtype == torch.float32 for t in (batch.old_logprobs, batch.advantage, batch.weight))


def test_an_advantage_that_is_no_number_stays_with_its_episode() -> None:
    """Failed episodes may have any advantage: none of their tokens are in the batch."""
    batch = to_batch(SEQUENCES, torch.tensor([1.0, float("nan"), -2.0]))
    assert torch.isfinite(batch.advantage).all()


def test_weights_are_passed_through() -> None:
    weight = torch.tensor([0.0, 0.1, 0.2, 0.0, 0.3])
    assert to_batch(SEQUENCES, torch.zeros(3), weight).weight is weight


def test_no_sequences_make_an_empty_batch() -> None:
    batch = to_batch([], torch.zeros(4))
    assert (len(batch), batch.ids.shape) == (0, (0,))
