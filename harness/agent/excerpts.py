"""Text that a policy is shown: control characters gone, secrets masked, lines numbered, size bounded.

In: lines of files that anybody may have written. Out: at most LONGEST_TEXT characters. Masking comes
before cutting, and over whole lines, so that no cut can leave half a secret standing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.environment import known_secrets
from harness.redaction import MASK, Secrets, redact
from monitors.logs import Line, LogReader, clean

if TYPE_CHECKING:  # a search starts a process that imports this
    from harness.actions import ReadFile, ReadInstalled
    from harness.experiment import Experiment

LONGEST_TEXT = 8_000
LONGEST_LINE = 1_000
LONGEST_KEY_LINES = 200
_LONGEST_TITLE = 400
_ROOM_FOR_GAP = 160
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_ENDS = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")


class NotShownError(Exception):
    """This cannot be shown; the message says why and what would do."""


class PrivateKeys:
    """Masks the lines of private keys as they pass by, one line for one, so that line numbers stay true."""

    def __init__(self) -> None:
        self._left = 0

    def mask(self, text: str) -> str:
        """The line, masked if it belongs to a key. A key without an end is over after LONGEST_KEY_LINES."""
        begins = _KEY_BEGINS.search(text) if "-----BEGIN" in text else None
        inside, ends = self._left > 0, _KEY_ENDS.search(text) if "-----END" in text else None
        if begins is not None and (ends is None or ends.start() < begins.start()):
            self._left = LONGEST_KEY_LINES
        elif ends is not None:
            self._left = 0
        elif inside:
            self._left -= 1
        if inside:
            return MASK
        return text[: begins.start()] + MASK if begins is not None else text


def masked(lines: Iterable[str], known: Secrets | None = None) -> list[str]:
    """The lines as they may be shown, as many as there were: cleaned first, so that no invisible character
    keeps a secret from being recognised, then masked. `known`: by default those of our own environment."""
    keys, known = PrivateKeys(), known_secrets() if known is None else known
    return redact("\n".join(keys.mask(plain(line)) for line in lines), known).split("\n")


def plain(text: str) -> str:
    """One line without characters that do anything but print: escapes, controls, invisible marks."""
    if text.isprintable():
        return text
    text = clean(text.encode("utf-8", errors="replace"))
    return "".join(
        char if char.isprintable() or char == "\t" else " " if char.isspace() else "" for char in text
    )


def of_text(text: str, known: Secrets | None = None) -> list[str]:
    """The lines of a text, ready to be shown."""
    return masked(text.rstrip("\n").split("\n"), known)


def of_file(path: Path, first: int, count: int, known: Secrets | None = None) -> tuple[list[str], int]:
    """Up to `count` lines of a text file from line `first` on, ready to be shown, and how many it has in all.

    Lines before them are masked with them, because they may say that these are a secret.
    """
    start, total = max(1, first - LONGEST_KEY_LINES), 0
    lines: list[str] = []
    for line in lines_of(LogReader(path)):
        total = line.number
        if start <= total < first + count:
            lines.append(line.text)
    return masked(lines, known)[first - start :] if lines else [], total


def lines_of(reader: LogReader) -> Iterator[Line]:
    """All that the reader has not read yet."""
    while True:
        yield from reader.read(final=True)
        if reader.at_end:
            return


def numbered(lines: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The lines with their numbers before them."""
    width = len(str(numbers[-1])) if numbers else 0
    return [f"{number:>{width}}| {line}" for number, line in zip(numbers, lines, strict=False)]


def fitted(
    title: str, lines: Sequence[str], hint: Callable[[int], str] = lambda index: "", head: float = 0.5
) -> str:
    """Title and lines as one text of at most LONGEST_TEXT characters.

    Where that is too much, `head` of the room goes to the first lines and the rest to the last ones; between
    them stands how many are left out, and `hint(index)`: how to see them from that one on.
    """
    title = cut(title, _LONGEST_TITLE)
    lines = [cut(line, LONGEST_LINE) for line in lines]
    room = LONGEST_TEXT - len(title) - 1
    if sum(len(line) + 1 for line in lines) > room:
        room -= _ROOM_FOR_GAP
        first = _how_many_fit(lines, room * head)
        last = _how_many_fit(lines[:first:-1], room * (1 - head))
        left_out = f"{len(lines) - first - last} lines left out"
        gap = f"… {': '.join(filter(None, (left_out, hint(first))))} …"
        lines = [*lines[:first], cut(gap, _ROOM_FOR_GAP - 1), *lines[len(lines) - last :]]
    return "\n".join([title, *lines] if title else lines)


def part_of_file(path: Path, name: str, asked: "ReadFile | ReadInstalled", run: "Experiment") -> str:
    """Those lines of a text file that are asked for with a title, as `fitted` text. `name`: how the file is
    called. Raises NotShownError."""
    first = asked.first_line
    lines, total = of_file(path, first, asked.lines, known_secrets(run.dir))
    if not lines:
        raise NotShownError(f"{name} has {total} lines, so nothing stands at line {first}")
    last = first + len(lines) - 1
    more = f"; for more ask with first_line={last + 1}" if last < total else ""
    shown = numbered(lines, range(first, last + 1))
    title = f"{name}, lines {first} to {last} of {total}{more}"
    return fitted(title, shown, lambda index: f"ask with first_line={first + index}")


def cut(text: str, longest: int) -> str:
    """The text, or its beginning with the number of characters that are missing."""
    if len(text) <= longest:
        return text
    room = longest - 40
    return f"{text[:room]} …[{len(text) - room} characters cut]"


def _how_many_fit(lines: Sequence[str], room: float) -> int:
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return count
    return len(lines)
