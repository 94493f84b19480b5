"""From a flat batch to padded micro-batches under a token budget; padding is known here and nowhere else.

A sequence's prompt is its leading untrained run. Where several sequences of a micro-batch begin with the same
prompt it is laid out once, padded on the left, and each sequence is a row, padded on the right, that goes on
from it. Sequences that are the same, as the answers to a task become when it is learned, are one row. What
comes after the token before the last trained one predicts nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from trainer_core.bounds import COPIED_TOKEN
from trainer_core.types import Batch

_WORTH_SHARING = 1 / 16
"""Share of a group's tokens that must be saved: a row that goes on from a cache needs a mask of its length
times the cache's, which whole sequences do without."""
_CALL = 256
"""A forward and backward pass of a small model costs as much as about this many tokens more in another."""
_SHARING = 2 * _CALL
"""Tokens of a batch that must be saved: prompts have a pass of their own, and so have the sequences that
share none."""


@dataclass(frozen=True)
class Rows:
    """B sequences, or what follows their prompts, for one forward pass."""

    prompt_of: torch.Tensor
    """[B] int64: index of each row's prompt; empty where the rows are whole sequences."""
    ids: torch.Tensor
    """[B, R] int64, padded on the right; R is 0 where every answer is one token."""
    tokens: torch.Tensor
    """[N] int64: places of the rows' trained tokens in the flat batch."""
    predictors: torch.Tensor
    """[N] int64: where each is predicted, as an index into the flattened [B, 1 + R], whose first column is
    the end of the prompt, or into [B, R] where the rows are whole sequences."""
    places: torch.Tensor
    """[M] int64: places of the trained tokens of all sequences that the rows stand for."""
    copy_of: torch.Tensor
    """[M] int64: the index in `tokens` of each of them."""


@dataclass(frozen=True)
class MicroBatch:
    """U distinct prompts, and the rows that go on from them."""

    prompts: torch.Tensor
    """[U, P] int64, padded on the left; U is 0 where the rows are whole sequences."""
    lengths: torch.Tensor
    """[U] int64."""
    rows: tuple[Rows, ...]
    """One forward pass each: rows of similar length."""

    def to(self, device: torch.device) -> MicroBatch:
        rows = tuple(_moved(each, device) for each in self.rows)
        return replace(_moved(self, device), rows=rows)


def _moved(value: Any, device: torch.device) -> Any:
    tensors = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{k: v.to(device) for k, v in tensors.items() if isinstance(v, torch.Tensor)})


@dataclass(frozen=True)
class _Piece:
    """One sequence and those that are the same, as places in the flat batch."""

    start: int
    first: int
    """The row begins here: after the prompt where it is shared, else at `start`."""
    end: int
    """The last trained token."""
    shifts: tuple[int, ...]
    """From `start` to where each sequence that is the same begins; its own, 0, first."""
    prompt: bytes
    """The shared prompt; empty where none is."""

    @property
    def prompt_length(self) -> int:
        return self.first - self.start

    @property
    def length(self) -> int:
        """Tokens of the row."""
        return self.end - self.first


def micro_batches(
    batch: Batch, max_tokens: int, *, share_prompts: bool, mask_element: float = 0.0
) -> Iterator[MicroBatch]:
    """Cut a batch into micro-batches, the shortest sequences first; those without trained tokens are left
    out.

    Args:
        max_tokens: bound on the padded tokens of a micro-batch, prompts included, where keys and values that
            are copied from a shared prompt count a tenth; a sequence that is longer comes alone.
        share_prompts: False lays out whole sequences.
        mask_element: memory of an element of an attention mask, in tokens: rows that go on from a prompt have
            a mask of their length times the whole, and prompts of different lengths one of their square.
    """
    ids, trained = batch.ids.cpu().numpy(), batch.trained.cpu().numpy()
    pieces = _pieces(ids, trained, batch.segment.cpu().numpy(), share_prompts)
    for chosen in _packed(pieces, max_tokens, mask_element):
        yield _laid_out(chosen, ids, trained)


def _pieces(ids: Any, trained: Any, segment: Any, share_prompts: bool) -> list[_Piece]:
    """In the order in which they are packed: whole sequences, then those that share a prompt."""
    groups: dict[bytes, list[_Piece]] = {}
    for piece in _distinct(ids, trained, segment):
        groups.setdefault(piece.prompt, []).append(piece)
    saved = {prompt: (len(group) - 1) * group[0].prompt_length for prompt, group in groups.items()}
    worth = {
        prompt
        for prompt, group in groups.items()
        if saved[prompt] and saved[prompt] >= _WORTH_SHARING * sum(piece.end - piece.start for piece in group)
    }
    if not share_prompts or sum(saved[prompt] for prompt in worth) < _SHARING:
        worth = set()
    alone: list[_Piece] = []
    shared: list[list[_Piece]] = []
    for prompt, group in groups.items():
        if prompt in worth:
            shared.append(sorted(group, key=lambda piece: piece.length))
        else:
            alone += [replace(piece, first=piece.start, prompt=b"") for piece in group]
    shared.sort(key=lambda group: (group[0].prompt_length, group[-1].length))
    return [*sorted(alone, key=lambda piece: piece.length), *(piece for group in shared for piece in group)]


def _distinct(ids: Any, trained: Any, segment: Any) -> Iterator[_Piece]:
    """The sequences that differ, up to their last trained token, in tokens or in which are trained."""
    places = np.flatnonzero(trained)
    starts = np.searchsorted(segment, np.arange(int(segment[-1]) + 1 if len(segment) else 0))
    numbers, at = np.unique(segment[places], return_index=True)
    last = np.append(at[1:], len(places)) - 1
    marked = ids * 2 + trained
    alike: dict[bytes, list[tuple[int, int, int]]] = {}
    triples = zip(starts[numbers].tolist(), places[at].tolist(), places[last].tolist(), strict=True)
    for start, first, end in triples:
        alike.setdefault(marked[start : end + 1].tobytes(), []).append((start, first, end))
    for group in alike.values():
        start, first, end = group[0]
        shifts = tuple(other - start for other, _, _ in group)
        yield _Piece(start, first, end, shifts, ids[start:first].tobytes())


def _packed(pieces: list[_Piece], max_tokens: int, mask_element: float) -> Iterator[list[_Piece]]:
    """Runs of pieces that fit the budget; pieces with a shared prompt are not mixed with whole sequences."""
    chosen: list[_Piece] = []
    prompts: set[bytes] = set()
    width = prompt_width = 0
    for piece in pieces:
        width, prompt_width = max(width, piece.length), max(prompt_width, piece.prompt_length)
        prompts.add(piece.prompt)
        cost = len(prompts) * prompt_width + (len(chosen) + 1) * (width + COPIED_TOKEN * prompt_width)
        if piece.prompt:
            masks = (len(chosen) + 1) * width * (prompt_width + width)
            if chosen and chosen[0].prompt_length < prompt_width:  # they come in this order
                masks += len(prompts) * prompt_width**2
            cost += mask_element * masks
        if chosen and (cost > max_tokens or bool(piece.prompt) != bool(chosen[0].prompt)):
            yield chosen
            chosen, prompts = [], {piece.prompt}
            width, prompt_width = piece.length, piece.prompt_length
        chosen.append(piece)
    if chosen:
        yield chosen


def _laid_out(pieces: list[_Piece], ids: Any, trained: Any) -> MicroBatch:
    distinct = dict.fromkeys(piece.prompt for piece in pieces if piece.prompt)
    numbers = {prompt: number for number, prompt in enumerate(distinct)}
    prompts = [np.frombuffer(prompt, dtype=ids.dtype) for prompt in numbers]
    lengths = [len(prompt) for prompt in prompts]
    padded = np.zeros((len(prompts), max(lengths, default=0)), dtype=np.int64)
    for row, prompt in zip(padded, prompts, strict=True):
        row[len(row) - len(prompt) :] = prompt
    ordered = sorted(pieces, key=lambda piece: piece.length)
    rows = tuple(_rows(block, numbers, ids, trained) for block in _blocks(ordered))
    return MicroBatch(torch.from_numpy(padded), torch.tensor(lengths, dtype=torch.long), rows)


def _blocks(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Cut pieces, sorted by length, wherever that saves more padding than another forward pass costs."""
    lengths = np.array([piece.length for piece in pieces])
    saved = np.arange(1, len(pieces) + 1) * (lengths[-1] - lengths)  # by a cut after each of them
    cut = int(saved.argmax()) + 1
    if saved[cut - 1] <= _CALL:
        return [pieces]
    return _blocks(pieces[:cut]) + _blocks(pieces[cut:])


def _rows(pieces: list[_Piece], numbers: dict[bytes, int], ids: Any, trained: Any) -> Rows:
    shared = bool(numbers)
    first = np.array([piece.first for piece in pieces])[:, None]
    length = np.array([piece.length for piece in pieces])[:, None]
    width = int(length.max())
    columns = np.arange(width + 1)
    places = np.minimum(first + columns, len(ids) - 1)
    padded = np.where(columns < length, ids[places], 0)[:, :width]
    row, column = np.nonzero(trained[places] & (columns <= length))
    tokens = first[row, 0] + column
    copied, shifts = _copies(pieces, np.bincount(row, minlength=len(pieces)))
    return Rows(
        torch.tensor([numbers[piece.prompt] for piece in pieces] if shared else [], dtype=torch.long),
        torch.from_numpy(np.ascontiguousarray(padded)),
        torch.from_numpy(tokens),
        torch.from_numpy(column + row * (width + 1) if shared else column - 1 + row * width),
        torch.from_numpy(tokens[copied] + shifts),
        torch.from_numpy(copied),
    )


def _copies(pieces: list[_Piece], counts: Any) -> tuple[Any, Any]:
    """[M] for each trained token of all sequences that the pieces stand for its index among the tokens of
    the pieces, which have `counts` [B], and how far it lies from that token."""
    row_of = np.repeat(np.arange(len(pieces)), [len(piece.shifts) for piece in pieces])
    counts_of = counts[row_of]
    begins = np.cumsum(counts) - counts
    own = np.cumsum(counts_of) - counts_of
    shifts = np.array([shift for piece in pieces for shift in piece.shifts])
    index = np.arange(counts_of.sum()) + np.repeat(begins[row_of] - own, counts_of)
    return index, np.repeat(shifts, counts_of)
