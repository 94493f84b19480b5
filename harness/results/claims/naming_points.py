"""How texts call the keys, levels, points, runs and statistics of a comparison.

In: a `Comparison`. Out: `Term`s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.results.claims.naming import setting_names
from harness.results.claims.types import Term
from harness.results.comparing.types import Comparison, Key

P, EFFECT, DETECTABLE, AREA, SPEED, COST, SHARE, SD = (
    "p",
    "effect size",
    "detectable",
    "area",
    "steps to threshold",
    "cost",
    "share",
    "sd",
)
_TERMS = {
    P: ("p", "p value", "adjusted p", "p adjusted", "holm p", "adjusted p value", "holm adjusted p"),
    EFFECT: ("effect size", "hedges g", "hedges' g", "hedges’ g", "g", "cohen's d"),
    DETECTABLE: (
        "detectable difference",
        "smallest detectable difference",
        "detectable",
        "smallest difference",
        "smallest effect",
        "gone unnoticed",
        "go unnoticed",
        "detect differences",
        "detect a difference",
        *(
            f"{may} {found}"
            for may in ("could have", "would have", "could", "would", "can", "might have", "may have")
            for found in (
                *(
                    f"{be} {done}"
                    for be in ("been", "be")
                    for done in ("found", "detected", "seen", "shown", "noticed", "resolved")
                ),
                *("found", "detected", "been missed", "be missed", "missed", "escaped"),
            )
        ),
        "been missed",
    ),
    AREA: ("area", "area under the curve", "auc", "learning curve area", "mean height"),
    SPEED: ("steps to threshold", "steps to the threshold", "time to threshold"),
    COST: ("cost of", "cost per", "the cost", "mean cost", "gpu hours", "run hours"),
    SHARE: (
        "partial eta squared",
        "eta squared",
        "share of the variance",
        "share of variance",
        "of the variance",
        "of variance",
        "of the variation",
        "variance explained",
        "explained variance",
    ),
    SD: ("sd", "standard deviation", "s.d.", "standard deviation over seeds"),
}


def terms(comparison: Comparison) -> Iterator[Term]:
    study = comparison.study
    for name, names in _TERMS.items():
        yield Term(names, frozenset({name}))
    for point in study.points:
        short = point.name.partition("-")[0]
        names = (
            " ".join(re.split(r"[\s_\-/=:`]+", point.name.lower())),
            *((short.lower(), f"point {short.lower()}") if short != point.name else ()),
        )
        yield Term(names, frozenset({point.name}), "point")
    for run in study.runs:
        yield Term((" ".join(re.split(r"[\s_\-/=:`]+", run.name.lower())),), frozenset({run.name}), "point")
        if run.seed is not None:
            yield Term((f"seed {run.seed}",), frozenset({f"seed={run.seed}"}), "seed")
            short = f"{run.point.partition('-')[0].lower()} s{run.seed}"
            yield Term((short,), frozenset({run.name}), "point")
    yield Term(("baseline", "the baseline", "default"), frozenset({"baseline"}), "point")
    yield Term(
        ("best point", "best setting", "best configuration", "best", "winner", "top point"),
        frozenset({"best"}),
        "point",
    )
    for key in study.keys:
        yield Term((*setting_names(key.name), *_effect_names(key)), frozenset({key.name}), "key")
        for level in key.levels:
            if off := tuple(_off_names(key, level)):
                yield Term(off, frozenset({f"{key.name}={level}"}), f"level of {key.name}")
            if isinstance(level, str | bool) or level is None:
                yield Term(
                    tuple(_level_names(key.name, str(level).lower(), level)),
                    frozenset({f"{key.name}={level}"}),
                    f"level of {key.name}",
                )


def _effect_names(key: Key) -> tuple[str, ...]:
    """`kl_loss_coef` is also spoken of as "the KL loss"."""
    words = key.short.lower().split("_")
    if len(words) < 2 or words[-1] not in ("coef", "weight", "coefficient"):
        return ()
    stem = " ".join(words[:-1])
    return (stem, f"{words[0]} term", f"{words[0]} penalty", f"{words[0]} loss", words[0])


def _off_names(key: Key, level: object) -> Iterator[str]:
    """ "without the KL loss" is the level 0; "with it" the other one of two."""
    numeric = [one for one in key.levels if isinstance(one, int | float)]
    if 0 not in numeric or len(key.levels) != 2:
        return
    for name in _effect_names(key):
        if level == 0:
            yield from (
                f"without {name}",
                f"without the {name}",
                f"without a {name}",
                f"no {name}",
                f"{name} off",
                f"{name} turned off",
            )
        else:
            yield from (f"with {name}", f"with the {name}", f"with a {name}", f"{name} on")
    if level != 0:
        yield "with it"
    else:
        yield "without it"


def _level_names(key: str, word: str, level: object) -> Iterator[str]:
    short = setting_names(key)[2:]
    yield from (f"{name} {word}" for name in short)
    if isinstance(level, bool):
        words = ("on", "enabled") if level else ("off", "disabled")
        yield from (f"{name} {state}" for name in short for state in words)
        yield from (f"{'with' if level else 'without'} {name}" for name in short)
    elif len(word) > 2:
        yield " ".join(re.split(r"[\s_\-/=:`]+", word))
