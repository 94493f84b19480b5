"""The evidence of a comparison: its points, runs and contrasts, as a narrative may cite them.

In: a `Comparison`. Out: `SweepEvidence`. A level is called higher or lower only where its contrast's finding
is; two points between which no contrast was tested are shown side by side and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.results.comparing.types import Comparison, Contrast, RunResult
from harness.results.narrative.evidence import Citable, CitationError, Sentence, lookup
from harness.results.narrative.findings import (
    BestFinding,
    CompareFinding,
    ContrastFinding,
    Finding,
    RunFinding,
    ValueFinding,
)
from harness.results.sweeps.wording import Digits, best_points, key_labels, level_text, point_labels
from harness.wording import duration


@dataclass(frozen=True)
class SweepEvidence:
    """What is known of a sweep, or of other runs that were compared."""

    comparison: Comparison
    citable: Mapping[str, Citable] = field(init=False)
    contrasts: Mapping[str, Mapping[str, Contrast]] = field(init=False)  # key label to level to contrast

    def __post_init__(self) -> None:
        labels = key_labels(self.comparison)
        contrasts = {
            labels.get(effect.key, effect.key): {level_text(one.level): one for one in effect.contrasts}
            for effect in self.comparison.keys
        }
        object.__setattr__(self, "contrasts", contrasts)
        object.__setattr__(self, "citable", {item.id: item for item in self._citable()})

    @property
    def due(self) -> tuple[Finding, ...]:
        return tuple(RunFinding(kind="run", name=name) for name in self._missing)

    @property
    def cautions(self) -> tuple[Sentence, ...]:
        found = []
        if self.comparison.is_single_seed:
            found.append(Sentence("single_seeds"))
        if self.comparison.chosen_afterwards:
            found.append(Sentence("chosen_afterwards", {"metric": self.comparison.metric}))
        found += [Sentence("confound", {"text": text.rstrip(".")}) for text in self.comparison.confounds]
        changed = {run.run.name: run.deviations for run in self.comparison.runs if run.deviations}
        if changed:
            runs = {name: "; ".join(texts) for name, texts in changed.items()}
            found.append(Sentence("changed_runs", {"runs": runs}))
        return tuple(found)

    def resolve(self, finding: Finding) -> Sentence:
        """The finding looked up. Raises CitationError."""
        if isinstance(finding, ValueFinding):
            numbers = {name: item for name, item in self.citable.items() if item.label}
            return Sentence("value", {"fact": lookup(finding.fact, numbers, "fact")})
        if isinstance(finding, BestFinding):
            return self._best(finding.metric)
        if isinstance(finding, CompareFinding):
            return self._compared(finding)
        if isinstance(finding, ContrastFinding):
            names = {label: label for label in self.contrasts}
            names |= {key: label for key, label in key_labels(self.comparison).items() if label in names}
            label = lookup(finding.key, names, "varied key")
            level = level_text(finding.level)
            contrast = lookup(level, self.contrasts[label], f"level of {label} beside its baseline")
            return Sentence("contrast", self._worded(label, contrast))
        if isinstance(finding, RunFinding):
            return self._run(finding.name)
        raise CitationError(
            f"{finding.kind} is for one run; of a sweep cite value, best, compare, contrast or run"
        )

    @property
    def _digits(self) -> Digits:
        return Digits.of(self.comparison)

    @property
    def _missing(self) -> dict[str, str]:
        """Planned runs that do not count, with the reason."""
        found = {run.run.name: run.why_not for run in self.comparison.runs if run.value is None}
        known = {run.run.name for run in self.comparison.runs}
        return found | {name: why for name, why in self.comparison.study.not_run.items() if name not in known}

    def _citable(self) -> Iterator[Citable]:
        digits, metric, labels = self._digits, self.comparison.metric, point_labels(self.comparison)
        for point in self.comparison.points:
            name = point.point.name
            yield Citable(f"point/{name}", "", f"{name} ({labels[name]})" if labels[name] != name else name)
            if point.value is not None:
                shown = f"{digits.value(point.value.mean)} {digits.of_mean(point.value)}".strip()
                label = f"mean {metric} of {name}, n = {point.value.n}"
                yield Citable(f"point/{name}/mean", label, shown, point.value.mean, metric)
        for name in (*(run.run.name for run in self.comparison.runs), *self._missing):
            yield Citable(f"run/{name}", "", name)
        for run in self.comparison.runs:
            if run.value is not None:
                label = f"{metric} of {run.run.name}"
                yield Citable(f"run/{run.run.name}/value", label, digits.value(run.value), run.value, metric)
        for key, levels in self.contrasts.items():
            yield Citable(f"key/{key}", "", key)
            for level in {level_text(contrast.baseline) for contrast in levels.values()}:
                yield Citable(f"level/{key}/{level}", "", f"{key} {level}")
            for level, contrast in levels.items():
                yield Citable(f"level/{key}/{level}", "", f"{key} {level}")
                yield from self._of_contrast(key, level, contrast)

    def _of_contrast(self, key: str, level: str, contrast: Contrast) -> Iterator[Citable]:
        about, words = f"{key} {level} against {level_text(contrast.baseline)}", self._worded(key, contrast)
        of_metric, needed = f"difference of {self.comparison.metric}", contrast.seeds_needed
        for name, label, value, shown in (
            ("difference", of_metric, contrast.difference, words["difference"]),
            ("detectable", "detectable difference", contrast.detectable, words["detectable"]),
            ("seeds_needed", "seeds needed per point", needed, str(needed)),
        ):
            if value is not None:
                place = f"contrast/{key}/{level}/{name}"
                yield Citable(place, f"{label}, {about}", shown, float(value), name)

    def _worded(self, key: str, contrast: Contrast) -> dict[str, Any]:
        digits = self._digits
        interval = digits.interval(contrast.low, contrast.high)
        labels, others = key_labels(self.comparison), self.comparison.depends_on(contrast.key)
        is_better = (contrast.finding == "higher") == (self.comparison.study.goal == "max")
        return {
            "key": key,
            "metric": self.comparison.metric,
            "level": level_text(contrast.level),
            "baseline": level_text(contrast.baseline),
            "finding": contrast.finding,
            "better": is_better if contrast.is_found else None,
            "difference": f"{digits.difference(contrast.difference)} {interval}".strip(),
            "has_difference": contrast.difference is not None,
            "detectable": "" if contrast.detectable is None else f"±{digits.value(contrast.detectable)}",
            "why_not": contrast.why_not.rstrip("."),
            "runs": contrast.n,
            "depends_on": ", ".join(labels.get(name, name) for name in others),
        }

    def _best(self, metric: str) -> Sentence:
        lookup(metric, {self.comparison.metric: True}, "metric of this comparison")
        if self.comparison.best is None:
            raise CitationError("no point has a value, so none is the best")
        equal = best_points(self.comparison) or [self.comparison.best]
        among = sum(point.value is not None for point in self.comparison.points)
        values = {
            "fact": self.citable[f"point/{self.comparison.best}/mean"],
            "points": ", ".join(self.citable[f"point/{name}"].shown for name in equal),
            "word": "highest" if self.comparison.study.goal == "max" else "lowest",
        }
        return Sentence("best_point", {**values, "metric": metric, "among": among, "equal": len(equal)})

    def _compared(self, finding: CompareFinding) -> Sentence:
        means = {item.point.name: item for item in self.comparison.points if item.value is not None}
        one, other = (
            lookup(name.removeprefix("point/"), means, "point with a value").point.name
            for name in (finding.a, finding.b)
        )
        if one == other:
            raise CitationError("a and b are the same point; cite its mean as a value")
        for key, levels in self.contrasts.items():
            for contrast in levels.values():
                if {contrast.points[0], contrast.points[1]} == {(one,), (other,)}:
                    return Sentence("contrast", self._worded(key, contrast))
        facts = {name: self.citable[f"point/{point}/mean"] for name, point in (("a", one), ("b", other))}
        return Sentence("points", facts)

    def _run(self, name: str) -> Sentence:
        known: dict[str, RunResult | None] = dict.fromkeys(self._missing)
        known |= {run.run.name: run for run in self.comparison.runs}
        name = name.removeprefix("run/")
        run = lookup(name, known, "run")
        outcome = (run.outcome if run is not None else "not_run").replace("_", " ")
        values: dict[str, Any] = {"name": name, "outcome": outcome}
        if run is None or run.value is None:
            return Sentence("missing_run", {**values, "why": self._missing[name].rstrip(".")})
        values |= {"seed": run.run.seed, "fact": self.citable[f"run/{name}/value"]}
        values |= {"time": "" if run.hours is None else duration(run.hours * 3600)}
        return Sentence("run", {**values, "point": self.citable[f"point/{run.run.point}"].shown})
