"""What a comparison found, in sentences: made from its numbers and findings, never by a model.

In: a `Comparison`. Out: the verdict, one sentence per key, and how the metric's numbers are written. A
sentence says "higher" or "lower" only where the contrast's finding does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.config.edit import Scalar
from harness.results.comparing import metrics
from harness.results.comparing.cells import is_same
from harness.results.comparing.types import Comparison, Contrast, Estimate, KeyEffect, Point
from harness.wording import listed, value_text

_MOST_DECIMALS = 8
MOST_NAMED = 4  # contrasts or runs named in one sentence; the tables have all
_LONGEST_NAME = 60  # characters of a key or level in a sentence or table; sweep.json has the whole
_NUMBER = re.compile(r"p\d+(?=-)")
FOUND = ("higher", "lower")


@dataclass(frozen=True)
class Digits:
    """How the numbers of one metric are written: all with the same `decimals`, so that columns can be
    compared by eye; None where they are too large or too small for that: four significant digits. `bounds`:
    where a mean can be."""

    decimals: int | None
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @classmethod
    def of(cls, comparison: Comparison) -> Digits:
        """Three decimals for rates, as in a run's own report, and more where the spread over seeds would not
        be seen with them; else four digits, or enough to see that spread."""
        values = [run.value for run in comparison.runs if run.value is not None and math.isfinite(run.value)]
        largest = max(map(abs, values), default=0.0)
        spreads = [point.value.sd for point in comparison.points if point.value and point.value.sd]
        spreads = spreads or [max(values) - min(values)] if values else []
        seen = -_exponent(median(spreads)) if any(spreads) else 0
        bounds = bounds_of(comparison)
        if bounds == (0.0, 1.0):
            return cls(min(_MOST_DECIMALS, max(3, seen)), bounds)
        wanted = 3 - _exponent(largest) if largest else 3
        if any(spreads):
            wanted = max(wanted, seen + 1)
        return cls(max(0, wanted) if wanted <= _MOST_DECIMALS and largest < 1e7 else None, bounds)

    def value(self, number: float | None, sign: str = "") -> str:
        """`0.712`; a dash where there is none."""
        if number is None or not math.isfinite(number):
            return "—"
        if self.decimals is None:
            return f"{number:{sign}.3e}".replace("-", "−")
        shown = round(number, self.decimals) + 0.0  # no minus before what is shown as zero
        return f"{shown:{sign}.{self.decimals}f}".replace("-", "−")

    def difference(self, number: float | None) -> str:
        """`+0.120`, `−0.050`."""
        return self.value(number, "+")

    def interval(self, low: float | None, high: float | None) -> str:
        """`[−0.050, 0.190]`; "" where there is none."""
        return "" if low is None or high is None else f"[{self.value(low)}, {self.value(high)}]"

    def of_mean(self, estimate: Estimate) -> str:
        """The interval of a mean; that of a rate is cut to where rates can be."""
        if estimate.low is None or estimate.high is None:
            return ""
        return self.interval(max(estimate.low, self.bounds[0]), min(estimate.high, self.bounds[1]))


def bounds_of(comparison: Comparison) -> tuple[float, float]:
    """Where a mean of the metric can be: between 0 and 1 for a rate, unless it is written in percent."""
    values = [run.value for run in comparison.runs if run.value is not None]
    is_share = metrics.is_rate(comparison.metric) and all(0 <= value <= 1 for value in values)
    return (0.0, 1.0) if is_share else (-math.inf, math.inf)


def _exponent(number: float) -> int:
    return math.floor(math.log10(abs(number)))


def key_labels(comparison: Comparison) -> dict[str, str]:
    """Each key's name as the report shows it: its last part, the whole name where two keys share that."""
    shorts = [key.short for key in comparison.study.keys]
    return {
        key.name: _cut(key.short if shorts.count(key.short) == 1 else key.name)
        for key in comparison.study.keys
    }


def level_text(level: Scalar) -> str:
    """A level as the report shows it."""
    return _cut(value_text(level)) or '""'


def as_number(level: Scalar) -> float | None:
    """The number that a level is, also one that a command line writes; None for anything else."""
    if isinstance(level, bool) or level is None:
        return None
    try:
        number = float(level)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1].rstrip()}…"


def point_labels(comparison: Comparison) -> dict[str, str]:
    """Each point in a few words: the levels in which it is not the baseline; its name where that is not
    unique."""
    names = key_labels(comparison)
    baselines = {key.name: key.baseline for key in comparison.study.keys}

    def label(point: Point) -> str:
        if point.is_baseline:
            return "baseline"
        return ", ".join(
            f"{names.get(key, key)} {level_text(level)}"
            for key, level in point.levels.items()
            if key not in baselines or not is_same(level, baselines[key])
        )

    labels = {result.point.name: label(result.point) for result in comparison.points}
    taken = list(labels.values())
    return {name: text if text and taken.count(text) == 1 else name for name, text in labels.items()}


def short_names(comparison: Comparison) -> dict[str, str]:
    """Each point's name; only its number (`p03` of `p03-kl_loss_coef-0.01`) where that tells all apart."""
    names = [result.point.name for result in comparison.points]
    numbers = [match[0] if (match := _NUMBER.match(name)) else name for name in names]
    is_unique = len(set(numbers)) == len(numbers)
    return dict(zip(names, numbers if is_unique else names, strict=True))


# --- what was found -----------------------------------------------------------------------------------------


def verdict(comparison: Comparison) -> str:
    """The first line of the report."""
    names = key_labels(comparison)
    if not any(point.value is not None for point in comparison.points):
        return "Nothing can be compared: no run counts"
    if comparison.is_single_seed:
        return "Single seed: nothing can be said about other seeds"
    together = [pair.keys for pair in comparison.interactions if pair.matters]
    joined = {key for pair in together for key in pair}
    differing = [
        names.get(effect.key, effect.key)
        for effect in comparison.keys
        if is_found(effect) and effect.key not in joined
    ]
    said = []
    if differing:
        count = "A detectable difference" if len(differing) == 1 else "Differences"
        said.append(f"{count}: {listed(differing, MOST_NAMED)}")
    for one, other in [[names.get(key, key) for key in pair] for pair in together]:
        said.append(f"{one} and {other} matter together: what {one} does depends on {other}")
    if said:
        return listed(said, MOST_NAMED, "; ")
    return "No detectable difference" if is_tested(comparison) else "Nothing was tested"


def is_tested(comparison: Comparison) -> bool:
    """Whether any difference was tested over seeds."""
    return any(effect.matters is not None for effect in comparison.keys)


def is_found(effect: KeyEffect) -> bool:
    """Whether one of the key's levels makes a difference that was found."""
    return any(contrast.finding in FOUND for contrast in effect.contrasts)


def found(comparison: Comparison) -> tuple[str, ...]:
    """One sentence per key, those with a difference first."""
    names, digits = key_labels(comparison), Digits.of(comparison)
    effects = sorted(comparison.keys, key=lambda effect: (not is_found(effect), effect.matters is None))
    return tuple(
        f"{names.get(effect.key, effect.key)}{_about_key(effect, comparison, digits)}." for effect in effects
    )


def _about_key(effect: KeyEffect, comparison: Comparison, digits: Digits) -> str:
    names = key_labels(comparison)
    others = [names.get(key, key) for key in comparison.depends_on(effect.key)]
    average = f"on average over {listed(others, MOST_NAMED)}: " if others else ""
    differing = [contrast for contrast in effect.contrasts if contrast.finding in FOUND]
    if differing:
        told = _differences(differing, comparison, digits)
        return f" matters; {average}{told}" if others else f" matters: {told}"
    if effect.matters is None:
        return f": not tested ({effect.why_not})"
    seen = _seen(effect, digits)
    if others:  # an average of nearly 0 over unlike effects says nothing of the power to find them
        return f", {average}no detectable difference ({'; '.join(seen)})"
    return f": no detectable difference ({'; '.join([*seen, *_power(effect, digits)])})"


def _differences(differing: Sequence[Contrast], comparison: Comparison, digits: Digits) -> str:
    """`8 is higher (better) than 4 by +0.120 [0.050, 0.190]`; several levels in one list per direction."""

    def amount(contrast: Contrast) -> str:
        return f"by {digits.difference(contrast.difference)} {digits.interval(contrast.low, contrast.high)}"

    told = []
    for finding in FOUND:
        alike = [contrast for contrast in differing if contrast.finding == finding]
        if not alike:
            continue
        better = "better" if (finding == "higher") == (comparison.study.goal == "max") else "worse"
        than = f"{finding} ({better}) than {level_text(alike[0].baseline)}"
        if len(alike) == 1:
            told.append(f"{level_text(alike[0].level)} is {than} {amount(alike[0])}")
        else:
            amounts = [f"{level_text(contrast.level)} {amount(contrast)}" for contrast in alike]
            told.append(f"{than} are {listed(amounts, MOST_NAMED)}")
    return "; ".join(told)


def _seen(effect: KeyEffect, digits: Digits) -> list[str]:
    """The largest difference that was seen."""
    seen = [contrast for contrast in effect.contrasts if contrast.difference is not None]
    if not seen:
        return []
    largest = max(seen, key=lambda contrast: abs(contrast.difference or 0.0))
    return [
        f"{level_text(largest.level)} against {level_text(largest.baseline)}: "
        f"{digits.difference(largest.difference)} {digits.interval(largest.low, largest.high)}".rstrip()
        + (", the largest" if len(seen) > 1 else "")
    ]


def _power(effect: KeyEffect, digits: Digits) -> list[str]:
    """What would have been found."""
    detectable = [contrast.detectable for contrast in effect.contrasts if contrast.detectable is not None]
    if not detectable:
        return []
    return [f"these seeds would have found a difference of ±{digits.value(max(detectable))}"]


def p_value(p: float | None) -> str:
    """`0.031`, `< 0.001`; a dash where there is none."""
    if p is None:
        return "—"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float | None) -> str:
    """`p = 0.031`, `p < 0.001`."""
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"
