"""The one reader of settings files, within limits, since a few lines of YAML can stand for more than a
machine holds.

In: a file or its text. Out: its text, or a parser that counts while it reads, before anything is built. What
cannot be read, or is more than any config, is an UnreadableConfigError that names the line.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import yaml as pyyaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.parser import Parser, RoundTripParser

MOST_BYTES = 1_000_000
"""Of a file, and of the text that it stands for when aliases are written out."""
MOST_VALUES = 10_000
"""Keys and values, aliases written out."""
DEEPEST = 100
_LONGEST_NUMBER = 1_000
_DIGITS = re.compile(r"[-+]?[0-9]\w*")


class ConfigEditError(Exception):
    """The text is not a YAML mapping, a key leads through something that is not one, or the text writes the
    key with its dots as one."""


class UnreadableConfigError(ConfigEditError, ValueError):
    """The text cannot be read as a config: `problem`, in `line` (0: not known)."""

    def __init__(self, problem: str, line: int = 0) -> None:
        self.problem, self.line = " ".join(problem.split()), line
        where = f", line {line}" if line else ""
        super().__init__(f"not a config that can be read: {self.problem}{where}")


def text_of(path: Path) -> str:
    """The text of a settings file. Raises UnreadableConfigError, OSError."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    _check_size(len(data))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableConfigError("it is no text in UTF-8", line) from error


@contextmanager
def reading(text: str) -> Iterator[None]:
    """Whatever a parser of YAML, JSON or TOML raises over the text inside is an UnreadableConfigError."""
    try:
        _check_size(len(text))
        yield
    except UnreadableConfigError:
        raise
    except (MarkedYAMLError, pyyaml.MarkedYAMLError) as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableConfigError(error.problem or str(error), mark.line + 1 if mark else 0) from error
    except RecursionError as error:
        raise UnreadableConfigError("it is nested too deeply") from error
    except MemoryError as error:
        raise UnreadableConfigError("it needs more memory than there is") from error
    # A tag or a shape that promises what the text is not (`2024-13-45`, `!!int abc`) breaks the parsers.
    except (YAMLError, pyyaml.YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnreadableConfigError(str(error) or type(error).__name__) from error


def parser(typ: Literal["safe", "rt"] = "safe") -> YAML:
    """A parser of YAML 1.2, for use within `reading`: into plain data, or (`rt`) with comments."""
    made = YAML(typ=typ, pure=True)
    made.Parser = _Parser if typ == "safe" else _RoundTripParser
    return made


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise UnreadableConfigError(f"it is larger than {MOST_BYTES / 1e6:g} MB")


class _Counting:
    """A parser that refuses what is too much: each event is counted, an alias as all that it stands for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._values = self._characters = 0
        self._open: list[tuple[str | None, int, int]] = []
        self._anchored: dict[str, tuple[int, int]] = {}

    def get_event(self) -> Any:
        event = super().get_event()  # type: ignore[misc]
        count = getattr(self, f"_{type(event).__name__}", None)
        if count is not None:
            count(event)
            self._check(event)
        return event

    def _AliasEvent(self, event: Any) -> None:  # noqa: N802  the names of the events
        if any(anchor == event.anchor for anchor, *_ in self._open):
            _refuse("it contains itself", event)
        values, characters = self._anchored.get(event.anchor, (1, 0))
        self._values += values
        self._characters += characters

    def _ScalarEvent(self, event: Any) -> None:  # noqa: N802
        size = len(event.value)
        if size > _LONGEST_NUMBER and event.implicit[0] and _DIGITS.fullmatch(event.value):
            _refuse(f"a number of {size} digits", event)
        self._values += 1
        self._characters += size
        if event.anchor:
            self._anchored[event.anchor] = (1, size)

    def _MappingStartEvent(self, event: Any) -> None:  # noqa: N802
        self._open.append((event.anchor, self._values, self._characters))
        self._values += 1

    def _MappingEndEvent(self, event: Any) -> None:  # noqa: N802
        anchor, values, characters = self._open.pop()
        if anchor:
            self._anchored[anchor] = (self._values - values, self._characters - characters)

    _SequenceStartEvent, _SequenceEndEvent = _MappingStartEvent, _MappingEndEvent

    def _check(self, event: Any) -> None:
        if len(self._open) > DEEPEST:
            _refuse(f"it is nested more than {DEEPEST} deep", event)
        if self._values > MOST_VALUES:
            _refuse(f"it has more than {MOST_VALUES} keys and values, aliases written out", event)
        if self._characters > MOST_BYTES:
            _refuse(f"it is larger than {MOST_BYTES / 1e6:g} MB, aliases written out", event)


def _refuse(problem: str, event: Any) -> None:
    raise UnreadableConfigError(problem, event.start_mark.line + 1)


class _Parser(_Counting, Parser):
    pass


class _RoundTripParser(_Counting, RoundTripParser):
    pass


class OlderParser(_Counting, pyyaml.SafeLoader):
    """PyYAML's parser (YAML 1.1), which most trainers use; for use within `reading`."""
