"""Whether what was expected before the runs came true.

In: expectations and contrasts. Out: `Expected`, each with the rule that was applied in its `why`: an expected
direction held where the difference is significant in that direction, and did not hold where it is
significant in the other; expected to change nothing did not hold where it is significant, and held where the
whole 95 % interval lies within the difference that these seeds could have found. Anything else is open.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.results.comparing.cells import is_same
from harness.results.comparing.types import Contrast, Expectation, Expected, Study


def expected(study: Study, contrasts: Sequence[Contrast]) -> tuple[Expected, ...]:
    """What became of every expectation of the study."""
    return tuple(_judge(one, contrasts) for one in study.expectations)


def _judge(expectation: Expectation, contrasts: Sequence[Contrast]) -> Expected:
    contrast = next(
        (c for c in contrasts if c.key == expectation.key and is_same(c.level, expectation.level)), None
    )
    if contrast is None:
        return Expected(expectation, "open", "no such level was compared with the baseline")
    if contrast.finding == "not tested" or contrast.low is None or contrast.high is None:
        return Expected(expectation, "open", f"not tested: {contrast.why_not}")
    told = f"{contrast.difference:+.4g}, 95 % interval [{contrast.low:.4g}, {contrast.high:.4g}]"
    if contrast.finding in ("higher", "lower"):
        verdict = f"it is {contrast.finding} by {told} (adjusted p = {contrast.p_adjusted:.2g})"
        return Expected(
            expectation, "held" if contrast.finding == expectation.effect else "did not hold", verdict
        )
    detectable = contrast.detectable or 0.0
    if expectation.effect != "none":
        why = f"no detectable difference ({told}); less than {detectable:.4g} could not have been found"
        return Expected(expectation, "open", why)
    if max(-contrast.low, contrast.high) <= detectable:
        why = f"{told} lies within ±{detectable:.4g}, the difference that these seeds could have found"
        return Expected(expectation, "held", f"{why}; a smaller one remains possible")
    why = (
        f"no detectable difference, but {told} reaches beyond ±{detectable:.4g}, which could have been found"
    )
    return Expected(expectation, "open", why)
