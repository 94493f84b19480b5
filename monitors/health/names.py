"""What the metrics of a row mean, whatever trainer printed them (verl, TRL, OpenRLHF, Lightning, ours …).

In: the names of a row. Out: `Shape`, which name to read for each meaning. Shapes are kept, so that a row
costs a few look-ups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from monitors.health.types import Seen
from monitors.metrics import Row
from monitors.metrics.names import is_validation
from monitors.rules import GRADIENT_NAME, REWARD_NAME

MOST_SHAPES = 64
MOST_LIKE = 6  # losses, gradient norms or scores of one row that are followed
_WHERE = r"(?:(?:train(?:ing)?|actor|critic|policy|objective|rollout|metrics|grpo|ppo)/)?"
_MEAN = r"(?:[_/](?:mean|avg))?"

# Meaning, and names that have it, the best first: a score before the reward that holds penalties too.
MEANINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "reward",
        (
            r"critic/score/mean",
            r"critic/rewards/mean",
            _WHERE + r"(?:mean_)?rewards?" + _MEAN,
            r"objective/scores",
            r"(?:.*/)?(?:episode_reward_mean|ep_rew_mean|episode_return|mean_(?:episode_)?(?:reward|return))",
            _WHERE + r"scores?" + _MEAN,
        ),
    ),
    ("reward_max", (r"critic/score/max", r"critic/rewards/max", _WHERE + r"rewards?[_/]max")),
    ("reward_min", (r"critic/score/min", r"critic/rewards/min", _WHERE + r"rewards?[_/]min")),
    ("success", (_WHERE + r"success_rate", _WHERE + r"(?:acc|accuracy)" + _MEAN)),
    ("group_std", (_WHERE + r"rewards?_std",)),
    ("groups_equal", (_WHERE + r"frac_reward_zero_std",)),
    ("advantage_max", (_WHERE + r"advantages?/max",)),
    ("advantage_min", (_WHERE + r"advantages?/min",)),
    ("pg_loss", (r"(?:.*/)?(?:pg|policy|actor)_loss" + _MEAN, _WHERE + r"loss", r"loss/policy" + _MEAN)),
    ("entropy", (_WHERE + r"(?:mean_)?(?:policy_|token_)?entropy(?:_loss)?" + _MEAN,)),
    ("kl", (_WHERE + r"(?:mean_)?(?:ref_)?kl(?:_loss|_div(?:ergence)?)?" + _MEAN,)),
    ("update_kl", (r"(?:.*/)?(?:ppo_kl|approx_?kl|policy_kl)" + _MEAN,)),
    (
        "clipped",
        (
            r"(?:.*/)?(?:pg_|policy_)?clip_?frac(?:tion)?" + _MEAN,
            _WHERE + r"clip_ratio/region_mean",
            _WHERE + r"clip_ratio",
        ),
    ),
    ("length_mean", (r"response_length(?:/mean)?", _WHERE + r"completions?[/_](?:mean_)?length" + _MEAN)),
    ("length_max", (r"response_length/max", _WHERE + r"completions?/max_length")),
    ("length_min", (r"response_length/min", _WHERE + r"completions?/min_length")),
    (
        "cut_off",
        (r"response_length/clip_ratio", _WHERE + r"completions?/clipped_ratio", r".*truncated_ratio"),
    ),
    ("step_time", (r"timing_s/step", r"perf/time_per_step", r"(?:.*/)?(?:step_time|time_per_step)")),
    ("throughput", (r"perf/throughput", r"(?:.*/)?(?:throughput|tokens_per_s(?:ec(?:ond)?)?)(?:_\w+)?")),
)
_COMPILED = tuple(
    (meaning, tuple(re.compile(name + r"$", re.IGNORECASE) for name in names)) for meaning, names in MEANINGS
)
LOSS_NAME = re.compile(r"(?<!kl_)loss(?!_?(?:scale|coeff?|weight|mask|fn|agg))", re.IGNORECASE)
SCORE_NAME = re.compile(
    r"(?<!std_)(?:acc(?:uracy)?|pass(?:_rate)?|reward|score|success(?:_rate)?|exact_match|solved?|loss|f1)"
    r"(?:[@/_](?:mean|best|maj|avg)?(?:@?\d+)?)*(?:/mean)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Shape:
    """What to read of rows with the same names: (meaning, name) pairs, and names of a kind."""

    meanings: tuple[tuple[str, str], ...]
    losses: tuple[str, ...]
    gradients: tuple[str, ...]
    scores: tuple[str, ...]
    vital: tuple[str, ...]


class Names:
    """Reads rows; remembers the shapes it has met."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], Shape] = {}

    def read(self, row: Row, line: int, number: int) -> Seen:
        """Return what rules see of a row."""
        values = row.values
        names = tuple(values)
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[names] = shape_of(names)
        return Seen(
            row.step,
            line,
            number,
            {meaning: values[name] for meaning, name in shape.meanings},
            {name: values[name] for name in shape.losses},
            {name: values[name] for name in shape.gradients},
            {name: values[name] for name in shape.scores},
            {name: values[name] for name in shape.vital},
        )


def shape_of(names: tuple[str, ...]) -> Shape:
    """Find out what to read of rows with these names."""
    trained = [name for name in names if not is_validation(name)]
    validated = [name for name in names if is_validation(name)]
    return Shape(
        meanings=tuple(
            (meaning, found) for meaning, known in _COMPILED if (found := _best(trained, known)) is not None
        ),
        losses=tuple(name for name in trained if LOSS_NAME.search(name))[:MOST_LIKE],
        gradients=tuple(name for name in trained if GRADIENT_NAME.search(name))[:MOST_LIKE],
        scores=tuple(name for name in validated if SCORE_NAME.search(name))[: 4 * MOST_LIKE],
        vital=tuple(name for name in trained if _is_vital(name)),
    )


def _is_vital(name: str) -> bool:
    """Losses, gradient norms and the run's own reward: a part of it that is NaN may only not apply."""
    return "loss" in name or bool(REWARD_NAME.match(name) or GRADIENT_NAME.search(name))


def _best(names: list[str], known: tuple[re.Pattern[str], ...]) -> str | None:
    return next((name for pattern in known for name in names if pattern.match(name)), None)
