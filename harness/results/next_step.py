"""The experiment that is proposed after a run or a sweep: `next/` in its folder, which a person starts.

In: a result folder. Out: `NextStep`, as `next/proposal.json` holds it; None where there is none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.atomic_write import write_json

FOLDER = "next"
_FILE = "proposal.json"


@dataclass(frozen=True)
class NextStep:
    """`command`: what starts it; `question`: what it shall answer; `why`: the reason; `author`: the model
    that proposed it, "" where the numbers alone decided it."""

    command: str
    question: str
    why: str
    author: str = ""

    @classmethod
    def of(cls, result_dir: Path) -> NextStep | None:
        """What was proposed in this folder."""
        with suppress(OSError, ValueError, TypeError):
            step = cls(**json.loads((result_dir / FOLDER / _FILE).read_text(encoding="utf-8")))
            return step if all(isinstance(value, str) for value in vars(step).values()) else None
        return None

    def write(self, folder: Path) -> None:
        """Keep it in `next/`, which is there."""
        write_json(folder / _FILE, asdict(self), mode=0o600)
