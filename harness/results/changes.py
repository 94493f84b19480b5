"""Which config keys differ from one attempt to the next, read from the attempts' own config files.

Paths into the attempt's folder differ by nature and are not counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness.config.edit import ConfigEditError, leaves
from harness.config.values import changed
from harness.results.types import AttemptRecord

NOT_SET = "(not set)"
_ATTEMPT_PATH = re.compile(r"attempts/\d{2,}")


@dataclass(frozen=True)
class ConfigChange:
    """One key whose value differs."""

    attempt: int  # the attempt that runs with `after`
    key: str
    before: str
    after: str


def config_changes(attempts: tuple[AttemptRecord, ...]) -> tuple[ConfigChange, ...]:
    """All changes, attempt by attempt; an attempt without a readable config is passed over."""
    changes: list[ConfigChange] = []
    before: dict[str, Any] | None = None
    for attempt in attempts:
        after = flat(attempt.config_text)
        if after is None:
            continue
        if before is not None:
            for key, (was, now) in changed(before, after, NOT_SET).items():
                old, new = str(was), str(now)
                if _ATTEMPT_PATH.sub("", old) != _ATTEMPT_PATH.sub("", new):
                    changes.append(ConfigChange(attempt.number, key, old, new))
        before = after
    return tuple(changes)


def flat(text: str | None) -> dict[str, Any] | None:
    """The leaves of a config by dotted key; None when there is none or it cannot be read."""
    if text is None:
        return None
    try:
        return dict(leaves(text))
    except ConfigEditError:
        return None
