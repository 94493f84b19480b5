"""Everything a training is told, as one flat table: its config, and what the command line adds to it.

In: a parsed config and the arguments of its programs. Out: dotted key → value. Hydra overrides
(`data.train_files=x`), and flags (`--learning_rate 1e-6`) with dashes as underscores, win over the config.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import edit as config_edit
from harness.config.values import flatten

_OVERRIDE = re.compile(
    r"(?P<mark>\+\+|\+|~)?(?P<key>[A-Za-z_][\w/@-]*(?:\.[\w/@-]+)*)=(?P<value>.*)", re.DOTALL
)


@dataclass(frozen=True)
class Override:
    """One `key=value` of a command line. `mark`: Hydra's `+` (add), `++` (add or change), `~` (delete)."""

    key: str
    value: Any
    mark: str


@dataclass(frozen=True)
class Settings:
    """Dotted key → value."""

    values: Mapping[str, Any]

    def get(self, *keys: str) -> Any:
        """The value of the first of these exact keys that is set to something; else None."""
        return next((self.values[key] for key in keys if self.values.get(key) is not None), None)

    def number(self, *keys: str) -> float | None:
        """As `get`, None unless it is a number."""
        value = self.get(*keys)
        return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value

    def whole(self, *keys: str) -> int | None:
        """As `get`, None unless it is a positive integer."""
        value = self.get(*keys)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def ending(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Every (key, value) whose last part is one of these names."""
        for key, value in self.values.items():
            if key.rpartition(".")[2] in names:
                yield key, value

    def has_tree(self, name: str) -> bool:
        """Whether there are keys below `name`."""
        return any(key.startswith(f"{name}.") for key in self.values)


def gather(config: Mapping[str, Any], arguments: Iterable[str]) -> Settings:
    """The settings of a config and the arguments behind it."""
    words = list(arguments)
    values = flatten(config)
    values.update(flags(words))
    values.update({item.key: item.value for item in overrides(words) if item.mark != "~"})
    return Settings(values)


def overrides(arguments: Iterable[str]) -> list[Override]:
    """The Hydra overrides among the arguments."""
    matches = [match for word in arguments if (match := _OVERRIDE.fullmatch(word))]
    return [Override(match["key"], value_of(match["value"]), match["mark"] or "") for match in matches]


def flags(arguments: Iterable[str]) -> dict[str, Any]:
    """`--name value`, `--name=value` and bare `--name` (True)."""
    found: dict[str, Any] = {}
    name = ""
    for word in arguments:
        if match := re.fullmatch(r"--([A-Za-z][\w.-]*)(?:=(.*))?", word, re.DOTALL):
            name = match[1].replace("-", "_") if match[2] is None else ""
            found[match[1].replace("-", "_")] = True if match[2] is None else value_of(match[2])
        elif name:
            found[name], name = value_of(word), ""
    return found


def value_of(text: str) -> Any:
    """A command line's word as YAML reads it; the word itself where it is no YAML."""
    try:
        return config_edit.load(f"value: {text}\n")["value"]
    except config_edit.ConfigEditError:
        return text


def local_path(text: str, folder: Path) -> Path | None:
    """The path that a value means; None where it is an address, an interpolation or has a pattern in it."""
    if not text or re.search(r"[$*?{}\n]|://|^\?\?\?$", text):
        return None
    return folder / Path(text).expanduser()
