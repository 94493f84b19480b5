"""Known failures: the YAML files of this folder as `Signature` objects (each file begins with its schema)."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ruamel.yaml import YAML


@dataclass(frozen=True)
class Signature:
    """One known failure; `wait_s` is how long to wait before a restart (seconds)."""

    id: str
    family: str
    cause: str
    transient: bool
    wait_s: float
    patterns: tuple[re.Pattern[str], ...]
    excludes: tuple[re.Pattern[str], ...]

    def matches(self, text: str) -> bool:
        """Whether a line of a log is evidence for this failure."""
        return any(pattern.search(text) for pattern in self.patterns) and not any(
            pattern.search(text) for pattern in self.excludes
        )


@cache
def load() -> tuple[Signature, ...]:
    """All signatures shipped with the package, in file and file order."""
    signatures: list[Signature] = []
    for file in sorted(resources.files(__package__).iterdir(), key=lambda item: item.name):
        if file.name.endswith(".yaml"):
            signatures += [
                _signature(item) for item in YAML(typ="safe").load(file.read_text(encoding="utf-8"))
            ]
    return tuple(signatures)


def _signature(item: dict) -> Signature:
    return Signature(
        id=item["id"],
        family=item["family"],
        cause=item["cause"],
        transient=item["transient"],
        wait_s=float(item.get("wait_s", 0)),
        patterns=tuple(re.compile(pattern) for pattern in item["patterns"]),
        excludes=tuple(re.compile(pattern) for pattern in item.get("not", ())),
    )
