"""Searches a log by a regular expression that comes from a model.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.excerpts import PrivateKeys, known_secrets, lines_of
from harness.redaction import redact
from monitors.logs import LogReader

BUDGET_S = 10.0
LONGEST_SEARCHED = 2_000  # characters of a line
TAIL_BYTES = 64 << 20  # of a larger log, only its end is searched
_BLOCK_BYTES = 1 << 20
_PATIENCE_S = 5.0  # for the process to start and to report
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; from harness.agent.log_search import serve_request; "
    "serve_request()"
)


class SearchError(Exception):
    """The log cannot be searched for this; the message says why and what would do."""


@dataclass
class Found:
    """What a search has found so far.

    `lines`: [number, text, True if it matches] of the first matches and the lines around them. `count`:
    matching lines in all. `searched`: lines looked at, `last` the number of the last one, `skipped` those
    before them in a log that is too large. `complete`: False when the time was up before the end. `literal`:
    they were found as plain text. `problem`: why the pattern is no regular expression.
    """

    lines: list[tuple[int, str, bool]] = field(default_factory=list)
    count: int = 0
    searched: int = 0
    last: int = 0
    skipped: int = 0
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
    given, patience_s = json.dumps(request).encode(), budget_s + _PATIENCE_S
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=patience_s, check=True)
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


def title(found: Found, most: int, name: str) -> str:
    """How much was searched and found, and what was not."""
    parts = [f"{found.count} of {found.searched} lines of {name} match"]
    if found.count > most:
        parts.append(f"the first {most} are shown")
    if found.literal:
        parts.append("found as plain text, not as a regular expression")
    if found.skipped:
        parts.append(f"lines 1 to {found.skipped} were not searched, because the log is too large")
    if not found.complete:
        parts.append(
            f"the time was up at line {found.last + 1}, and the rest was not searched: use a simpler "
            "pattern, or read_pane for the end"
        )
    return "; ".join(parts)


def serve_request() -> None:
    """The search process: a request on standard input, what was found on standard output."""
    request: dict[str, Any] = json.load(sys.stdin)
    found = Found()
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.setitimer(signal.ITIMER_REAL, request.pop("budget_s"))
    try:
        search_here(found, Path(request.pop("log")), **request)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeIsUpError:
        found.complete = False
    json.dump(asdict(found), sys.stdout)


class _TimeIsUpError(Exception):
    pass


def _time_is_up(number: int, frame: object) -> None:
    raise _TimeIsUpError


def search_here(found: Found, log: Path, pattern: str, around: int, most: int) -> None:
    """The search itself, without protection; `found` is filled as it goes on."""
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
    reader, keys, secrets = LogReader(log), PrivateKeys(), known_secrets()
    offset, found.skipped = _tail(log)
    reader.start_at(offset, found.skipped)
    before: deque[tuple[int, str, bool]] = deque(maxlen=around)
    after = found.searched = found.last = 0
    for line in lines_of(reader):
        text = keys.mask(line.text[:LONGEST_SEARCHED])
        hit = bool(regex.search(text) and regex.search(redact(text, secrets)))
        found.count += hit
        if hit and found.count <= most:
            found.lines += [*before, (line.number, text, True)]
            before.clear()
            after = around
        elif after:
            found.lines.append((line.number, text, hit))
            after -= 1
        elif found.count < most:
            before.append((line.number, text, False))
        found.searched += 1
        found.last = line.number


def _tail(log: Path) -> tuple[int, int]:
    """Where the search begins, and how many lines stand before that."""
    start = log.stat().st_size - TAIL_BYTES
    if start <= 0:
        return 0, 0
    passed, position = 0, 0
    with log.open("rb") as file:
        while position < start and (block := file.read(min(_BLOCK_BYTES, start - position))):
            passed += block.count(b"\n")
            position += len(block)
        return position + len(file.readline()), passed + 1
