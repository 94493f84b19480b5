"""What `patch_attacks*.yaml` hold: a small training, attacks as replacements of its text, honest corrections.

Words between `@` in a patch are places of the run it is proposed in (`@HOME@`); `_patch_trial` fills them in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML

Replacement = tuple[str, str]
"""What stands there exactly once, and what comes instead."""

GUARD = 'if __name__ == "__main__":\n    main()\n'
BUG: Replacement = ("np.linalg.nrom", "np.linalg.norm")
"""What the training fails with at first."""
LARGEST = 3_500
"""Characters of one change."""
HERE = 'A = os.environ["HARNESS_ATTEMPT_DIR"]\n'


@dataclass(frozen=True)
class Attack:
    """Patches that are proposed after the first, second … failure (`rounds`), the correction among them.

    `aim`: at the numbers, or at what is outside the sandbox; `evaluate`: the author's own script that
    measures afterwards; `git`: the code is in a repository; `settings`: more lines of `[exp_code_changes]`;
    `metrics`: a line of `[exp_metrics]`; `must_show`: text that the report has to hold, or `outcome:` and a
    word; `why`: the model's reason; `smoke`: a smoke run comes first."""

    kind: str
    name: str
    rounds: tuple[tuple[Replacement, ...], ...]
    aim: Literal["metric", "sandbox"] = "metric"
    evaluate: str = ""
    git: bool = False
    settings: tuple[str, ...] = ()
    metrics: str = ""
    must_show: tuple[str, ...] = ()
    why: str = ""
    smoke: bool = False


@dataclass(frozen=True)
class Scenario:
    """An attack, or a correction, and the code that it finds."""

    attack: Attack
    files: dict[str, str]


@dataclass(frozen=True)
class Patches:
    """The whole of the file."""

    files: dict[str, str]
    """The author's code, with the defect."""
    right: str
    """The training without the defect."""
    attacks: tuple[Scenario, ...]
    honest: tuple[Scenario, ...]


def load(path: Path) -> Patches:
    """Read the file, and what was invented later, beside it."""
    held, later = (YAML(typ="safe").load(each) for each in (path, path.with_stem(f"{path.stem}_later")))
    files = {**held["files"], "train.py": held["train"]}
    right = held["train"].replace(*BUG)
    attacks = [
        Scenario(_attack(one, held["deed"]), files)
        for one in (*held["reviewed"], *held["invented"], *later["invented"])
    ]
    honest = [_honest(one, files, right) for one in (*held["honest"], *later["honest"])]
    return Patches(files, right, tuple(attacks), tuple(honest))


def _attack(given: dict[str, Any], deed: str) -> Attack:
    rounds = [_round(one, deed, number) for number, one in enumerate(given["rounds"])]
    listed = {name: tuple(given.get(name, ())) for name in ("settings", "must_show")}
    return Attack(**{**given, **listed, "rounds": tuple(rounds)})


def _round(given: dict[str, Any], deed: str, number: int) -> tuple[Replacement, ...]:
    """`aside`: deeds at the end of the script, before the training; `once_trained`: after it."""
    made = [BUG] if number == 0 else []
    made += [(one["old"], one["new"]) for one in given.get("replace", ())]
    for where, first, last in (("aside", "", GUARD), ("once_trained", "main()\n", "")):
        if where in given:
            pieces = list(_pieces(f"{deed}{HERE}{first}{given[where]}"))
            made += [(GUARD, piece + GUARD) for piece in pieces[:-1]]
            made.append((GUARD, pieces[-1] + last))
    return tuple(made)


def _pieces(text: str) -> Iterator[str]:
    """Whole statements, together no longer than what one change may hold."""
    lines = text.splitlines(keepends=True)
    ends = [node.end_lineno or 0 for node in ast.parse(re.sub("@([A-Z]+)@", r"_\1_", text)).body]
    begun = before = 0
    for end in ends:
        if len("".join(lines[begun:end])) > LARGEST and before > begun:
            yield "".join(lines[begun:before])
            begun = before
        before = end
    yield "".join(lines[begun:])


def _honest(given: dict[str, Any], files: dict[str, str], right: str) -> Scenario:
    broken = right
    for one in given["defects"]:
        broken = broken.replace(one["old"], one["new"])
    fix = tuple((one["old"], one["new"]) for one in given["fix"])
    return Scenario(Attack("honest", given["name"], (fix,)), {**files, "train.py": broken})
