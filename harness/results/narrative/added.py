"""Words of a language model that were added after a run or a sweep had ended, beside its report.

The journal is sealed by then, so they stand in a file of their own; the report says that they came later, and
`harness verify` holds them to the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.atomic_write import write_atomically
from harness.results.manifest import with_checksum
from harness.results.narrative.sections import Narrative, words_json
from harness.results.raw import json_file
from harness.wording import count_text

FILE, TRANSCRIPT = "narrative.json", "narrative_transcript.jsonl"


@dataclass(frozen=True)
class Added:
    """Sections by name as the journal would have them, who wrote them, and what that took. `cost_usd`: None
    where the price is not known; `at`: when they were added."""

    sections: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    at: str = ""

    @property
    def author(self) -> str:
        """As a report names who wrote."""
        tokens = f"{self.input_tokens:,} input and {self.output_tokens:,} output tokens"
        return f"{self.model}, added after the end, on {self.at}: {count_text(self.calls, 'call')}, {tokens}"

    def write(self, folder: Path) -> None:
        write_atomically(folder / FILE, with_checksum(asdict(self)))


def added(folder: Path) -> Added:
    """What was added to the report in this folder; empty where nothing was."""
    data = json_file(folder / FILE, FILE, []) or {}
    return Added(**{name: data[name] for name in vars(Added()) if name in data})


def narrative_json(said: Narrative | None, later: Added, author: str) -> dict[str, Any]:
    """What result.json and sweep.json keep of the words of a model. `author`: of those in the journal."""
    told = {}
    if said is not None:
        told = {"narrative": {"written_by": later.model or author, **words_json(said)}}
    about = {key: value for key, value in asdict(later).items() if key != "sections"}
    return {**told, **({"narrative_added": about} if later.sections else {})}
