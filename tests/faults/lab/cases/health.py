"""Numbers that went wrong, loudly or silently, and trainings that only look ill."""

from tests.faults.lab.types import Case

HEALTH = (
    Case("nan_raised", "numerics_nan", "FloatingPointError: loss is nan", fix="find what diverges"),
    Case("nan_anomaly", "numerics_nan", "returned nan values", warm=True, fix="find what diverges"),
    Case(
        "nan_sampling",
        "numerics_nan",
        "probability tensor contains either `inf`, `nan`",
        warm=True,
        fix="find what diverges",
    ),
    Case("nan_silent", "numerics_nan", "actor/pg_loss:nan", status=0, fix="find what diverges"),
    Case(
        "reward_zero",
        "silent_bad_metrics",
        "critic/rewards/mean:0.0000",
        status=0,
        fix="a grader that fits the prompt",
    ),
)

HEALTHY = (
    Case("healthy_retry", "unknown", "", program="healthy_retry.py", status=0),
    Case("healthy_words", "unknown", "", program="healthy_words.py", status=0),
)
