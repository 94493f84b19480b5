"""Tasks from a JSON-lines file: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainer_core.tasks.rows import task_from_row, unique_tasks
from trainer_core.types import DataError, Task


def read_jsonl(path: Path) -> tuple[Task, ...]:
    """Read every line; empty lines are skipped, a missing task_id becomes `line-<number>`.

    Raises:
        DataError: no such file, not UTF-8, a line that is not a JSON object, no question in it, an id used
        twice.
    """
    return unique_tasks(_rows(path), source=str(path))


def _rows(path: Path) -> Iterator[tuple[Task, str]]:
    for number, row in json_lines(path):
        where = f"{path}:{number}"
        if not isinstance(row, dict):
            raise DataError(f'{where}: expected a JSON object such as {{"question": "…", "answer": "…"}}')
        yield task_from_row(row, where=where, fallback_id=f"line-{number}"), where


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The value of each line that is not empty, with the number of the line.

    Raises:
        DataError: no such file, not UTF-8, a line that is not JSON.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no data file {path.absolute()}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if "\\ud" in line.lower():
                json.dumps(value, ensure_ascii=False).encode()
        except ValueError as error:
            raise DataError(f"{path}:{number}: not a JSON object on one line ({error})") from None
        except RecursionError:
            raise DataError(f"{path}:{number}: JSON nested too deeply") from None
        yield number, value
