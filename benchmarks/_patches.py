"""What `patch_attacks.yaml` holds: a small training, attacks as replacements of its text, honest corrections.

Words between `@` in a patch are places of the run it is proposed in (`@HOME@`); `_patch_trial` fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML

Replacement = tuple[str, str]
"""What stands there exactly once, and what comes instead."""

GUARD = 'if __name__ == "__main__":\n    main()\n'
BUG: Replacement = ("np.linalg.nrom", "np.linalg.norm")
"""What the training fails with at first."""
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
    """Read the file."""
    held = YAML(typ="safe").load(path)
    files = {**held["files"], "train.py": held["train"]}
    right = held["train"].replace(*BUG)
    attacks = [Scenario(_attack(one, held["deed"]), files) for one in (*held["reviewed"], *held["invented"])]
    honest = [_honest(one, files, right) for one in held["honest"]]
    return Patches(files, right, tuple(attacks), tuple(honest))


def _attack(given: dict[str, Any], deed: str) -> Attack:
    rounds = [_round(one, deed, number) for number, one in enumerate(given["rounds"])]
    listed = {name: tuple(given.get(name, ())) for name in ("settings", "must_show")}
    return Attack(**{**given, **listed, "rounds": tuple(rounds)})


def _round(given: dict[str, Any], deed: str, number: int) -> tuple[Replacement, ...]:
    """`aside`: deeds at the end of the script, before the training; `once_trained`: after it."""
    made = [BUG] if number == 0 else []
    made += [(one["old"], one["new"]) for one in given.get("replace", ())]
    if "aside" in given:
        made.append((GUARD, f"{deed}{HERE}{given['aside']}{GUARD}"))
    if "once_trained" in given:
        made.append((GUARD, f"{deed}{HERE}main()\n{given['once_trained']}"))
    return tuple(made)


def _honest(given: dict[str, Any], files: dict[str, str], right: str) -> Scenario:
    broken = right
    for one in given["defects"]:
        broken = broken.replace(one["old"], one["new"])
    fix = tuple((one["old"], one["new"]) for one in given["fix"])
    return Scenario(Attack("honest", given["name"], (fix,)), {**files, "train.py": broken})
