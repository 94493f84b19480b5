"""What the metrics of a row mean, whatever trainer printed them (verl, TRL, OpenRLHF, Lightning, ours …).

Which name to read for each meaning is kept for rows with the same names, so that a row costs a few look-ups.
"""

import re
from functools import lru_cache

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
    ("success", (_WHERE + r"success_rate", _WHERE + r"(?:train(?:ing)?_)?(?:acc|accuracy)" + _MEAN)),
    ("group_std", (_WHERE + r"rewards?_std",)),
    ("groups_equal", (_WHERE + r"frac_reward_zero_std",)),
    ("advantage_max", (_WHERE + r"advantages?/max",)),
    ("advantage_min", (_WHERE + r"advantages?/min",)),
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


def read(row: Row, line: int, number: int) -> Seen:
    """Return what rules see of a row."""
    values = row.values
    meanings, *kinds = names_to_read(tuple(values))
    of = {meaning: values[name] for meaning, name in meanings.items()}
    return Seen(row.step, line, number, of, *[{name: values[name] for name in names} for names in kinds])


@lru_cache(maxsize=MOST_SHAPES)
def names_to_read(
    names: tuple[str, ...],
) -> tuple[dict[str, str], list[str], list[str], list[str], list[str]]:
    """Find out what to read of rows with these names: the name for each meaning, losses, gradients, scores
    and what is vital."""
    is_summary = "train_runtime" in names  # of transformers: means over the whole run
    trained = [] if is_summary else [name for name in names if not is_validation(name)]
    validated = [name for name in names if is_validation(name)]
    return (
        {meaning: found for meaning, known in _COMPILED if (found := _best(trained, known)) is not None},
        [name for name in trained if LOSS_NAME.search(name)][:MOST_LIKE],
        [name for name in trained if GRADIENT_NAME.search(name)][:MOST_LIKE],
        [name for name in validated if SCORE_NAME.search(name)][: 4 * MOST_LIKE],
        [name for name in trained if _is_vital(name)],
    )


def _is_vital(name: str) -> bool:
    """Losses, gradient norms and the run's own reward: a part of it that is NaN may only not apply."""
    return "loss" in name or bool(REWARD_NAME.match(name) or GRADIENT_NAME.search(name))


def _best(names: list[str], known: tuple[re.Pattern[str], ...]) -> str | None:
    return next((name for pattern in known for name in names if pattern.match(name)), None)
