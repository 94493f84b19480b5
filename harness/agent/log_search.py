"""Searches a log, or source code, by a regular expression that comes from a model.

Python's `re` can backtrack for longer than the universe has existed, in a thread that nothing can stop. So
the search runs in a process of its own, which is killed when its time is up. In: files and a pattern.
Out: `Found`, one of each file.
"""

import json
import re
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from harness.agent.excerpts import NotShownError, PrivateKeys, lines_of, masked, numbered
from harness.environment import known_secrets
from harness.redaction import Secrets, redact
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


def search(files: Sequence[Path], pattern: str, around: int, most: int, result_dir: Path) -> list[Found]:
    """In each file the first lines that match, `most` in all, with `around` lines before and after each. A
    line matches only with its secrets (and those of the run in `result_dir`) masked, but is returned with
    them.

    A pattern that is no regular expression, or matches nothing as one, is searched for as plain text. Raises
    NotShownError.
    """
    request = json.dumps([[*map(str, files)], pattern, around, most, str(result_dir)]).encode()
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
    found = [Found(**each) for each in json.loads(done.stdout)]
    if found and found[0].problem and not any(each.count for each in found):
        raise NotShownError(
            f"`{pattern}` is no regular expression ({found[0].problem}), and as plain text it does not stand "
            "there either; put a backslash before characters that are meant as they stand, such as \\( or \\["
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


def shown(found: Found, known: Secrets) -> list[str]:
    """What was found, ready to be shown: numbered lines, `>` before those that match, `--` between places."""
    numbers = [number for number, _, _ in found.lines]
    lines = numbered(masked((text for _, text, _ in found.lines), known), numbers)
    told: list[str] = []
    for place, (number, _, hit) in enumerate(found.lines):
        if place and number != numbers[place - 1] + 1:
            told.append("--")
        told.append(f"{'>' if hit else ' '} {lines[place]}")
    return told


def serve_request() -> None:
    """The search process: a request on standard input, what was found on standard output."""
    files, pattern, around, most, result_dir = json.load(sys.stdin)
    warnings.simplefilter("ignore")  # what Python thinks of the pattern
    found = search_here([*map(Path, files)], pattern, around, most, Path(result_dir))
    json.dump([asdict(each) for each in found], sys.stdout)


def search_here(files: Sequence[Path], pattern: str, around: int, most: int, result_dir: Path) -> list[Found]:
    """The search itself, without protection."""
    secrets, problem = known_secrets(result_dir), ""
    try:
        found = _scan_all(files, re.compile(pattern, re.IGNORECASE), around, most, secrets)
        if any(each.count for each in found) or re.escape(pattern) == pattern:
            return found
    except (re.error, OverflowError, RecursionError) as error:
        problem = str(error)
    found = _scan_all(files, re.compile(re.escape(pattern), re.IGNORECASE), around, most, secrets)
    return [replace(each, literal=each.count > 0, problem=problem) for each in found]


def _scan_all(
    files: Sequence[Path], regex: re.Pattern[str], around: int, most: int, secrets: Secrets
) -> list[Found]:
    found: list[Found] = []
    for file in files:
        found.append(_scan(file, regex, around, most, secrets))
        most = max(0, most - found[-1].count)
    return found


def _scan(log: Path, regex: re.Pattern[str], around: int, most: int, secrets: Secrets) -> Found:
    reader, keys = LogReader(log), PrivateKeys()
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
