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
    | (?P<monotone>monotonic(?:ally)?|at\s+(?:every|each)\s+(?:of\s+the\s+)?(?:\w+\s+){0,2}?(?:
      validation|evaluation|step|checkpoint)s?
        (?P<but>\s+(?:but|except|apart\s+from|save)\s+(?:for\s+)?(?:the\s+)?(?:last|final)\b)?|never\s+(?:fell|
      dropped|decreased)|without\s+(?:a\s+|any\s+)?(?:single\s+)?(?:dip|drop|setback)\w*)
    | (?P<throughout>(?:fall|ris|increas|decreas|improv|climb|declin|drop|grow|fell|rose|increased|decreased|
        climbed|declined|dropped|grew|improved)(?:ing)?\s+(?:throughout|all\s+the\s+way|
        (?:right\s+)?(?:up\s+)?(?:to|until)\s+the\s+(?:very\s+)?end|over\s+the\s+(?:whole|entire)\s+\w+))
    | (?P<steadily>steadily|steady|continuously)
    | (?P<stable>stable|stably)
    | (?P<overfit>overfit\w*|over-fit\w*)
    | (?P<perfect>perfect(?:ly)?|solved\s+(?:all|every)\b|all\s+tasks\s+(?:were\s+)?(?:solved|passed)|
      solves\s+(?:all|every))
    | (?P<collapsed>collapsed)
    | (?P<diverged>diverged|blew\s+up|exploded)
    | (?P<nan>nans?\b|non-finite)
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
        ahead = [m for m in sentence.of("metric") if m.end <= match.start() and m.ids & set(evidence.curves)]
        metrics = [
            name for m in ahead[-1:] or sentence.of("metric") for name in m.ids if name in evidence.curves
        ]
        name = evidence.main if evidence.main in metrics else metrics[0] if metrics else evidence.main
        curve = evidence.curves.get(name)
        if curve is not None and match["but"]:
            curve = Curve(curve.steps[:-1], curve.values[:-1])
        if curve is None or not curve.values:
            yield Claim(match[0], "effect", "not checkable", "nothing was measured that could show it")
            continue
        denied = wording.is_denied(text, match.start()) and shape not in ("monotone", "still", "throughout")
        if shape == "throughout":
            shape = "fell" if re.match(r"(?:f[ea]ll|decr|decl|drop)", match[0], re.IGNORECASE) else "rose"
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
    if shape in ("rose", "fell"):
        shown = values if len(values) < 12 else _few(values, 6)
        way = shown[-1] - min(shown) if shape == "fell" else max(shown) - shown[-1]
        return way <= 0.1 * spread, course
    if shape in ("monotone", "steadily"):
        shown = values if shape == "monotone" or len(values) < 12 else _few(values, 6)
        steps = [later - earlier for earlier, later in pairwise(shown)]
        return all(step >= 0 for step in steps) or all(step <= 0 for step in steps), course
    if shape == "collapsed" and not evidence.has_nan:
        return values[-1] <= 0.6 * max(values), course
    if shape == "diverged" and not evidence.has_nan:
        return (None if is_named and values[-1] > 2 * abs(values[0]) else False), course
    if shape in ("collapsed", "diverged", "nan"):
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
    return _overfit(evidence)


def _overfit(evidence: Evidence) -> tuple[bool | None, str]:
    """Whether a metric on held-out data got worse again after its best value."""
    for name, curve in evidence.curves.items():
        goal = evidence.goals.get(name, 0)
        if not goal or len(curve.values) < 2 or not re.search(r"val|eval|test|held", name):
            continue
        best, last = (max if goal > 0 else min)(curve.values), curve.values[-1]
        if abs(best - last) > max(0.05, 0.1 * (max(curve.values) - min(curve.values))):
            return True, f"{name}: the last value, {last:.3g}, is worse than the best, {best:.3g}"
    return None, "no training score is compared with a held-out one"


def _few(values: tuple[float, ...], most: int = 4) -> list[float]:
    if len(values) <= most:
        return list(values)
    size = len(values) / most
    parts = [values[round(index * size) : round((index + 1) * size)] for index in range(most)]
    return [sum(part) / len(part) for part in parts if part]


_ITS = re.compile(r"\bits\s+$", re.IGNORECASE)  # of the metric of the sentence before; its value is looked up


def _meant(sentence: Sentence, match: re.Match[str], evidence: Evidence) -> str:
    """The metric that a best or lowest value is of: the one right behind it, the last one before it, any."""
    known = [m for m in sentence.of("metric") if m.ids & set(evidence.curves)]
    behind = [
        m
        for m in known
        if 0 <= m.start - match.end() < 20 and "," not in sentence.text[match.end() : m.start]
    ]
    ahead = [m for m in known if m.end <= match.start()]
    ids = sorted(name for m in behind[:1] or ahead[-1:] or known[:1] for name in m.ids & set(evidence.curves))
    return ids[0] if ids and evidence.main not in ids else evidence.main


_VALUE = re.compile(r",\s*[\d.]+\s*%?\s*,?")
_END_IS = re.compile(
    r"\b(?P<end>last|final|first)\s+(?:validation|evaluation|value|pass\s+rate|one)\s+(?:\([^)]*\)\s+|of\s+[\d.]+\s*%?\s+)?(?:was|is)\s+(?:also\s+)?the\s+"
    r"(?:(?P<high>best|highest)|(?P<low>worst|lowest))\b",
    re.IGNORECASE,
)


def extremes(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """Where a best or lowest value is said to be."""
    text = sentence.text
    main = evidence.curves.get(evidence.main)
    for match in _END_IS.finditer(text) if main is not None and main.values else ():
        assert main is not None
        value = main.values[0 if match["end"].lower() == "first" else -1]
        extreme = max(main.values) if match["high"] else min(main.values)
        if value != extreme:
            yield Claim(match[0], "difference", "wrong", f"that is {extreme:.4g}, not {value:.4g}")
    for match in _EXTREME.finditer(text):
        near = [
            m
            for m in sentence.of("when")
            if any(name.startswith("step:") for name in m.ids) and 0 <= m.start - match.end() < 60
        ]
        name = _meant(sentence, match, evidence)
        curve = evidence.curves.get(name)
        if (
            not near
            or (not sentence.of("metric") and _ITS.search(text[: match.start()]))
            or curve is None
            or len(near[0].ids) != 1
            or wording.is_denied(text, match.start())
            or re.search(r"[;,]|\bthan\b|\bbut\b", _VALUE.sub("", text[match.end() : near[0].start]))
        ):
            continue
        step = int(next(iter(near[0].ids))[5:])
        is_good = match[0].lower() in ("best", "worst") and evidence.goals.get(name, 1) < 0
        extreme = max(curve.values) if bool(match["high"]) != is_good else min(curve.values)
        at = [there for there, value in zip(curve.steps, curve.values, strict=True) if value == extreme]
        if step not in at:
            yield Claim(
                f"{match[0]} at step {step}", "difference", "wrong", f"it is at step {at[0]}: {extreme:.4g}"
            )
