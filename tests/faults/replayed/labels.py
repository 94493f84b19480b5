"""Labels of logs (`index.jsonl`), and how a diagnosis is held against one.

Where a label has no `root`, the line that tells the cause is taken to be the last one of the log that names
an exception (else the last that speaks of an error), and it is found if a line of the evidence shares at
least half of its words.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.diagnosis.types import NOTHING_FAILED, UNKNOWN, Diagnosis, Evidence

CONFIDENT = 0.5
SHARED = 0.5
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
EXCEPTION = re.compile(r"\b\w*(?:Error|Exception|Interrupt|Timeout|Exit)\b\s*(?::|$|\()")
TROUBLE = re.compile(
    r"error|exception|fail|kill|fatal|abort|abnormal|\bnan\b|\binf\b|cannot|could not|unable", re.IGNORECASE
)
ADVICE = "HYDRA_FULL_ERROR"
WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class Label:
    """What is known of a log. `others`: families that are right, too. `roots`: texts of lines that tell the
    cause, any of which will do; none where the label names no line. `status`: what the command returned,
    where that is known."""

    log: Path
    family: str
    roots: tuple[str, ...] = ()
    healthy: bool = False
    source: str = ""
    others: tuple[str, ...] = ()
    status: int | None = None

    @property
    def needs_root(self) -> bool:
        """True if some line of the evidence must be the root's: a log without a cause in it has none."""
        return not self.healthy and (bool(self.roots) or self.family != UNKNOWN)


@dataclass(frozen=True)
class Verdict:
    """How a diagnosis did. `root`: None where there is no root line to be found; `invented`: lines of the
    evidence that do not stand at their numbers; `acts`: it is sure enough for something to be changed."""

    label: Label
    said: str
    signature: str | None
    confidence: float
    right: bool
    root: bool | None
    invented: int
    cause: str = ""
    acts: bool = False

    @property
    def confidently_wrong(self) -> bool:
        return not self.right and self.confidence >= CONFIDENT

    @property
    def wrong_and_acts(self) -> bool:
        return not self.right and self.acts


def read_labels(folder: Path) -> list[Label]:
    """Read a folder's `index.jsonl`.

    Raises:
        ValueError: an entry has no `file` or `family`, or its log is not there.
    """
    index = folder / "index.jsonl"
    labels = []
    for number, line in enumerate(index.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        entry = json.loads(line)
        healthy = bool(entry.get("healthy", False))
        log = folder / str(entry.get("file", ""))
        if not log.is_file():
            raise ValueError(f"{index}:{number}: `file` names no log in {folder}: {entry.get('file')!r}")
        if "family" not in entry and not healthy:
            raise ValueError(f'{index}:{number}: {log.name} has no `family`; add one, or "healthy": true')
        root = entry.get("root") or []
        roots = (root,) if isinstance(root, str) else tuple(root)
        named = entry.get("family") or UNKNOWN
        family, *others = [named] if isinstance(named, str) else named
        source = str(entry.get("source", ""))
        status = entry.get("status")
        labels.append(Label(log, family, roots, healthy, source, tuple(others), status))
    return labels


def judge(label: Label, found: Diagnosis, content: bytes) -> Verdict:
    """Hold a diagnosis of `content` (the label's log, or that log inside another) against its label."""
    lines = content.split(b"\n")
    root = None
    if label.needs_root:
        root = any(tells(item.text, label) for item in found.evidence)
    return Verdict(
        label,
        found.family,
        found.signature,
        found.confidence,
        found.family in (label.family, *label.others) or (label.healthy and found.family == NOTHING_FAILED),
        root,
        sum(not stands(item, lines) for item in found.evidence),
        found.cause,
        found.is_sure,
    )


def guessed_root(log: bytes) -> str:
    """Return the last line that names an exception, else the last one that speaks of trouble."""
    lines = [ESCAPES.sub("", line) for line in log.decode(errors="replace").splitlines()]
    for pattern in (EXCEPTION, TROUBLE):
        for line in reversed(lines):
            if pattern.search(line) and ADVICE not in line:
                return line
    return lines[-1] if lines else ""


def tells(line: str, label: Label) -> bool:
    """True if a line holds a root's text or, where there is none, enough words of the guessed one."""
    if label.roots:
        return any(squeezed(root) in squeezed(line) for root in label.roots)
    wanted = set(WORD.findall(guessed_root(label.log.read_bytes()).lower()))
    return bool(wanted) and len(wanted & set(WORD.findall(line.lower()))) >= SHARED * len(wanted)


def stands(item: Evidence, lines: Sequence[bytes]) -> bool:
    """True if the text of a piece of evidence is found at its number, colours and spacing aside."""
    if not 1 <= item.line <= len(lines):
        return False
    text = squeezed(item.text.partition("…")[0])
    return bool(text) and text in squeezed(lines[item.line - 1].decode(errors="replace"))


def squeezed(text: str) -> str:
    """Return letters, digits and marks alone."""
    return "".join(ESCAPES.sub("", text).split())


def lines_of(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a line for each diagnosis that was wrong or missed the root line."""
    for verdict in verdicts:
        missed = verdict.root is False
        if verdict.right and not missed:
            continue
        expected = "healthy" if verdict.label.healthy else verdict.label.family
        said = f"{verdict.said} ({verdict.signature}, {verdict.confidence:.2f})"
        yield (
            f"{verdict.label.log.name}: {expected}; said {said}"
            f"{', root line not shown' if missed else ''}: {verdict.cause[:110]}"
        )
