"""Searches a log by a regular expression that comes from a model.

Python's `re` can backtrack for longer than the universe has existed, in a thread that nothing can stop. So
the search runs in a process of its own, which is killed when its time is up. In: a log and a pattern.
Out: `Found`.
"""

import json
import re
import subprocess
import sys
import warnings
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from harness.agent.excerpts import NotShownError, PrivateKeys, lines_of
from harness.environment import known_secrets
from harness.redaction import redact
from monitors.logs import LogReader

BUDGET_S = 15.0
LONGEST_SEARCHED = 2_000  # characters of a line
TAIL_BYTES = 64 << 20  # of a larger log, only its end is searched
_BLOCK_BYTES = 1 << 20
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; from harness.agent.log_search import serve_request; "
    "serve_request()"
)


@dataclass
class Found:
    """What a search has found.

    `lines`: [number, text, True if it matches] of the first matches and the lines around them. `count`:
    matching lines in all. `searched`: lines looked at, `skipped` those before them in a log that is too
    large. `literal`: they were found as plain text. `problem`: why the pattern is no regular expression.
    """

    lines: list[tuple[int, str, bool]] = field(default_factory=list)
    count: int = 0
    searched: int = 0
    skipped: int = 0
    literal: bool = False
    problem: str = ""


def search(log: Path, pattern: str, around: int, most: int) -> Found:
    """The first `most` lines that match, with `around` lines before and after each. A line matches only with
    its secrets masked, but is returned with them.

    A pattern that is no regular expression, or matches nothing as one, is searched for as plain text. Raises
    NotShownError.
    """
    request = json.dumps([str(log), pattern, around, most]).encode()
    command = [sys.executable, "-I", "-c", _START, *filter(None, sys.path)]
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=BUDGET_S, check=True)
    except subprocess.TimeoutExpired:
        why = f"the search took more than {BUDGET_S:g} s and was given up"
        hint = "use a simpler pattern, such as a word of the line you look for, or read_pane for the end"
        raise NotShownError(f"{why}; {hint}") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotShownError(f"the search broke off ({last}); use a simpler pattern") from error
    found = Found(**json.loads(done.stdout))
    if found.problem and not found.count:
        raise NotShownError(
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
    return "; ".join(parts)


def serve_request() -> None:
    """The search process: a request on standard input, what was found on standard output."""
    log, *asked = json.load(sys.stdin)
    warnings.simplefilter("ignore")  # what Python thinks of the pattern
    json.dump(asdict(search_here(Path(log), *asked)), sys.stdout)


def search_here(log: Path, pattern: str, around: int, most: int) -> Found:
    """The search itself, without protection."""
    found = Found()
    try:
        found = _scan(log, re.compile(pattern, re.IGNORECASE), around, most)
    except (re.error, OverflowError, RecursionError) as error:
        found.problem = str(error)
    if found.count or (not found.problem and re.escape(pattern) == pattern):
        return found
    plain = _scan(log, re.compile(re.escape(pattern), re.IGNORECASE), around, most)
    return replace(plain, literal=plain.count > 0, problem=found.problem)


def _scan(log: Path, regex: re.Pattern[str], around: int, most: int) -> Found:
    reader, keys, secrets = LogReader(log), PrivateKeys(), known_secrets(log.parents[2])
    offset, skipped = _tail(log)
    reader.start_at(offset, skipped)
    found = Found(skipped=skipped)
    before: deque[tuple[int, str, bool]] = deque(maxlen=around)
    after = 0
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
    return found


def _tail(log: Path) -> tuple[int, int]:
    """Where the search begins, and how many lines stand before that."""
    start = log.stat().st_size - TAIL_BYTES
    if start <= 0:
        return 0, 0
    passed = 0
    with log.open("rb") as file:
        while file.tell() < start and (block := file.read(min(_BLOCK_BYTES, start - file.tell()))):
            passed += block.count(b"\n")
        file.readline()
        return file.tell(), passed + 1
