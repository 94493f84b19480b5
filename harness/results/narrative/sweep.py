"""The evidence of a comparison: its points, runs and contrasts, as a narrative may cite them.

In: a `Comparison`. Out: `SweepEvidence`. A level is called higher or lower only where its contrast's finding
is; two points between which no contrast was tested are shown side by side and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.results.comparing.types import Comparison, Contrast
from harness.results.narrative.evidence import Citable, CitationError, Evidence, Sentence, lookup
from harness.results.narrative.findings import BestFinding, CompareFinding, ContrastFinding, RunFinding
from harness.results.sweeps.wording import Digits, best_points, key_labels, level_text, point_labels, worth
from harness.wording import duration


class SweepEvidence(Evidence):
    """What is known of a sweep, or of other runs that were compared."""

    kinds = ("best", "compare", "contrast", "run")

    def __init__(self, comparison: Comparison) -> None:
        self._comparison, self._digits = comparison, Digits.of(comparison)
        self._labels, self._worth = key_labels(comparison), worth(comparison)
        self._contrasts = {
            self._labels.get(effect.key, effect.key): {level_text(one.level): one for one in effect.contrasts}
            for effect in comparison.keys
        }
        self._runs = {run.run.name: run for run in comparison.runs}
        self._missing = {name: run.why_not for name, run in self._runs.items() if run.value is None}
        planned = comparison.study.not_run.items()
        self._missing |= {name: why for name, why in planned if name not in self._runs}
        super().__init__(self._citable())
        self.due = tuple(RunFinding(kind="run", name=name) for name in self._missing)
        self.cautions = tuple(self._cautions())

    def _cautions(self) -> Iterator[Sentence]:
        if self._comparison.is_single_seed:
            yield Sentence("single_seeds")
        if self._comparison.chosen_afterwards:
            yield Sentence("chosen_afterwards", {"metric": self._comparison.metric})
        for text in self._comparison.confounds:
            yield Sentence("confound", {"text": text.rstrip(".")})
        changed = {name: "; ".join(run.deviations) for name, run in self._runs.items() if run.deviations}
        if changed:
            yield Sentence("changed_runs", {"runs": changed})

    def _citable(self) -> Iterator[Citable]:
        digits, metric, labels = self._digits, self._comparison.metric, point_labels(self._comparison)
        for point in self._comparison.points:
            name = point.point.name
            yield Citable(f"point/{name}", "", f"{name} ({labels[name]})" if labels[name] != name else name)
            if point.value is not None:
                shown = f"{digits.value(point.value.mean)} {digits.of_mean(point.value)}".strip()
                label = f"mean {metric} of {name}, n = {point.value.n}"
                yield Citable(f"point/{name}/mean", label, shown, point.value.mean, metric)
        for name in (*self._runs, *self._missing):
            yield Citable(f"run/{name}", "", name)
        for name, run in self._runs.items():
            if run.value is not None:
                shown = digits.value(run.value)
                yield Citable(f"run/{name}/value", f"{metric} of {name}", shown, run.value, metric)
        for key, levels in self._contrasts.items():
            yield Citable(f"key/{key}", "", key)
            for level in dict.fromkeys((*levels, *(level_text(one.baseline) for one in levels.values()))):
                yield Citable(f"level/{key}/{level}", "", f"{key} {level}")
            for contrast in levels.values():
                yield from self._of_contrast(key, contrast)

    def _of_contrast(self, key: str, contrast: Contrast) -> Iterator[Citable]:
        words = self._worded(key, contrast)
        level, needed = words["level"], contrast.seeds_needed
        about = f"{key} {level} against {words['baseline']}"
        yield Citable(f"contrast/{key}/{level}/finding", f"finding, {about}", contrast.finding)
        for name, label, value, shown in (
            ("difference", f"difference of {words['metric']}", contrast.difference, words["difference"]),
            ("detectable", "detectable difference", contrast.detectable, words["detectable"]),
            ("seeds_needed", "seeds needed per point", needed, str(needed)),
        ):
            if value is not None:
                yield Citable(
                    f"contrast/{key}/{level}/{name}", f"{label}, {about}", shown, float(value), name
                )

    def _worded(self, key: str, contrast: Contrast) -> dict[str, Any]:
        digits, others = self._digits, self._comparison.depends_on(contrast.key)
        interval = digits.interval(contrast.low, contrast.high)
        return {
            "key": key,
            "metric": self._comparison.metric,
            "contrast": contrast,
            "level": level_text(contrast.level),
            "baseline": level_text(contrast.baseline),
            "worth": self._worth.get(contrast.finding, ""),
            "difference": f"{digits.difference(contrast.difference)} {interval}".strip(),
            "detectable": "" if contrast.detectable is None else f"±{digits.value(contrast.detectable)}",
            "depends_on": ", ".join(self._labels.get(name, name) for name in others),
        }

    def _contrast(self, finding: ContrastFinding) -> Sentence:
        names = {label: label for label in self._contrasts}
        names |= {key: label for key, label in self._labels.items() if label in names}
        key = lookup(finding.key, names, "varied key")
        level, what = level_text(finding.level), f"level of {key} beside its baseline"
        return Sentence("contrast", self._worded(key, lookup(level, self._contrasts[key], what)))

    def _best(self, finding: BestFinding) -> Sentence:
        metric, best = self._comparison.metric, self._comparison.best
        lookup(finding.metric, {metric: True}, "metric of this comparison")
        if best is None:
            raise CitationError("no point is the best: none has a value, or which way is better is not known")
        equal = best_points(self._comparison) or [best]
        values = {
            "metric": metric,
            "fact": self.citable[f"point/{best}/mean"],
            "points": ", ".join(self.citable[f"point/{name}"].shown for name in equal),
            "equal": len(equal),
            "word": "highest" if self._comparison.study.goal == "max" else "lowest",
            "among": sum(point.value is not None for point in self._comparison.points),
        }
        return Sentence("best_point", values)

    def _compare(self, finding: CompareFinding) -> Sentence:
        means = {item.point.name: item for item in self._comparison.points if item.value is not None}
        one, other = (
            lookup(name.removeprefix("point/"), means, "point with a value").point.name
            for name in (finding.a, finding.b)
        )
        if one == other:
            raise CitationError("a and b are the same point; cite its mean as a value")
        for key, levels in self._contrasts.items():
            for contrast in levels.values():
                if {contrast.points[0], contrast.points[1]} == {(one,), (other,)}:
                    return Sentence("contrast", self._worded(key, contrast))
        return Sentence(
            "points", {"a": self.number(f"point/{one}/mean"), "b": self.number(f"point/{other}/mean")}
        )

    def _run(self, finding: RunFinding) -> Sentence:
        name = finding.name.removeprefix("run/")
        run = lookup(name, {**dict.fromkeys(self._missing), **self._runs}, "run")
        values: dict[str, Any] = {
            "name": name,
            "outcome": (run.outcome if run else "not_run").replace("_", " "),
        }
        if run is None or run.value is None:
            return Sentence("missing_run", {**values, "why": self._missing[name].rstrip(".")})
        values |= {"seed": run.run.seed, "point": self.citable[f"point/{run.run.point}"].shown}
        values |= {"time": "" if run.hours is None else duration(run.hours * 3600)}
        return Sentence("run", {**values, "fact": self.number(f"run/{name}/value")})
