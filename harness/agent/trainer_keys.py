"""The keys of the bundled trainer's config as a model looks them up: what they allow, default, meaning."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from harness.agent.excerpts import NotShownError
from harness.blueprint.surroundings import explain_keys

MOST_KEYS = 40


class NoKeysError(NotShownError):
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
