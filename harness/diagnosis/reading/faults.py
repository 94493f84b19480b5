"""Collects faults with bounds, in the order of their lines.

Of faults of the same shape the first EACH_KIND and the last are kept, with the count of all. Of more than
MOST_FAULTS, those that ended a process stay before other exceptions, then fatal lines, errors and the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.diagnosis.reading.context_windows import RawLine, Tally
from harness.diagnosis.reading.severity import is_handled, is_over, severity
from harness.diagnosis.reading.traceback_lines import HANDLED_HEAD
from harness.diagnosis.types import FAULTS, Fault, Frame, Level
from monitors.log_prefixes import said
from monitors.logs import Line, is_progress_bar

EACH_KIND = 3
MOST_FAULTS = 300
MOST_DRAFTS = 3000
AROUND = 8  # lines that are kept before and after
MOST_FRAMES = 60  # the outer and the inner half of a longer traceback
LINES_THAT_MAY_SAY_HANDLED = 2


@dataclass
class Draft:
    """A fault that is still being read. `heralded`: only the line above it, which warns, tells that it may
    have been got over."""

    raw: RawLine
    lines: list[Line]
    said: list[str]
    source: str = ""
    type: str = ""
    level: Level = "error"
    frames: list[Frame] = field(default_factory=list)
    wrapped_in: list[str] = field(default_factory=list)
    handled: bool = False
    heralded: bool = False
    uncaught: bool = False
    before: tuple[RawLine, ...] = ()
    after: list[Line] = field(default_factory=list)
    chain: int = 0
    depth: int = 0
    end_of_chain: Draft | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """What faults of a kind share."""
        inner = self.frames[-1] if self.frames else None
        return self.raw.shape, self.type, (inner.path, inner.function) if inner else None, self.depth

    @property
    def rank(self) -> int:
        """How severe it is: 0 first."""
        if self.handled:
            return 4
        if self.type:
            return 0 if self.uncaught else 1
        return {"fatal": 1, "error": 2}.get(self.level, 3)

    def fault(self, count: int, last: int) -> Fault:
        """The finished fault."""
        saying = [each for each in self.before if each.text and not is_progress_bar(each.text)]
        half = MOST_FRAMES // 2
        del self.frames[half : max(half, len(self.frames) - half)]
        return Fault(
            tuple(self.lines),
            tuple(self.said),
            self.type,
            tuple(self.frames),
            self.level,
            self.source,
            self.chain,
            self.depth,
            tuple(dict.fromkeys(self.wrapped_in)),
            (self.handled and not self._is_the_last_word()) or self._was_got_over(),
            self.uncaught,
            tuple(each.line for each in saying[-AROUND:]),
            tuple(self.after[:AROUND]),
            count,
            last,
        )

    def _is_the_last_word(self) -> bool:
        """True if there is nothing more of its process but what others say of its end: whatever the line
        above it speaks of, nobody got over it."""
        after = (self.end_of_chain or self).after
        if not after:
            return self.uncaught or self.heralded
        return self.uncaught and severity(said(after[0].text)) in FAULTS

    def _was_got_over(self) -> bool:
        """True if the same process says right below that it went on; a log record of its own may be about
        anything."""
        next_lines = (said(line.text) for line in self.after[:LINES_THAT_MAY_SAY_HANDLED])
        own = [each.text for each in next_lines if each.source == self.source and not each.is_record]
        own += [] if self.type else self.said[1 : 1 + LINES_THAT_MAY_SAY_HANDLED]
        own = [text for text in own if not HANDLED_HEAD.match(text)]  # of what follows, not of this
        if any(map(is_over, own)):
            return True
        return bool(self.type) and not self.uncaught and any(map(is_handled, own))


@dataclass
class _Kind:
    first: list[Draft] = field(default_factory=list)
    latest: Draft | None = None
    count: int = 0


class Collection:
    """The faults found so far."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self._seen: set[int] = set()
        self._kept = 0

    def add(self, draft: Draft) -> None:
        """Keep a fault, or count it where enough of its kind are kept. Lines may be read twice, and be one
        fault still."""
        numbers = {draft.raw.number, *(frame.line for frame in draft.frames)}
        if draft.raw.number in self._seen or (not draft.type and not numbers.isdisjoint(self._seen)):
            return
        self._seen |= numbers
        kind = self._kinds.setdefault(draft.kind, _Kind())
        kind.count += 1
        if len(kind.first) < EACH_KIND:
            kind.first.append(draft)
            self._kept += 1
            if self._kept > MOST_DRAFTS:
                self._drop_the_mildest()
        elif kind.latest is None or draft.raw.number > kind.latest.raw.number:
            kind.latest = draft

    def faults(self, tallies: Mapping[bytes, Tally]) -> tuple[Fault, ...]:
        """What is kept, in the order of the lines; `tallies` count lines that were not read closely."""
        kinds = self._kinds.values()
        drafts = [(draft, kind) for kind in kinds for draft in (*kind.first, kind.latest) if draft]
        drafts.sort(key=lambda pair: (pair[0].rank, pair[0].raw.number))
        kept = sorted(drafts[:MOST_FAULTS], key=lambda pair: pair[0].raw.number)
        faults = []
        for draft, kind in kept:
            newest, tally = kind.latest or kind.first[-1], tallies.get(draft.raw.shape, Tally())
            faults.append(draft.fault(max(kind.count, tally.hits), max(newest.raw.number, tally.last)))
        return _chains_in_order(faults)

    def _drop_the_mildest(self) -> None:
        """Halve what is kept, so that memory stays bounded."""
        firsts = {key: kind.first[0] for key, kind in self._kinds.items()}
        ranked = sorted(firsts, key=lambda key: (firsts[key].rank, firsts[key].raw.number))
        self._kinds = {key: self._kinds[key] for key in ranked[: len(ranked) // 2]}
        self._kept = sum(len(kind.first) for kind in self._kinds.values())


def _chains_in_order(faults: list[Fault]) -> tuple[Fault, ...]:
    """Number chains in the order of the log; one of which only one member is left is none."""
    members = Counter(fault.chain for fault in faults if fault.chain)
    chains = [chain for chain, count in members.items() if count > 1]
    numbers = dict(zip(chains, range(1, len(chains) + 1), strict=True))
    return tuple(replace(fault, chain=numbers.get(fault.chain, 0)) for fault in faults)
