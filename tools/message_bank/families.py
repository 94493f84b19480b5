"""The family of a message: what was reviewed (`review.yaml`), else the first rule that holds (`rules.yaml`),
else the default, which is not sure."""

import re
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import yaml

from harness.diagnosis.message_bank import Place
from harness.diagnosis.signatures import families as known_families
from tools.message_bank.extraction import Found

_HERE = Path(__file__).parent
DEFAULT = "code_error"


@dataclass(frozen=True)
class Rule:
    """Patterns that must all be found in what is known of a message; `sure` is False where the rule knows
    only what is usual."""

    family: str
    library: str = ""
    path: str = ""
    function: str = ""
    exception: str = ""
    condition: str = ""
    template: str = ""
    sure: bool = True

    def holds(self, found: Found) -> bool:
        return all(pattern.search(getattr(found, name)) for name, pattern in self._patterns)

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        names = (each.name for each in fields(self) if each.name not in ("family", "sure"))
        return [(name, re.compile(text)) for name in names if (text := getattr(self, name))]


class Families:
    """Rules and review. `reviewed`: families by a message's id or by library:function. Raises ValueError for
    a family that does not exist."""

    def __init__(self) -> None:
        self._rules = [Rule(**entry) for entry in yaml.safe_load((_HERE / "rules.yaml").read_text())]
        reviewed = yaml.safe_load((_HERE / "review.yaml").read_text())
        self.reviewed: dict[str, str] = dict(reviewed["functions"])
        for family, ids in reviewed["messages"].items():
            self.reviewed |= dict.fromkeys(ids.split(), family)
        used = {*(rule.family for rule in self._rules), *self.reviewed.values()}
        if unknown := used - set(known_families()):
            raise ValueError(f"no such families: {', '.join(sorted(unknown))}")

    def given(self, id: str, found: Found | Place) -> str | None:
        """The family that a person gave."""
        return self.reviewed.get(id) or self.reviewed.get(f"{found.library}:{found.function}")

    def of(self, id: str, found: Found) -> tuple[str, bool]:
        """The family, and whether more than the exception's type decided it."""
        if reviewed := self.given(id, found):
            return reviewed, True
        for rule in self._rules:
            if rule.holds(found):
                return rule.family, rule.sure
        return DEFAULT, False
