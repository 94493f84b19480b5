"""What to change in a program, by what its exception says (`code_changes.yaml`)."""

import re
from functools import cache
from pathlib import Path

import yaml

from harness.attempt import Remedy
from harness.installation import own_text
from harness.repair.remedies.situation import Situation
from harness.wording import filled


def change_of(now: Situation) -> Remedy | None:
    """The change that puts it right, None where the message leaves that open."""
    said = now.captured("message")
    found = ((row["advise"], match) for row in _table() if said and (match := re.search(row["says"], said)))
    advice, match = next(found, ("", None))
    if match is None:
        return None
    return Remedy("advise", "advice", filled(advice, now.values | match.groupdict()), "")


@cache
def _table() -> list[dict[str, str]]:
    """The rows of `code_changes.yaml`."""
    text = own_text(Path(__file__).with_name("code_changes.yaml"))
    return list(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
