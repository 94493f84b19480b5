"""Formats as data: one YAML file per family of trainings, shipped in `families/` or a user's own.

    family: timm
    expressions:        # only where the grammar cannot read a line by itself
      - '^(?:Train|Test): (?P<epoch>\\d+) (?=\\[)'
    samples:            # real lines and the rows they are: the tests of the family
      - text: "Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.95)"
        rows: [{step: 50, epoch: 0, values: {loss: 6.9}}]

The groups `step`, `epoch`, `steps_per_epoch` and `split` say what they are called; other named groups are
metrics. What an expression does not match is read as any line, and needs no known name to be a row.
"""

import os
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from monitors.metrics.names import LOADER


class FamilyError(ValueError):
    """A file of formats cannot be used; the message names it, what is wrong and how to correct it."""


@dataclass(frozen=True)
class Family:
    """`is_own`: the user's, not a shipped one."""

    name: str
    expressions: tuple[re.Pattern[str], ...]
    samples: tuple[dict[str, Any], ...]
    is_own: bool = False


def user_folder() -> Path:
    """Where a person keeps formats of their own: `metrics/` in the harness's config folder."""
    return Path(_config()) / "harness" / "metrics"


def _config() -> str:  # asked for each line
    return os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111


def families() -> tuple[Family, ...]:
    """The user's families that can be used, then the shipped ones, as they were when first asked for."""
    return _load(_config())[0]


def broken() -> tuple[str, ...]:
    """What is wrong with each file of the user's that cannot be used, and is left out."""
    return _load(_config())[1]


@cache
def _load(config: str) -> tuple[tuple[Family, ...], tuple[str, ...], tuple[re.Pattern[str], ...]]:
    """The families, what is wrong with files of the user's, and all expressions."""
    usable: list[Family] = []
    refused: list[str] = []
    for file in sorted((Path(config) / "harness" / "metrics").glob("*.yaml")):
        try:
            usable.append(replace(read_family(file), is_own=True))
        except FamilyError as error:
            refused.append(str(error))
    usable += _shipped()
    return tuple(usable), tuple(refused), tuple(each for family in usable for each in family.expressions)


@cache
def _shipped() -> tuple[Family, ...]:
    return tuple(map(read_family, sorted((Path(__file__).parent / "families").glob("*.yaml"))))


def read_family(file: Path) -> Family:
    """Read one file. Raises FamilyError."""
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), Loader=LOADER)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise FamilyError(f"{file}: cannot be read: {error}") from error
    if (
        not isinstance(data, dict)
        or set(data) - {"family", "expressions", "samples"}
        or not data.get("family")
        or not all(isinstance(data.get(key) or [], list) for key in ("expressions", "samples"))
    ):
        text = "a family has `family` and the lists `expressions` and `samples`, and nothing else"
        raise FamilyError(f"{file}: {text}")
    compiled = []
    for expression in data.get("expressions") or ():
        try:
            pattern = re.compile(str(expression))
        except (re.error, RecursionError, OverflowError) as error:
            raise FamilyError(f"{file}: {expression!r} is no regular expression: {error}") from error
        if not pattern.groupindex:
            raise FamilyError(f"{file}: {expression!r} names nothing; add a group as in (?P<step>\\d+)")
        compiled.append(pattern)
    return Family(str(data["family"]), tuple(compiled), tuple(data.get("samples") or ()))


def match(text: str) -> re.Match[str] | None:
    """The first match of a family's expression in a line."""
    for expression in _load(_config())[2]:
        if found := expression.search(text):
            return found
    return None
