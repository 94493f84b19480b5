"""How a comparison is written: its numbers and names, and in sentences what it found, what weakens that, and
how it was computed; never by a model.

In: a `Comparison`. Out: `Digits`, labels, `Findings`, `Caution`s for the box above the tables, and the notes
below them. The templates `reports/sweep_findings.txt.j2`, `sweep_cautions.txt.j2` and `sweep_notes.txt.j2`
word the sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from harness.config.values import Scalar, as_text
from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.contrasts import WHOLE
from harness.results.comparing.runs import BY_TRAINING
from harness.results.comparing.types import SIGN, Comparison, Estimate, Goal
from harness.templating import render_lines
from harness.wording import DASH, count_text, listed, point_label, short_labels, shortened
from monitors.metrics.names import is_validation
from monitors.metrics.row import number_of

MOST_NAMED = 4  # contrasts or runs named in one sentence; the tables have all
_MOST_DECIMALS = 8
_LONGEST_NAME = 60  # characters of a key or level in a sentence or table; sweep.json has the whole
_NUMBER = re.compile(r"p\d+(?=-)")


BETTER: Mapping[Goal | None, str] = {
    "max": "higher is better",
    "min": "lower is better",
    None: "whether higher or lower is better is not known (--goal max or --goal min says it)",
}


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
        wanted = max(3 - _exponent(largest) if largest else 3, seen + 1 if any(spreads) else -99)
        return cls(max(0, wanted) if wanted <= _MOST_DECIMALS and largest < 1e7 else None, bounds)

    def value(self, number: float | None, sign: str = "") -> str:
        """`0.712`; a dash where there is none."""
        if number is None or not math.isfinite(number):
            return DASH
        if self.decimals is None:
            return f"{number:{sign}.3e}"
        shown = round(number, self.decimals) + 0.0  # no minus before what is shown as zero
        return f"{shown:{sign}.{self.decimals}f}"

    def difference(self, number: float | None) -> str:
        """`+0.120`, `-0.050`."""
        return self.value(number, "+")

    def interval(self, low: float | None, high: float | None) -> str:
        """`[-0.050, 0.190]`; "" where there is none."""
        return "" if low is None or high is None else f"[{self.value(low)}, {self.value(high)}]"

    def of_mean(self, estimate: Estimate | None) -> str:
        """The interval of a mean; that of a rate is cut to where rates can be."""
        if estimate is None or estimate.low is None or estimate.high is None:
            return ""
        return self.interval(max(estimate.low, self.bounds[0]), min(estimate.high, self.bounds[1]))


def bounds_of(comparison: Comparison) -> tuple[float, float]:
    """Where a mean of the metric can be: between 0 and 1 for a rate, unless it is written in percent."""
    values = [run.value for run in comparison.runs if run.value is not None]
    is_share = metrics.is_rate(comparison.metric) and all(0 <= value <= 1 for value in values)
    return (0.0, 1.0) if is_share else (-math.inf, math.inf)


def _exponent(number: float) -> int:
    return math.floor(math.log10(abs(number)))


# --- labels -------------------------------------------------------------------------------------------------


def key_labels(comparison: Comparison) -> dict[str, str]:
    """Each key's name as the report shows it: as much of its end as tells it from the others."""
    labels = short_labels(key.name for key in comparison.study.keys)
    return {WHOLE: WHOLE, **{name: shortened(label, _LONGEST_NAME) for name, label in labels.items()}}


def level_text(level: Scalar) -> str:
    """A level as the report shows it."""
    return shortened(as_text(level), _LONGEST_NAME) or '""'


def point_labels(comparison: Comparison) -> dict[str, str]:
    """Each point by the levels in which it is not the baseline; by its name where that is not unique."""
    names, labels = key_labels(comparison), {}
    for point in (result.point for result in comparison.points):
        changed = point.changed(comparison.study.keys).items()
        labels[point.name] = point_label({key: level_text(level) for key, level in changed}, names)
    taken = list(labels.values())
    return {name: text if taken.count(text) == 1 else name for name, text in labels.items()}


def short_names(comparison: Comparison) -> dict[str, str]:
    """Each point's name; only its number (`p03` of `p03-kl_loss_coef-0.01`) where that tells all apart."""
    names = [result.point.name for result in comparison.points]
    numbers = [match[0] if (match := _NUMBER.match(name)) else name for name in names]
    is_unique = len(set(numbers)) == len(numbers)
    return dict(zip(names, numbers if is_unique else names, strict=True))


def best_points(comparison: Comparison) -> tuple[str, ...]:
    """The point with the best mean, and those that share it."""
    means = {point.point.name: point.value.mean for point in comparison.points if point.value is not None}
    best = means.get(comparison.best or "")
    return tuple(name for name, mean in means.items() if mean == best)


def p_value(p: float | None) -> str:
    """`0.031`, `< 0.001`; a dash where there is none."""
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float | None) -> str:
    """`p = 0.031`, `p < 0.001`."""
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


# --- sentences ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caution:
    """One reason for caution: a heading and what it is about, line by line."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """The first lines of a report. `found`: one sentence per key, those with a difference first; `best`:
    which point has the best mean, "" for none; `counts`: points, and runs that count."""

    verdict: str
    found: tuple[str, ...]
    best: str
    counts: str


def findings(comparison: Comparison) -> Findings:
    """What was found."""
    shorts = short_names(comparison)
    said = _said(
        "findings",
        comparison,
        effects=sorted(comparison.keys, key=lambda effect: (not effect.matters, effect.matters is None)),
        edges=edges(comparison),
        worth=worth(comparison),
        among=sum(point.value is not None for point in comparison.points),
        by_training=[run.run.name for run in comparison.runs if run.why_not == BY_TRAINING],
        equal=[shorts[name] for name in best_points(comparison)],
        is_tested=is_tested(comparison),
        digits=Digits.of(comparison),
        largest=lambda contrasts: max(contrasts, key=lambda contrast: abs(contrast.difference)),
    )
    (verdict,), (counts,) = said["verdict"], said["counts"]
    verdict = " ".join([*said["first"], verdict])
    return Findings(verdict, said["found"], " ".join(said["best"]), counts)


def edges(comparison: Comparison) -> list[tuple[str, Scalar, str]]:
    """The keys of which the best point has the largest or the smallest of three or more numbers that were
    tried: key, level, "largest" or "smallest"."""
    found: list[tuple[str, Scalar, str]] = []
    for best in (one.point for one in comparison.points if one.point.name == comparison.best):
        for key in comparison.study.keys:
            tried, own = [as_number(level) for level in key.levels], as_number(best.levels[key.name])
            known = [number for number in tried if number is not None]
            if 2 < len(known) == len(tried) and own in (min(known), max(known)):
                end = "largest" if own == max(known) else "smallest"
                found.append((key.name, best.levels[key.name], end))
    return found


def as_number(level: Scalar) -> float | None:
    """The number that a level is, also one that a command line writes; None for anything else."""
    number = number_of(level)
    return number if number is not None and math.isfinite(number) else None


def worth(comparison: Comparison) -> dict[str, str]:
    """What being higher or lower is worth: " (better)", " (worse)"; "" where no goal is known."""
    sign = SIGN[comparison.study.goal]
    words = {1: " (better)", -1: " (worse)", 0: ""}
    return {"higher": words[sign], "lower": words[-sign]}


def is_tested(comparison: Comparison) -> bool:
    """True if any difference was tested over seeds."""
    return any(effect.matters is not None for effect in comparison.keys)


def cautions(comparison: Comparison) -> tuple[Caution, ...]:
    """Every reason for caution."""
    single = [point.point.name for point in comparison.points if point.is_single_seed]
    said = _said("cautions", comparison, single=single)
    return tuple(Caution(title, tuple(dict.fromkeys(lines))) for title, lines in said.items() if lines)


def notes(comparison: Comparison) -> tuple[str, ...]:
    """How everything was computed, one sentence each, those that change how results must be read first."""
    by_point: dict[str, set[int | None]] = {}
    for run in comparison.runs:
        if run.value is not None:
            by_point.setdefault(run.run.point, set()).add(run.run.seed)
    seeds = list(by_point.values())
    (lines,) = _said(
        "notes",
        comparison,
        tested=[contrast for contrast in comparison.contrasts if contrast.p is not None],
        has_same_seeds=len(seeds) > 1 and len(seeds[0]) > 1 and all(found == seeds[0] for found in seeds),
        stricter=_stricter(comparison),
        is_validation=is_validation(comparison.metric),
        has_cost=any(point.cost_per_point is not None for point in comparison.points),
    ).values()
    return lines


def _stricter(comparison: Comparison) -> float:
    """How much larger the first step of Holm's method asks a difference to be than one test alone does."""
    degrees = {one.degrees for one in comparison.contrasts if one.p is not None and one.degrees is not None}
    tests = sum(one.p is not None for one in comparison.contrasts) + len(comparison.interactions)
    if tests < 2 or not degrees:
        return 1.0
    return max(stats.needed_ratio(one, stats.ALPHA / tests) / stats.needed_ratio(one) for one in degrees)


def _said(template: str, comparison: Comparison, **values: object) -> dict[str, tuple[str, ...]]:
    """The lines of a template by their title."""
    lines = render_lines(
        f"reports/sweep_{template}.txt.j2",
        comparison=comparison,
        names=key_labels(comparison),
        counting=[run for run in comparison.runs if run.value is not None],
        level=level_text,
        listed=lambda words, sign=", ": listed(list(words), MOST_NAMED, sign),
        count=count_text,
        p_text=p_text,
        **values,
    )
    found: dict[str, tuple[str, ...]] = {}
    title = ""
    for line in lines:
        if line.startswith("# "):
            title = line[2:]
            found[title] = ()
        else:
            found[title] = (*found.get(title, ()), line.removeprefix("- "))
    return found
