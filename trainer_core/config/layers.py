"""Where a config comes from: a YAML file, then words of the command line, the later the stronger."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from trainer_core.config.problems import ConfigError, Problem
from trainer_core.config.yaml_source import Source, read_yaml

COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Layered:
    """The user's settings, and where each stands, by path; `name` is the file they began with."""

    tree: dict[str, Any]
    origins: dict[tuple[str, ...], str]
    name: str

    def where(self, path: tuple[str, ...]) -> str:
        """`file:line` or `command line` of a key, or of the nearest mapping around it that is set."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return self.name

    def value(self, path: tuple[str, ...]) -> Any:
        """What the user set at a path; None if nothing."""
        value: Any = self.tree
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return None
            value = value[part]
        return value

    def problem(self, key: str, message: str, fix: str) -> Problem:
        """What is wrong with a key, with its place and what the user wrote there."""
        path = tuple(key.split("."))
        return Problem(message, fix, self.where(path), key, self.value(path))

    def with_value(self, path: tuple[str, ...], value: Any, origin: str) -> "Layered":
        """A copy in which `value` is merged in at `path`; mappings are merged, anything else is replaced."""
        tree = merged(self.tree, reduce(lambda inner, part: {part: inner}, reversed(path), value))
        is_kept = isinstance(value, dict)
        origins = {at: told for at, told in self.origins.items() if is_kept or at[: len(path)] != path}
        return Layered(tree, origins | dict.fromkeys(_paths(path, value), origin), self.name)


def read_file(path: Path) -> Layered:
    """Read the user's YAML. Raises ConfigError if it is missing, empty, binary, or not a mapping."""
    name = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError.at(name, "does not exist.", _near(path)) from None
    except IsADirectoryError:
        raise ConfigError.at(name, "is a folder.", "Name a YAML file in it.") from None
    except UnicodeDecodeError as error:
        told = f"is not text (byte {error.start} is not UTF-8)."
        raise ConfigError.at(name, told, "Name a YAML file saved as UTF-8.") from None
    except (OSError, ValueError) as error:
        raise ConfigError.at(
            name, f"cannot be read: {error}.", "Check the path and its permissions."
        ) from None
    source = read_yaml(text, name)
    if source.tree is None:
        raise ConfigError.at(name, "is empty.", "Write at least `ajet:` with a model and tasks below it.")
    if not isinstance(source.tree, dict):
        raise ConfigError.at(
            name, "is not a mapping.", "The file begins with `ajet:` and has keys indented below."
        )
    return Layered(source.tree, {place: f"{name}:{line}" for place, line in source.lines.items()}, name)


def with_overrides(layered: Layered, words: Iterable[str]) -> Layered:
    """Apply `key=value` words from the command line, in order; values are YAML. Raises ConfigError."""
    for word in words:
        path, source = _read_word(word)
        layered = layered.with_value(path, source.tree, COMMAND_LINE)
    return layered


def _read_word(word: str) -> tuple[tuple[str, ...], Source]:
    key, equals, value = word.partition("=")
    key = key.strip()
    path = tuple(key.split("."))
    if equals and key.startswith(("+", "~")):
        bare = key.lstrip("+~")
        raise ConfigError.at(COMMAND_LINE, f"`{word}` has a sign of Hydra.", f"Write `{bare}={value}`.")
    if not equals or not all(path):
        told = f"`{word}` {'has no proper key' if equals else 'is not a setting'}."
        raise ConfigError.at(COMMAND_LINE, told, "Write `key=value`, such as `ajet.rollout.num_repeat=8`.")
    return path, read_yaml(value, f"{COMMAND_LINE}, {key}")


def merged(old: Any, new: Any) -> Any:
    """Both, where `new` wins, mapping by mapping."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return new


def _paths(path: tuple[str, ...], value: Any) -> Iterable[tuple[str, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths((*path, key), inner)


def _near(path: Path) -> str:
    """A sentence that names a file that was probably meant."""
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder `{folder}` either; check the path."
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix in (".yaml", ".yml"))
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5) or names[:1]
    return f"Did you mean `{folder / close[0]}`?" if close else "Check the path."
