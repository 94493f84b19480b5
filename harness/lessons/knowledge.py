"""The file of lessons, `$XDG_STATE_HOME/harness/lessons.jsonl`: read leniently, appended to in single
writes."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness.lessons.types import Lesson
from harness.state import failure_of
from monitors.launch import state_home

WORTH = {"cured": 2, "moved_on": 1, "no_effect": -1, "not_repaired": 0}
_LESSON = TypeAdapter(Lesson)


def path() -> Path:
    """Where this user's lessons are."""
    return state_home() / "lessons.jsonl"


def all_lessons() -> list[Lesson]:
    """Every lesson, oldest first; lines that are no lesson (damaged, or of another version) are passed over,
    and what was learnt twice (a run that was killed while it finished) counts once. Raises OSError."""
    if not path().exists():
        return []
    found: dict[tuple[str, int], Lesson] = {}
    for line in path().read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            lesson = _LESSON.validate_json(line, strict=True)
        except ValidationError:
            continue
        found[lesson.key] = lesson
    return list(found.values())


def keep(lessons: Iterable[Lesson]) -> None:
    """Append lessons. Raises OSError."""
    text = "".join(json.dumps(asdict(lesson), ensure_ascii=False) + "\n" for lesson in lessons)
    if not text:
        return
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "ab+", buffering=0) as out:
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - 1))
        is_cut_off = out.read(1) not in (b"", b"\n")
        out.write(("\n" * is_cut_off + text).encode(errors="replace"))


def preferred(diagnosis: Mapping[str, Any]) -> tuple[str, ...]:
    """The remedies that have helped against this failure before, the best first. Raises OSError."""
    worth: Counter[str] = Counter()
    failure = failure_of(diagnosis)
    for lesson in all_lessons():
        if lesson.failure == failure:
            for name in lesson.remedies:
                worth[name] += WORTH[lesson.result]
    return tuple(name for name, points in worth.most_common() if points > 0)
