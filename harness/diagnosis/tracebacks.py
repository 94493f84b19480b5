"""Python tracebacks in a log: blocks, chains, and the exception at the root of a chain.

In: numbered lines (ANSI already removed). Out: `Traceback` blocks. In a chain ("During handling of …",
"The above exception was …") Python prints the earliest exception first: that one is the root.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

LONGEST = 2000  # characters of a line that are looked at
START = "Traceback (most recent call last):"
_CHAIN = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_RAY_PREFIX = re.compile(r"^\s*\([^()]*pid=\d+[^()]*\)\s?")
_EXCEPTION = re.compile(
    r"^[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning|Timeout|[A-Z]\w*)?(\[[^\]]*\])?(: .*|:)?$"
)


@dataclass(frozen=True)
class Traceback:
    """One block: `line` is where its exception line stands, `exception` that line's text, `frames` the
    `File …` lines."""

    line: int
    exception: str
    frames: tuple[tuple[int, str], ...]
    continues_chain: bool


def without_ray_prefix(text: str) -> str:
    """`(WorkerDict pid=12, ip=…) text` → `text`."""
    return _RAY_PREFIX.sub("", text)


def find(lines: Iterable[tuple[int, str]]) -> list[Traceback]:
    """All traceback blocks, in the order of the log; an unfinished block (a killed process) is left out."""
    found: list[Traceback] = []
    frames: list[tuple[int, str]] | None = None
    chained = False
    for number, raw in lines:
        text = without_ray_prefix(raw[:LONGEST]).rstrip()
        if text.lstrip().endswith(START):
            frames = []
        elif frames is None:
            chained = chained or bool(_CHAIN.search(text))
        elif text.lstrip().startswith('File "'):
            frames.append((number, text.strip()))
        elif text and not text[0].isspace() and frames and _EXCEPTION.match(text):
            found.append(Traceback(number, text, tuple(frames), chained))
            frames, chained = None, False
    return found


def root(blocks: list[Traceback]) -> Traceback | None:
    """The root of the last chain in the log, or None when there is no traceback."""
    for index in range(len(blocks) - 1, -1, -1):
        if not blocks[index].continues_chain:
            return blocks[index]
    return blocks[0] if blocks else None
