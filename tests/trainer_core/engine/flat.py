"""Flat batches for tests, and the same numbers from each sequence alone."""

from collections.abc import Sequence
from typing import Any

import torch

from trainer_core.types import Batch


def flat_batch(sequences: Sequence[tuple[list[int], list[bool]]], seed: int = 0) -> Batch:
    """A batch of (ids, trained) with random advantages and weights that add up to 1."""
    noise = torch.Generator().manual_seed(seed)
    trained = torch.tensor([mark for _, marks in sequences for mark in marks])
    count = len(trained)
    weight = torch.rand(count, generator=noise) * trained
    return Batch(
        ids=torch.tensor([token for ids, _ in sequences for token in ids]),
        positions=torch.cat([torch.arange(len(ids)) for ids, _ in sequences]),
        segment=torch.repeat_interleave(torch.tensor([len(ids) for ids, _ in sequences])),
        trained=trained,
        old_logprobs=torch.zeros(count),
        advantage=torch.randn(count, generator=noise) * trained,
        weight=weight / weight.sum(),
    )


def random_sequences(seed: int, vocabulary: int = 97) -> list[tuple[list[int], list[bool]]]:
    """Groups of answers of 1 to 9 tokens to prompts of 3 to 12, a prompt with one answer, two sequences with
    an untrained stretch (a tool's result) in their middle and at their end, and answers that came twice."""
    noise = torch.Generator().manual_seed(seed)

    def draw(count: int) -> list[int]:
        return torch.randint(3, vocabulary, (count,), generator=noise).tolist()

    sequences = []
    for length, answers in ((5, (1, 4, 9)), (12, (3, 3)), (3, (6,))):
        prompt = draw(length)
        sequences += [(prompt + draw(n), [False] * length + [True] * n) for n in answers]
    prompt = draw(7)
    for _ in range(2):
        marks = [False] * 7 + [True] * 3 + [False] * 4 + [True] * 2 + [False] * 2
        sequences.append((prompt + draw(11), marks))
    sequences += [sequences[1], sequences[1], sequences[5], sequences[6]]
    sequences.append((sequences[6][0], [False] * 7 + [True] * 3 + [False] * 8))  # trained elsewhere
    return [sequences[i] for i in torch.randperm(len(sequences), generator=noise).tolist()]


def alone(model: Any, batch: Batch, temperature: float = 1.0) -> torch.Tensor:
    """[T] log-probabilities from one plain forward pass per sequence."""
    parts = []
    for number in range(len(batch)):
        ids = batch.ids[batch.segment == number]
        logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float() / temperature
        own = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
        parts.append(torch.cat([own.new_zeros(1), own]))
    return torch.cat(parts) * batch.trained
