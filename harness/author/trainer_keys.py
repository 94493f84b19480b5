"""The keys of the bundled trainer's config, as it explains them itself.

Asked as a program (`--explain`), because the harness never imports the trainer. In: words. Out: lines of
text.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from harness.blueprint.trainer import MODULE, TIMEOUT_S

MOST_SHOWN = 40


class NoKeysError(Exception):
    """The trainer did not explain its keys, or none matches; the message says which."""


@dataclass(frozen=True)
class TrainerKeys:
    """Every key of the trainer, sections too."""

    keys: tuple[dict[str, Any], ...]

    @classmethod
    def ask(cls) -> "TrainerKeys":
        """Ask the trainer that is installed beside the harness. Takes about a second. Raises NoKeysError."""
        command = [sys.executable, "-m", MODULE, "--explain", "*", "--json"]
        try:
            with tempfile.TemporaryDirectory() as empty:  # code in the current directory must not be run
                done = subprocess.run(
                    command,
                    cwd=empty,
                    start_new_session=True,
                    capture_output=True,
                    stdin=subprocess.DEVNULL,
                    timeout=TIMEOUT_S,
                    check=True,
                )
            return cls(tuple(json.loads(done.stdout)))
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            raise NoKeysError(f"the trainer does not explain its keys: {error}") from error

    def search(self, words: str) -> str:
        """A line per key whose name or meaning has all the words. Raises NoKeysError when there is none."""
        wanted = [word for word in words.lower().replace("*", " ").split() if word]
        found = [key for key in self.keys if all(word in _text(key) for word in wanted)]
        if not found:
            raise NoKeysError(f"no key has {words!r} in its name or meaning; try one shorter word")
        lines = [_line(key) for key in found[:MOST_SHOWN]]
        left = len(found) - len(lines)
        return "\n".join([*lines, *([f"… {left} more: use more words"] if left else [])])

    def knows(self, key: str) -> bool:
        return any(known["key"] == key.removesuffix(".*") for known in self.keys)


def _text(key: dict[str, Any]) -> str:
    return f"{key['key']} {key['description']}".lower()


def _line(key: dict[str, Any]) -> str:
    if key["local"] is None:
        return f"{key['key']}: section. {key['description']}"
    default = json.dumps(key["default"], ensure_ascii=False)
    return f"{key['key']}: {key['type']}, default {default}. {key['description']} On `local`: {key['local']}."
