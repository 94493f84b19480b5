"""A transformers causal language model in two halves, for any architecture: hidden states of a micro-batch
at the places that predict trained tokens, and from them to logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from trainer_core.engine.micro_batches import MicroBatch, Rows


def can_share_prompts(model: Any) -> bool:
    """True if all that a model remembers of a prompt is keys and values, which can be copied for every
    answer; False for recurrent and hybrid models."""
    layers = DynamicCache(config=model.config).layers
    kinds = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()
    return (
        not getattr(model, "_is_stateful", False)
        and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        and "chunked_attention" not in kinds  # chunks begin at multiples that padding on the left would shift
    )


class HalvedModel:
    """A model whose output embedding is applied separately.

    The body runs as the model's own `forward`, in which the output embedding sees one position only. What an
    architecture does to its logits afterwards (soft caps, scales) stays its own code too: `logits` runs that
    `forward` again on one token, with the wanted hidden states in place of its own, unless the plain output
    embedding was seen to give the same.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._plain_head: bool | None = None  # known after the first forward pass

    def hidden_states(self, micro: MicroBatch) -> torch.Tensor:
        """[N, H], in the order of the micro-batch's trained tokens."""
        if not len(micro.prompts):
            return torch.cat(
                [self._run(rows.ids).flatten(0, 1).index_select(0, rows.predictors) for rows in micro.rows]
            )
        cache = DynamicCache(config=self.model.config)
        width = micro.prompts.shape[1]
        columns = torch.arange(width, device=micro.prompts.device)
        mask = columns >= width - micro.lengths[:, None]
        padded = bool((micro.lengths < width).any())
        ends = self._run(
            micro.prompts,
            past_key_values=cache,
            use_cache=True,
            **_places(mask, width, padded=padded),
        )[:, -1:]
        return torch.cat([self._continue(rows, cache, ends, mask, padded=padded) for rows in micro.rows])

    def _continue(
        self, rows: Rows, cache: DynamicCache, ends: torch.Tensor, mask: torch.Tensor, *, padded: bool
    ) -> torch.Tensor:
        states = ends.index_select(0, rows.prompt_of)
        if width := rows.ids.shape[1]:
            seen = torch.cat([mask[rows.prompt_of], mask.new_ones(rows.ids.shape)], dim=1)
            own = self._run(
                rows.ids,
                past_key_values=_copied(cache, rows.prompt_of, self.model.config),
                use_cache=True,
                **_places(seen, width, padded=padded),
            )
            states = torch.cat([states, own], dim=1)
        return states.flatten(0, 1).index_select(0, rows.predictors)

    def _run(self, ids: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """[B, L, H]: what enters the output embedding."""
        head = self.model.get_output_embeddings()
        seen: list[torch.Tensor] = []

        def one_position(own: torch.Tensor) -> torch.Tensor:
            seen.append(own)
            return own[:1, -1:]

        logits = self._with_head_input(one_position, ids, **inputs)
        if self._plain_head is None:
            with torch.no_grad():
                self._plain_head = torch.equal(head(seen[0][:1, -1:]), logits)
        return seen[0]

    def _with_head_input(
        self, change: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor, **inputs: Any
    ) -> Any:
        """The model's own logits where `change` replaced the input of its output embedding."""
        head = self.model.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda _, inputs: (change(inputs[0]),))
        try:
            return self.model(input_ids=ids, **({"use_cache": False} | inputs)).logits
        finally:
            hook.remove()

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """[N, H] hidden states → [N, V]."""
        if self._plain_head:
            return self.model.get_output_embeddings()(states)
        token = torch.zeros(1, 1, dtype=torch.long, device=states.device)
        return self._with_head_input(lambda _: states[None], token)[0]


def _places(mask: torch.Tensor, width: int, *, padded: bool) -> dict[str, torch.Tensor]:
    """Mask and positions of the last `width` columns; nothing where no row has padding before its tokens:
    padding on the right is only ever seen by padding."""
    if not padded:
        return {}
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    return {"attention_mask": mask.long(), "position_ids": positions[:, -width:]}


def _copied(cache: DynamicCache, index: torch.Tensor, config: Any) -> DynamicCache:
    """A cache whose rows are the chosen ones of another; gradients flow back through it."""
    copy = DynamicCache(config=config)
    for mine, theirs in zip(copy.layers, cache.layers, strict=True):
        if theirs.is_initialized:  # a layer that reads another's keys has none of its own
            mine.lazy_initialization(theirs.keys, theirs.values)
            mine.keys = theirs.keys.index_select(0, index)
            mine.values = theirs.values.index_select(0, index)
            if isinstance(mine, DynamicSlidingWindowLayer):
                mine.cumulative_length = theirs.cumulative_length
    return copy
