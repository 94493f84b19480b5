"""Searches a log by a regular expression that nobody has vetted.

Python's `re` can backtrack for longer than the universe has existed, in a thread that nothing can stop.
So the search runs in a process of its own with an alarm clock: when its time is up, it says how far it came,
and if it does not even do that, it is killed. In: a log and a pattern. Out: `Found`.
"""

import json
import re
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.excerpts import PrivateKeys, known_secrets
from harness.redaction import redact
from monitors.logs import READ_BYTES, LogReader

BUDGET_S = 10.0
LONGEST_SEARCHED = 2_000  # characters of a line
HEAD_BYTES = 8 << 20  # of a log larger than both together, only its beginning and its end are searched
TAIL_BYTES = 56 << 20
_BLOCK_BYTES = 1 << 20
_PATIENCE_S = 5.0  # for the process to start and to report
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; from harness.agent.looking.log_search import serve_request; "
    "serve_request()"
)


class SearchError(Exception):
    """The log cannot be searched for this; the message says why and what would do."""


@dataclass
class Found:
    """What a search has found so far.

    `lines`: [number, text, whether it matches] of the first matches and the lines around them. `count`:
    matching lines in all. `searched`: lines looked at, and `last` the number of the last one. `skipped`:
    first and last line left out because the log is too large. `complete`: False when the time was up before
    the end.
    `literal`: they were found as plain text. `problem`: why the pattern is no regular expression.
    """

    lines: list[tuple[int, str, bool]] = field(default_factory=list)
    count: int = 0
    searched: int = 0
    last: int = 0
    skipped: list[int] | None = None
    complete: bool = False
    literal: bool = False
    problem: str = ""


def search(log: Path, pattern: str, around: int, most: int, budget_s: float = BUDGET_S) -> Found:
    """The first `most` lines that match, with `around` lines before and after each. A line matches only with
    its secrets masked, but is returned with them.

    A pattern that is no regular expression, or matches nothing as one, is searched for as plain text. Raises
    SearchError.
    """
    request = {"log": str(log), "pattern": pattern, "around": around, "most": most, "budget_s": budget_s}
    command = [sys.executable, "-I", "-c", _START, *filter(None, sys.path)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=budget_s + _PATIENCE_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise SearchError(
            f"the search took more than {budget_s:g} s and was given up; use a simpler pattern, "
            "such as a word of the line you look for"
        ) from error
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SearchError(f"the search broke off ({last}); use a simpler pattern") from error
    found = Found(**json.loads(done.stdout))
    if found.problem and not found.count and found.complete:
        raise SearchError(
            f"`{pattern}` is no regular expression ({found.problem}), and the log does not hold it as plain "
            "text either; put a backslash before characters that are meant as they stand, such as \\( or \\["
        )
    return found


def serve_request() -> None:
    """The search process: a request on standard input, what was found on standard output."""
    request: dict[str, Any] = json.load(sys.stdin)
    found = Found()
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.setitimer(signal.ITIMER_REAL, request.pop("budget_s"))
    try:
        _search(found, Path(request.pop("log")), **request)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeIsUpError:
        found.complete = False
    json.dump(asdict(found), sys.stdout)


class _TimeIsUpError(Exception):
    pass


def _time_is_up(number: int, frame: object) -> None:
    raise _TimeIsUpError


def _search(found: Found, log: Path, pattern: str, around: int, most: int) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _scan(found, log, re.compile(pattern, re.IGNORECASE), around, most)
    except (re.error, OverflowError, RecursionError) as error:
        found.problem = str(error)
    if not found.count and (found.problem or re.escape(pattern) != pattern):
        _scan(found, log, re.compile(re.escape(pattern), re.IGNORECASE), around, most)
        found.literal = found.count > 0
    found.complete = True


def _scan(found: Found, log: Path, regex: re.Pattern[str], around: int, most: int) -> None:
    secrets = known_secrets()
    before: deque[tuple[int, str, bool]] = deque(maxlen=around)
    after = found.searched = found.last = 0
    for number, text in _lines(log):
        if number > found.last + 1:
            found.skipped = [found.last + 1, number - 1]
            before.clear()
            after = 0
        hit = bool(regex.search(text) and regex.search(redact(text, secrets)))
        found.count += hit
        if hit and found.count <= most:
            found.lines += [*before, (number, text, True)]
            before.clear()
            after = around
        elif after:
            found.lines.append((number, text, hit))
            after -= 1
        elif found.count < most:
            before.append((number, text, False))
        found.searched += 1
        found.last = number


def _lines(log: Path) -> Iterator[tuple[int, str]]:
    """The lines of a log, of a large one those at its beginning and its end."""
    reader, keys = LogReader(log), PrivateKeys()
    size, read = log.stat().st_size, 0
    tail = _line_after(log, size - TAIL_BYTES) if size > HEAD_BYTES + TAIL_BYTES else None
    while True:
        for line in reader.read(final=True):
            yield line.number, keys.mask(line.text[:LONGEST_SEARCHED])
        read += READ_BYTES
        if reader.at_end:
            return
        if tail is not None and read >= HEAD_BYTES:
            reader, keys = LogReader(log), PrivateKeys()
            reader.start_at(*tail)
            tail = None


def _line_after(log: Path, offset: int) -> tuple[int, int]:
    """Where the first line behind this byte begins, and how many lines come before it."""
    passed, position = 0, 0
    with log.open("rb") as file:
        while position < offset and (block := file.read(min(_BLOCK_BYTES, offset - position))):
            passed += block.count(b"\n")
            position += len(block)
        rest = file.readline()
    return position + len(rest), passed + 1


def blocks(lines: Iterable[tuple[int, str, bool]]) -> list[list[tuple[int, str, bool]]]:
    """The lines, grouped where their numbers follow each other."""
    grouped: list[list[tuple[int, str, bool]]] = []
    for line in lines:
        if grouped and grouped[-1][-1][0] == line[0] - 1:
            grouped[-1].append(line)
        else:
            grouped.append([line])
    return grouped
