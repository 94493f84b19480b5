"""Every trained token once, within the budget, with little padding."""

from collections import Counter

import pytest
import torch

from tests.trainer_core.engine.flat import flat_batch, random_sequences
from trainer_core.engine.micro_batches import MicroBatch, micro_batches
from trainer_core.types import Batch


def grouped(prompts: int, repeats: int, prompt: int, longest: int, seed: int = 0) -> Batch:
    """Answers of 1 … `longest` tokens."""
    noise = torch.Generator().manual_seed(seed)
    sequences = []
    for _ in range(prompts):
        start = torch.randint(0, 99, (prompt,), generator=noise).tolist()
        for _ in range(repeats):
            length = int(torch.randint(1, longest + 1, (1,), generator=noise))
            answer = torch.randint(0, 99, (length,), generator=noise).tolist()
            sequences.append((start + answer, [False] * prompt + [True] * length))
    return flat_batch(sequences)


def computed(micro: MicroBatch) -> int:
    """Padded tokens."""
    return micro.prompts.numel() + sum(rows.ids.numel() for rows in micro.rows)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [1, 30, 100, 10_000])
def test_every_trained_token_is_predicted_from_what_precedes_it(share: bool, budget: int) -> None:
    batch = flat_batch(random_sequences(seed=2))
    seen: Counter[int] = Counter()
    for micro in micro_batches(batch, budget, share_prompts=share):
        for rows in micro.rows:
            predictors = rows.predictors[rows.copy_of]
            for place, at in zip(rows.places.tolist(), predictors.tolist(), strict=True):
                seen[place] += 1
                width = rows.ids.shape[1]
                if len(micro.prompts):
                    row, column = divmod(at, width + 1)
                    number = int(rows.prompt_of[row])
                    prompt = micro.prompts[number, micro.prompts.shape[1] - int(micro.lengths[number]) :]
                    before = [*prompt.tolist(), *rows.ids[row, :column].tolist()]
                else:
                    row, column = divmod(at, width)
                    before = rows.ids[row, : column + 1].tolist()
                start = place - int(batch.positions[place])
                assert before == batch.ids[start:place].tolist()
    assert seen == Counter(batch.trained.nonzero()[:, 0].tolist())


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [1, 500, 3000])
def test_the_budget_holds_unless_one_sequence_is_longer(share: bool, budget: int) -> None:
    batch = grouped(prompts=6, repeats=8, prompt=100, longest=60)
    for micro in micro_batches(batch, budget, share_prompts=share):
        assert computed(micro) <= budget or sum(len(rows.ids) for rows in micro.rows) == 1


def test_masks_are_counted() -> None:
    """16 rows of 10 tokens after prompts of 20, in tokens: 20 + 16 × (10 + 2); masks: 16 × 10 × 30 more."""
    batch = flat_batch([([1] * 20 + [n] * 11, [False] * 20 + [True] * 11) for n in range(16)])
    parts = [list(micro_batches(batch, 240, share_prompts=True, mask_element=each)) for each in (0, 0.1)]
    assert [len(part) for part in parts] == [1, 4]
    assert [len(micro.prompts) for micro in parts[1]] == [1] * 4
    uneven = flat_batch([([1] * n + [2, a], [False] * n + [True] * 2) for n in (20, 30) for a in (2, 3)])
    parts = [list(micro_batches(uneven, 240, share_prompts=True, mask_element=each)) for each in (0, 0.1)]
    assert [[len(micro.prompts) for micro in part] for part in parts] == [[2], [1, 1]]


@pytest.mark.parametrize(
    ("shape", "share", "waste"),
    [((32, 16, 8, 8), True, 1.4), ((4, 8, 130, 60), True, 1.35), ((32, 16, 8, 200), False, 1.1)],
)
def test_little_is_padding(shape: tuple[int, int, int, int], share: bool, waste: float) -> None:
    """Against the tokens that have to be computed: distinct prompts, and answers but for their last token."""
    prompts, repeats, prompt, _ = shape
    batch = grouped(*shape)
    needed = int(batch.trained.sum()) - prompts * repeats + prompts * prompt * (1 if share else repeats)
    assert sum(map(computed, micro_batches(batch, 10**6, share_prompts=share))) <= waste * needed


@pytest.mark.parametrize("share", [True, False])
def test_sequences_that_are_the_same_are_computed_once(share: bool) -> None:
    once = [([1, 2, 3, 4, n], [False] * 2 + [True] * 3) for n in (5, 6)]
    other_mask = (once[0][0], [False] * 2 + [True, False, True])
    (micro,) = micro_batches(flat_batch([*once * 20, other_mask]), 100, share_prompts=share)
    (rows,) = micro.rows
    assert len(rows.ids) == 3
    assert (len(rows.tokens), len(rows.places)) == (8, 122)


def test_prompts_are_shared_where_that_saves_more_than_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.engine.micro_batches._SHARING", 512)
    shared = [
        [len(micro.prompts) for micro in micro_batches(grouped(8, repeats, 16, 8), 10**6, share_prompts=True)]
        for repeats in (4, 6)
    ]
    assert shared == [[0], [8]]  # 8 × 3 × 16 tokens, 8 × 5 × 16


def test_sequences_that_are_not_trained_cost_nothing() -> None:
    batch = flat_batch([([5, 6, 7], [False] * 3), ([5, 6, 8, 9], [False, False, True, False])])
    (micro,) = micro_batches(batch, 100, share_prompts=True)
    assert computed(micro) == 2  # what precedes the one trained token
