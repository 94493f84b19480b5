"""Everything a training is given, as one flat table: its config, and what the command line adds to it.

In: a parsed config and a launch command. Out: dotted key → value. Overrides (`data.train_files=x`), and flags
(`--learning-rate 1e-6`) by the names that configs have for them, win over the config.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.command import values_of
from harness.config import flatten


@dataclass(frozen=True)
class Settings:
    """Dotted key → value."""

    values: Mapping[str, Any]

    def get(self, *keys: str) -> Any:
        """The value of the first of these exact keys that is set to something; else None."""
        return next((self.values[key] for key in keys if self.values.get(key) is not None), None)

    def text(self, *keys: str) -> str:
        """As `get`, "" unless it is a text."""
        value = self.get(*keys)
        return value if isinstance(value, str) else ""

    def whole(self, *keys: str) -> int | None:
        """As `get`, None unless it is a positive integer."""
        value = self.get(*keys)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every (key, text), those in lists each."""
        for key, value in self.values.items():
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, str):
                    yield key, item

    def has_tree(self, name: str) -> bool:
        """True if there are keys below `name`."""
        return any(key.startswith(f"{name}.") for key in self.values)


def gather(config: Mapping[str, Any], command: str) -> Settings:
    """The settings of a config and of the command behind it."""
    return Settings(flatten(config) | values_of(command))


def local_path(text: str, folder: Path) -> Path | None:
    """The path that a value means; None where it is an address, an interpolation or has a pattern in it."""
    if not text or re.search(r"[$*?{}\n]|://|^\?\?\?$", text):
        return None
    return folder / Path(text).expanduser()
