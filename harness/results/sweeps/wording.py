"""What a comparison found, in sentences: made from its numbers and findings, never by a model.

In: a `Comparison`. Out: the verdict, one sentence per key, the warnings nobody may overlook, and how the
metric's numbers are written. A sentence says "higher" or "lower" only where the contrast's finding does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from harness.config_edit import Scalar
from harness.results.comparing.types import Comparison, Contrast, KeyEffect, Point
from harness.results.deviations import value_text

_MOST_DECIMALS = 8
_MOST_NAMED = 4  # contrasts or runs named in one sentence; the tables have all
_LONGEST_NAME = 60  # characters of a key or level in a sentence or table; sweep.json has the whole
_NUMBER = re.compile(r"p\d+(?=-)")
_FOUND = ("higher", "lower")


@dataclass(frozen=True)
class Digits:
    """How the numbers of one metric are written: all with the same `decimals`, so that columns can be
    compared by eye; None where they are too large or too small for that: four significant digits."""

    decimals: int | None

    @classmethod
    def of(cls, comparison: Comparison) -> Digits:
        """Three decimals for rates, as in a run's own report; else enough to see the spread over seeds."""
        values = [run.value for run in comparison.runs if run.value is not None and math.isfinite(run.value)]
        largest = max(map(abs, values), default=0.0)
        if largest <= 1 and ("rate" in comparison.metric or "pass@" in comparison.metric):
            return cls(3)
        spreads = [point.value.sd for point in comparison.points if point.value and point.value.sd]
        wanted = 3 - _exponent(largest) if largest else 3
        if spreads:
            wanted = max(wanted, 1 - _exponent(median(spreads)))
        return cls(max(0, wanted) if wanted <= _MOST_DECIMALS and largest < 1e7 else None)

    def value(self, number: float | None, sign: str = "") -> str:
        """`0.712`; a dash where there is none."""
        if number is None or not math.isfinite(number):
            return "—"
        form = f"{sign}.3e" if self.decimals is None else f"{sign}.{self.decimals}f"
        return f"{number:{form}}".replace("-", "−")

    def difference(self, number: float | None) -> str:
        """`+0.120`, `−0.050`."""
        return self.value(number, "+")

    def interval(self, low: float | None, high: float | None) -> str:
        """`[−0.050, 0.190]`; "" where there is none."""
        return "" if low is None or high is None else f"[{self.value(low)}, {self.value(high)}]"


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
        differing = {key: level for key, level in point.levels.items() if level != baselines.get(key)}
        return ", ".join(f"{names.get(key, key)} {level_text(level)}" for key, level in differing.items())

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
    is_tested = any(tested(effect) for effect in comparison.keys)
    if comparison.is_single_seed and not is_tested:
        return "Single seed: nothing can be said about other seeds"
    differing = [names.get(effect.key, effect.key) for effect in comparison.keys if is_found(effect)]
    if differing:
        return f"{'A detectable difference' if len(differing) == 1 else 'Differences'}: {_some(differing)}"
    return "No detectable difference" if is_tested else "Nothing was tested"


def is_found(effect: KeyEffect) -> bool:
    """Whether the key makes a difference that was found: in one of its levels, or in all taken together."""
    return bool(effect.matters) or any(contrast.finding in _FOUND for contrast in effect.contrasts)


def tested(effect: KeyEffect) -> bool:
    return effect.matters is not None or any(
        contrast.finding != "not tested" for contrast in effect.contrasts
    )


def found(comparison: Comparison) -> tuple[str, ...]:
    """One sentence per key, those with a difference first."""
    names, digits = key_labels(comparison), Digits.of(comparison)
    effects = sorted(comparison.keys, key=lambda effect: (not is_found(effect), not tested(effect)))
    return tuple(
        f"{names.get(effect.key, effect.key)}{_about_key(effect, comparison, digits)}." for effect in effects
    )


def _about_key(effect: KeyEffect, comparison: Comparison, digits: Digits) -> str:
    differing = [contrast for contrast in effect.contrasts if contrast.finding in _FOUND]
    if differing:
        return f" matters: {_differences(differing, comparison, digits)}"
    if effect.matters:
        return (
            f" matters: its levels differ taken together (F test, adjusted {p_text(effect.p_adjusted)}), "
            f"but none differs detectably from the baseline {_baseline(effect)}"
        )
    if not tested(effect):
        reasons = dict.fromkeys(contrast.why_not for contrast in effect.contrasts if contrast.why_not)
        return f": not tested ({effect.why_not or '; '.join(reasons) or 'too few runs'})"
    return f": no detectable difference{_power(effect, digits)}"


def _differences(differing: Sequence[Contrast], comparison: Comparison, digits: Digits) -> str:
    """`8 is higher (better) than 4 by +0.120 [0.050, 0.190]`; several levels in one list per direction."""

    def amount(contrast: Contrast) -> str:
        return f"by {digits.difference(contrast.difference)} {digits.interval(contrast.low, contrast.high)}"

    told = []
    for finding in _FOUND:
        alike = [contrast for contrast in differing if contrast.finding == finding]
        if not alike:
            continue
        better = "better" if (finding == "higher") == (comparison.study.goal == "max") else "worse"
        than = f"{finding} ({better}) than {level_text(alike[0].baseline)}"
        if len(alike) == 1:
            told.append(f"{level_text(alike[0].level)} is {than} {amount(alike[0])}")
        else:
            listed = [f"{level_text(contrast.level)} {amount(contrast)}" for contrast in alike]
            told.append(f"{than} are {_some(listed)}")
    return "; ".join(told)


def _power(effect: KeyEffect, digits: Digits) -> str:
    """What was seen, and what would have been found."""
    seen = [contrast for contrast in effect.contrasts if contrast.difference is not None]
    if not seen:
        return ""
    largest = max(seen, key=lambda contrast: abs(contrast.difference or 0.0))
    parts = [
        f"{level_text(largest.level)} against {level_text(largest.baseline)}: "
        f"{digits.difference(largest.difference)} {digits.interval(largest.low, largest.high)}"
        + (", the largest" if len(seen) > 1 else "")
    ]
    detectable = [contrast.detectable for contrast in seen if contrast.detectable is not None]
    if detectable:
        parts.append(f"these seeds would have found a difference of ±{digits.value(max(detectable))}")
    return f" ({'; '.join(parts)})"


def _baseline(effect: KeyEffect) -> str:
    return level_text(effect.contrasts[0].baseline) if effect.contrasts else "level"


def p_value(p: float | None) -> str:
    """`0.031`, `< 0.001`; a dash where there is none."""
    if p is None:
        return "—"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float | None) -> str:
    """`p = 0.031`, `p < 0.001`."""
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


# --- warnings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Warned:
    """One reason for caution: a heading and what it is about, line by line."""

    title: str
    lines: tuple[str, ...]


def warnings(comparison: Comparison, not_counted: Sequence[str] = ()) -> tuple[Warned, ...]:
    """Everything that a reader must know before the first number; `not_counted`: runs that the sweep knows
    of and the comparison does not."""
    made = [
        _single_seeds(comparison),
        _group("Runs that do not count", (*comparison.missing, *not_counted)),
        _group("The points differ in more than what was varied", comparison.confounds),
        _group("Runs that were repaired on the way", _deviating(comparison)),
    ]
    if comparison.chosen_afterwards:
        line = (
            f"{comparison.metric} was not named before the runs. A metric that is chosen among several "
            "when the numbers are known makes chance differences look real."
        )
        made.append(Warned("The metric was chosen afterwards", (line,)))
    return tuple(warned for warned in made if warned is not None)


def _group(title: str, lines: Iterable[str]) -> Warned | None:
    kept = tuple(dict.fromkeys(lines))
    return Warned(title, kept) if kept else None


def _single_seeds(comparison: Comparison) -> Warned | None:
    single = [point.point.name for point in comparison.points if point.is_single_seed]
    if not single:
        return None
    if comparison.is_single_seed and any(tested(effect) for effect in comparison.keys):
        line = (
            "No point has two runs that count. What is said of a key rests on the spread among the points "
            "that share a level of it, and holds only if the keys do not interact; the number of one point "
            "alone is no evidence."
        )
        return Warned("Single seed", (line,))
    if comparison.is_single_seed:
        line = (
            "No point has two runs that count. The same settings with another seed can come out elsewhere: "
            "a higher number here is no evidence that its settings are better."
        )
        return Warned("Single seed", (line,))
    line = f"Without an interval, and no evidence by itself: {_some(single)}."
    return Warned(f"{_count(len(single), 'point')} with a single seed", (line,))


def _deviating(comparison: Comparison) -> tuple[str, ...]:
    return tuple(
        f"{run.run.name}: {_some(list(run.deviations), '; ')}"
        for run in comparison.runs
        if run.deviations and run.value is not None
    )


def _some(words: Sequence[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return separator.join(words[:_MOST_NAMED]) + more


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def as_number(level: Scalar) -> float | None:
    """The number that a level is, also one that a command line writes; None for anything else."""
    if isinstance(level, bool) or level is None:
        return None
    try:
        number = float(level)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
