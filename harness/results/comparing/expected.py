"""Whether what was expected before the runs came true.

In: expectations, contrasts and interactions. Out: `Expected`, each with the rule that was applied in its
`why`: an expected direction held where the difference is significant in that direction, and did not hold
where it is significant in the other; expected to change nothing did not hold where it is significant.
Anything else is open: that nothing was detected never shows that nothing is there, and how small would be
small enough nobody said before the runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.results.comparing.cells import is_same
from harness.results.comparing.types import Contrast, Expectation, Expected, Interaction, Study


def expected(
    study: Study, contrasts: Sequence[Contrast], pairs: Sequence[Interaction]
) -> tuple[Expected, ...]:
    """What became of every expectation of the study."""
    dependent = {key for pair in pairs if pair.matters for key in pair.keys}
    return tuple(_judge(one, contrasts, one.key in dependent) for one in study.expectations)


def _judge(expectation: Expectation, contrasts: Sequence[Contrast], is_dependent: bool) -> Expected:
    contrast = next(
        (c for c in contrasts if c.key == expectation.key and is_same(c.level, expectation.level)), None
    )
    if contrast is None:
        return Expected(expectation, "open", "no such level was compared with the baseline")
    if contrast.finding == "not tested" or contrast.low is None or contrast.high is None:
        return Expected(expectation, "open", f"not tested: {contrast.why_not}")
    told = f"{contrast.difference:+.4g}, 95 % interval [{contrast.low:.4g}, {contrast.high:.4g}]"
    average = "; that is an average: what it does depends on another key" if is_dependent else ""
    if contrast.finding in ("higher", "lower"):
        why = f"it is {contrast.finding} by {told} (adjusted p = {contrast.p_adjusted:.2g}){average}"
        return Expected(
            expectation, "held" if contrast.finding == expectation.effect else "did not hold", why
        )
    why = f"no detectable difference ({told})"
    if is_dependent:
        return Expected(expectation, "open", f"{why}{average}")
    if expectation.effect != "none":
        why = f"{why}; less than {contrast.detectable or 0.0:.4g} could not have been found"
        return Expected(expectation, "open", why)
    most = max(-contrast.low, contrast.high)
    why = f"{why}: it is not larger than {most:.4g}; that it is none, no number of seeds can show"
    return Expected(expectation, "open", why)
