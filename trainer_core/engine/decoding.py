"""Token by token through a transformers model: many answers at once, each prompt read once.

Rows join and leave between any two tokens: an agent's short call does not wait for a neighbour's long answer,
and the model is never called for rows that have ended. Synchronous and without threads; `local_inference`
puts an asyncio face on it.
"""

from __future__ import annotations

import inspect
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trainer_core.bounds import SAMPLED_LOGITS
from trainer_core.engine.kv_slots import append_rows, can_append, new_cache, reserve, sizes
from trainer_core.engine.protocols import Generation, Request
from trainer_core.engine.sampling import draw, end_ids, has_stop_text, likeliest
from trainer_core.types import FinishReason, Sampling, TrainingError

_DRAWN_AT_ONCE = 2**23
"""Rows × vocabulary while drawing, which needs some five copies of them."""
_PROMPT_TOKENS_AT_ONCE = 8192
"""Padded prompt tokens that are read in one forward pass, or one prompt."""


class Uniforms:
    """The random numbers of one request, by token and answer: the same whoever is computed beside it."""

    def __init__(self, seed: int, n: int) -> None:
        self._random = random.Random(seed)
        self._n = n
        self._drawn: list[list[float]] = []

    def at(self, token: int) -> list[float]:
        """For each answer, in [0, 1)."""
        while len(self._drawn) <= token:
            self._drawn.append([self._random.random() for _ in range(self._n)])
        return self._drawn[token]


@dataclass(slots=True, eq=False)
class Row:
    """One answer of a request, as far as it is written."""

    request: Request
    index: int
    """Which of the request's answers."""
    uniforms: Uniforms
    end_ids: frozenset[int]
    limit: int
    """Tokens it may have."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    tops: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    finish: FinishReason | None = None
    version: int = 0
    """Of the weights that drew the first token."""

    @property
    def cached(self) -> int:
        """Tokens in the cache: all but the last drawn."""
        return len(self.request.prompt_ids) + len(self.ids) - 1

    def generation(self) -> Generation:
        """What the caller gets of a row that has ended."""
        assert self.finish is not None
        return Generation(tuple(self.ids), tuple(self.logprobs), self.finish, self.version, tuple(self.tops))


class Decoder:
    """A model, and the rows it is writing."""

    def __init__(
        self, model: Any, tokenizer: Any, *, cache_bytes: int, max_length: int | None = None
    ) -> None:
        """
        Args:
            cache_bytes: bound on the keys and values of all rows; one row is always generated.
            max_length: prompt and answer together, in tokens; None: what the model's config says.

        Raises:
            TrainingError: rows of this architecture cannot be computed together.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._device = model.device
        self._cache_bytes = cache_bytes
        config = model.config.get_text_config(decoder=True)
        self._vocabulary = int(config.vocab_size)
        declared = getattr(config, "max_position_embeddings", None)
        self._max_length = min(max_length or declared or 2**31, declared or 2**31)
        self._end_ids = end_ids(model.generation_config, tokenizer)
        self._pad_id = next((n for n in (tokenizer.pad_token_id, tokenizer.eos_token_id) if n is not None), 0)
        accepted = inspect.signature(model.forward).parameters
        self._cache_name = "cache_params" if "cache_params" in accepted else "past_key_values"
        self._last_logits = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self.version = 0
        """Of the weights as they are."""
        self.clear()
        self._try_cache(config.model_type)

    def clear(self) -> None:
        """Forget all rows."""
        self.rows: list[Row] = []
        self._cache: Any = None
        self._width = 0  # columns of the cache
        self._cached = torch.zeros(0, dtype=torch.long, device=self._device)  # [B] of them, each row's own
        self._last = self._cached  # [B] drawn, not yet in the cache

    def new_rows(self, request: Request) -> list[Row]:
        """One row per answer, not yet begun.

        Raises:
            TrainingError: this request cannot be computed.
        """
        room = self._max_length - len(request.prompt_ids)
        outside = [n for n in request.prompt_ids if not 0 <= n < self._vocabulary]
        if room < 1 or not request.prompt_ids:
            raise TrainingError(
                f"the prompt has {len(request.prompt_ids)} tokens; this model reads 1 to "
                f"{self._max_length - 1}, so that one is left for the answer. Shorten the prompt"
            )
        if outside or request.max_tokens < 1 or request.n < 1:
            wrong = f"token id {outside[0]} (the vocabulary has {self._vocabulary})" if outside else ""
            raise TrainingError(
                f"a request with {wrong or f'max_tokens {request.max_tokens} and n {request.n}'} cannot be "
                "generated; ids must be of this model's tokenizer, max_tokens and n at least 1"
            )
        uniforms = Uniforms(request.seed, request.n)
        ends = self._end_ids.union(request.stop_ids)
        limit = min(request.max_tokens, room)
        return [Row(request, n, uniforms, ends, limit) for n in range(request.n)]

    def take(self, queue: deque[Row]) -> list[Row]:
        """Remove from the front of the queue the rows that can join now, within the bounds on cache and
        logits."""
        if self.rows and not self._can_append:
            return []
        most = max(1, SAMPLED_LOGITS // self._vocabulary)
        count = len(self.rows)
        cached = max((row.cached for row in self.rows), default=0)
        left = max((row.limit - len(row.ids) for row in self.rows), default=0)
        taken: list[Row] = []
        while queue and count < most:
            cached = max(cached, queue[0].cached + 1)
            left = max(left, queue[0].limit)
            size = (count + 1) * (self._column_bytes * (cached + left) + self._row_bytes)
            if size > self._cache_bytes and count:
                break
            taken.append(queue.popleft())
            count += 1
        return taken

    @torch.no_grad()
    def join(self, rows: Sequence[Row]) -> list[Row]:
        """Read the rows' prompts, each distinct one once, and draw the first tokens; returns those that
        have ended with it."""
        self._model.eval()
        by_prompt: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            row.version = self.version
            by_prompt.setdefault(tuple(row.request.prompt_ids), []).append(row)
        ended: list[Row] = []
        at_once = _PROMPT_TOKENS_AT_ONCE if self._can_append else 2**63
        for prompts in _groups(sorted(by_prompt, key=len), at_once):
            members = [row for prompt in prompts for row in by_prompt[prompt]]
            source = [place for place, prompt in enumerate(prompts) for _ in by_prompt[prompt]]
            cache, logits, cached = self._read(prompts)
            index = self._tensor(source)
            drawn = self._draw(logits[index], members)
            going = [place for place, row in enumerate(members) if row.finish is None]
            ended += [row for row in members if row.finish is not None]
            if going:
                kept = index[self._tensor(going)]
                reserve(cache, len(prompts[-1]) + max(members[n].limit for n in going))
                cache.reorder_cache(kept)
                self._append(cache, [members[n] for n in going], len(prompts[-1]), cached[kept], drawn[going])
        return ended

    @torch.no_grad()
    def step(self) -> list[Row]:
        """One more token for every row; returns those that have ended with it."""
        if not self.rows:
            return []
        logits = self._forward(self._last[:, None], self._cached[:, None], self._cached, self._cache)
        self._width += 1
        self._cached = self._cached + 1
        self._last = self._draw(logits, self.rows)
        return self.drop(lambda row: row.finish is not None)

    def drop(self, gone: Callable[[Row], bool]) -> list[Row]:
        """Remove rows from the batch; returns them."""
        dropped = [row for row in self.rows if gone(row)]
        if len(dropped) == len(self.rows):
            self.clear()
        elif dropped:
            keep = [place for place, row in enumerate(self.rows) if not gone(row)]
            index = self._tensor(keep)
            self._cache.reorder_cache(index)
            self.rows = [self.rows[place] for place in keep]
            self._cached, self._last = self._cached[index], self._last[index]
        return dropped

    def generate(self, requests: Iterable[Request]) -> list[list[Generation]]:
        """The answers to all requests, in their order; returns when the last has ended.

        Raises:
            TrainingError: a request cannot be computed.
        """
        rows = [self.new_rows(request) for request in requests]
        queue = deque(row for group in rows for row in group)
        while queue or self.rows:
            self.join(self.take(queue))
            self.step()
        return [[row.generation() for row in group] for group in rows]

    def _append(
        self, cache: Any, rows: list[Row], width: int, cached: torch.Tensor, last: torch.Tensor
    ) -> None:
        """Put rows that have read their prompts (into `width` columns) beside those that are there."""
        together = [*self.rows, *rows]
        if self.rows:
            width = max(row.cached for row in together)
            append_rows(self._cache, cache, width)
        else:
            self._cache = cache
        reserve(self._cache, width + max(row.limit - len(row.ids) for row in together))
        self.rows, self._width = together, width
        self._cached = torch.cat([self._cached, cached])
        self._last = torch.cat([self._last, last])

    def _read(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Run the prompts, padded on the left: their cache, last logits [P, V] and lengths [P]."""
        width = max(map(len, prompts))
        ids = self._tensor([[self._pad_id] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        lengths = self._tensor([len(prompt) for prompt in prompts])
        cache = new_cache(self._model.config)
        positions = torch.arange(width, device=self._device) - (width - lengths[:, None])
        return cache, self._forward(ids, positions.clamp(min=0), lengths - width, cache), lengths

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, before: torch.Tensor, cache: Any
    ) -> torch.Tensor:
        """Logits after the last of `ids` [B, new], float32 [B, V]; `before` [B] is how many columns the row
        has in the cache, less the padding in `ids`."""
        width = self._width if cache is self._cache else 0
        columns = width + ids.shape[1]
        hidden = width - before  # [B] columns on the left that are not the row's
        mask = None
        if bool((hidden > 0).any()):
            mask = (torch.arange(columns, device=self._device) >= hidden[:, None]).long()
        if cache is self._cache and self._cache_name == "cache_params":
            mask = None  # such a model keeps no columns; its states have seen the padding hidden
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **{self._cache_name: cache},
            **self._last_logits,
        )
        return output.logits[:, -1].float()

    def _draw(self, logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
        """Draw a token for each row and write it down; [B]."""
        uniform = [row.uniforms.at(len(row.ids))[row.index] for row in rows]
        randoms = torch.tensor(uniform, dtype=torch.float64, device=self._device)
        drawn = torch.empty(len(rows), dtype=torch.long, device=self._device)
        logprobs = torch.empty(len(rows), device=self._device)
        for places in self._draw_together(rows):
            part = slice(None) if len(places) == len(rows) else self._tensor(places)
            drawn[part], logprobs[part] = draw(logits[part], rows[places[0]].request.sampling, randoms[part])
        for place, row in enumerate(rows):
            if count := row.request.top_logprobs:
                temperature = row.request.sampling.temperature
                row.tops.append(tuple(likeliest(logits[place, None], temperature, count)[0]))
        for row, number, logprob in zip(rows, drawn.tolist(), logprobs.tolist(), strict=True):
            row.ids.append(number)
            row.logprobs.append(logprob)
            if row.request.on_token is not None:
                row.request.on_token(row.index, number)
            if number in row.end_ids or has_stop_text(self._tokenizer, row.ids, row.request.stop_texts):
                row.finish = FinishReason.STOP
            elif len(row.ids) == row.limit:
                row.finish = FinishReason.LENGTH
        return drawn

    def _draw_together(self, rows: Sequence[Row]) -> list[list[int]]:
        """Places of rows with the same sampling, few enough for one draw."""
        most = max(1, _DRAWN_AT_ONCE // self._vocabulary)
        first = rows[0].request.sampling
        if len(rows) <= most and all(row.request.sampling is first for row in rows):
            return [list(range(len(rows)))]
        groups: dict[Sampling, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(row.request.sampling, []).append(place)
        return [group[at : at + most] for group in groups.values() for at in range(0, len(group), most)]

    @torch.no_grad()
    def _try_cache(self, architecture: str) -> None:
        """Learn from two tokens what a row's cache costs, see `sizes`."""
        try:
            cache, _, _ = self._read([[0, 0]])
            self._column_bytes, self._row_bytes = sizes(cache)
            self._can_append = can_append(cache)
            cache.reorder_cache(self._tensor([0, 0]))
            if not self._column_bytes and not self._row_bytes:
                raise ValueError("nothing was kept of a prompt")
        except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
            raise TrainingError(
                f"the architecture {architecture!r} does not keep its state in a cache that transformers can "
                f"index by row ({type(error).__name__}: {error}); `local` cannot sample from it. Use another "
                "model"
            ) from error

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.tensor(values, device=self._device)


def _groups(prompts: Sequence[tuple[int, ...]], at_once: int) -> list[list[tuple[int, ...]]]:
    """Cut prompts, shortest first, into groups of at most so many padded tokens (or one prompt)."""
    groups: list[list[tuple[int, ...]]] = []
    for prompt in prompts:
        if groups and (len(groups[-1]) + 1) * len(prompt) <= at_once:
            groups[-1].append(prompt)
        else:
            groups.append([prompt])
    return groups
