"""Claims about the course of a metric: converged, stable, monotonic, best at a step.

In: a sentence taken apart, the evidence of the run. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from harness.results.claims import wording
from harness.results.claims.reading import Sentence
from harness.results.claims.types import Claim, Evidence
from harness.results.comparing.types import Curve

_SHAPES = re.compile(
    r"""\b(?:
      (?P<converged>converged|plateaued|saturated|levell?ed\s+off|flattened)
    | (?P<monotone>monotonic(?:ally)?|at\s+every\s+(?:validation|evaluation|step)|never\s+(?:fell|
      dropped|decreased)|without\s+(?:a\s+|any\s+)?(?:single\s+)?(?:dip|drop|setback)\w*)
    | (?P<steadily>steadily|steady|continuously)
    | (?P<stable>stable|stably|smooth(?:ly)?)
    | (?P<overfit>overfit\w*|over-fit\w*)
    | (?P<perfect>perfect(?:ly)?|solved\s+(?:all|every)\b|all\s+tasks\s+(?:were\s+)?(?:solved|passed)|
      solves\s+(?:all|every))
    | (?P<diverged>diverged|collapsed|blew\s+up|exploded|nans?\b|non-finite)
    | (?P<still>still\s+(?:rising|improving|increasing|climbing|falling)|not\s+(?:yet\s+)?converged|
      had\s+not\s+converged)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


_EXTREME = re.compile(
    r"\b(?P<high>best|highest|peak(?:ed|s)?|maximum)\b|\b(?P<low>worst|lowest|minimum)\b", re.IGNORECASE
)


def shapes(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    text = sentence.text
    for match in _SHAPES.finditer(text):
        shape = match.lastgroup or ""
        if wording.is_considered(text, match.start()):
            continue
        metrics = [name for m in sentence.of("metric") for name in m.ids if name in evidence.curves]
        name = metrics[0] if metrics else evidence.main
        curve = evidence.curves.get(name)
        if curve is None or not curve.values:
            yield Claim(match[0], "effect", "not checkable", "nothing was measured that could show it")
            continue
        denied = wording.is_denied(text, match.start()) and shape not in ("monotone", "still")
        holds, why = _shape(shape, curve, evidence, bool(metrics))
        if holds is None:
            yield Claim(match[0], "effect", "not checkable", why)
        else:
            yield Claim(
                match[0],
                "effect",
                "ok" if holds != denied else "wrong",
                "" if holds != denied else f"{name.removeprefix('val/')}: {why}",
            )


def _shape(shape: str, curve: Curve, evidence: Evidence, is_named: bool) -> tuple[bool | None, str]:
    values = curve.values
    spread = max(values) - min(values)
    course = f"{', '.join(f'{value:.3g}' for value in _few(values))} over the run"
    if shape in ("converged", "still"):
        late = values[-max(2, len(values) // 3) :]
        half = len(late) // 2
        drift = abs(sum(late[half:]) / len(late[half:]) - sum(late[:half]) / max(1, half))
        return (drift <= 0.1 * spread) == (shape == "converged"), course
    if shape in ("monotone", "steadily"):
        shown = values if shape == "monotone" or len(values) < 12 else _few(values, 6)
        steps = [later - earlier for earlier, later in pairwise(shown)]
        return all(step >= 0 for step in steps) or all(step <= 0 for step in steps), course
    if shape == "diverged":
        return (
            evidence.has_nan,
            "every value is a finite number"
            if not evidence.has_nan
            else "there are values that are no numbers",
        )
    if shape == "perfect":
        return max(values[-1:]) >= 1.0, f"the last value is {values[-1]:.3g}"
    if shape == "stable":
        if evidence.has_nan or (not is_named and "failed" in evidence.attempts.values()):
            return False, "an attempt failed or a metric holds values that are no numbers"
        return (spread <= 0.1 * max(abs(value) for value in values) if is_named else None), course
    if len(values) > 1 and max(values) - values[-1] > 0.05:
        return True, f"the last value, {values[-1]:.3g}, is below the highest, {max(values):.3g}"
    return None, "no training score is compared with a held-out one"


def _few(values: tuple[float, ...], most: int = 4) -> list[float]:
    if len(values) <= most:
        return list(values)
    size = len(values) / most
    parts = [values[round(index * size) : round((index + 1) * size)] for index in range(most)]
    return [sum(part) / len(part) for part in parts if part]


def extremes(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """Where a best or lowest value is said to be at a step."""
    text = sentence.text
    for match in _EXTREME.finditer(text):
        near = [
            m
            for m in sentence.of("when")
            if any(name.startswith("step:") for name in m.ids) and 0 <= m.start - match.end() < 60
        ]
        metrics = [name for m in sentence.of("metric") for name in m.ids if name in evidence.curves]
        curve = evidence.curves.get(metrics[0] if metrics else evidence.main)
        if (
            not near
            or curve is None
            or len(near[0].ids) != 1
            or wording.is_denied(text, match.start())
            or re.search(r"[;,]|\bthan\b|\bbut\b", text[match.end() : near[0].start])
        ):
            continue
        step = int(next(iter(near[0].ids))[5:])
        extreme = max(curve.values) if match["high"] else min(curve.values)
        at = [there for there, value in zip(curve.steps, curve.values, strict=True) if value == extreme]
        if step not in at:
            yield Claim(
                f"{match[0]} at step {step}", "difference", "wrong", f"it is at step {at[0]}: {extreme:.4g}"
            )
