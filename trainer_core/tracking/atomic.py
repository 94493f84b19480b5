"""Files that survive a crash: replaced in one instant, or cut back to the step a run resumes from."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader finds the old content or the new; parents are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def cut_back(path: Path, resume_step: int | None) -> int | None:
    """Drop the rows of a JSON-lines file that a resumed run writes again, and any line that a crash cut
    short.

    Args:
        resume_step: rows with a greater `step` go; None empties the file.

    Returns:
        The last step that is left, None when there is none.
    """
    kept: list[str] = []
    last_step = None
    if resume_step is not None and path.is_file():
        for line in path.read_text(encoding="utf-8").split("\n"):
            step = _step_of(line)
            if step is not None and step <= resume_step:
                kept.append(line + "\n")
                last_step = step
    write_atomically(path, "".join(kept))
    return last_step


def _step_of(line: str) -> int | None:
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None
