"""What a model may look up while it writes: the person's files, and the keys of the bundled trainer.

In: a path or words as the model wrote them. Out: bounded text with secrets masked. A path is judged after all
its symbolic links were followed, by the same rules as in a run (`harness.guard.file_access`).
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.agent import disk_access, excerpts
from harness.agent.excerpts import NotShownError
from harness.blueprint.trainer import explain_keys
from harness.guard import file_access

MOST_ENTRIES = 100
MOST_KEYS = 40


def look(path: str, lines: int, cwd: Path) -> str:
    """The entries of a folder below `cwd`, or the first lines of a text file. Raises NotShownError."""
    root = cwd.resolve()
    if Path.home().resolve().is_relative_to(root):
        raise NotShownError(
            "the current directory is the home folder or one above it, and nothing is read there; the person "
            "can start in the folder of their project"
        )
    try:
        if path.isprintable() and (root / path).is_dir():
            return _listing(path, root)
        found = disk_access.resolve_reading(path, root, None)
        shown, total = excerpts.of_file(found, 1, lines)
    except NotShownError as refusal:
        if not (path.isprintable() and (root / path).exists()):
            raise NotShownError(f"there is no {path!r}; `.` lists the current directory") from refusal
        raise
    except OSError as error:
        raise NotShownError(f"{path} cannot be read: {error.strerror}") from error
    title = f"{path}: the first {len(shown)} of {total} lines"
    return excerpts.fitted(title, excerpts.numbered(shown, range(1, len(shown) + 1)))


def _listing(path: str, root: Path) -> str:
    folder = (root / path).resolve()
    if not folder.is_relative_to(root):
        raise NotShownError(f"{path} leads out of the current directory, and only what is below it is shown")
    if any(map(file_access.looks_private, folder.relative_to(root).parts)):
        raise NotShownError(f"{path} is hidden or looks as if it holds secrets, so it is not shown")
    entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    shown = [entry for entry in entries if not file_access.looks_private(entry.name)]
    names = [excerpts.plain(entry.name) + ("/" if entry.is_dir() else "") for entry in shown[:MOST_ENTRIES]]
    more = [f"… {len(shown) - MOST_ENTRIES} more"] if len(shown) > MOST_ENTRIES else []
    return excerpts.fitted(f"{path}: {len(shown)} entries", [*names, *more])


class NoKeysError(Exception):
    """The trainer did not explain its keys, or none matches; the message says which."""


@dataclass(frozen=True)
class TrainerKeys:
    """Every key of the trainer, sections too."""

    keys: tuple[dict[str, Any], ...]

    @classmethod
    def ask(cls) -> "TrainerKeys":
        """Ask the trainer that is installed beside the harness. Takes about a second. Raises NoKeysError."""
        try:
            return cls(tuple(explain_keys()))
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            raise NoKeysError(f"the trainer does not explain its keys: {error}") from error

    def search(self, words: str) -> str:
        """A line per key whose name or meaning has all the words. Raises NoKeysError when there is none."""
        wanted = words.lower().replace("*", " ").split()
        texts = {f"{key['key']} {key['description']}".lower(): key for key in self.keys}
        found = [key for text, key in texts.items() if all(word in text for word in wanted)]
        if not found:
            raise NoKeysError(f"no key has {words!r} in its name or meaning; try one shorter word")
        left = len(found) - MOST_KEYS
        return "\n".join([*map(_line, found[:MOST_KEYS]), *([f"… {left} more: use more words"] * (left > 0))])

    def knows(self, key: str) -> bool:
        return any(known["key"] == key.removesuffix(".*") for known in self.keys)


def _line(key: dict[str, Any]) -> str:
    if key["local"] is None:
        return f"{key['key']}: section. {key['description']}"
    default = json.dumps(key["default"], ensure_ascii=False)
    return f"{key['key']}: {key['type']}, default {default}. {key['description']} On `local`: {key['local']}."
