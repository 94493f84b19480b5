"""What to change in a program, by what its exception says (`code_changes.yaml`)."""

import re
from pathlib import Path

from harness.attempt import Remedy
from harness.installation import own_table
from harness.repair.remedies.situation import Situation
from harness.wording import filled

_TABLE = Path(__file__).with_name("code_changes.yaml")


def change_of(now: Situation) -> Remedy | None:
    """The change that puts it right, None where the message leaves that open."""
    said, rows = now.captured("message"), own_table(_TABLE)
    found = ((row["advise"], match) for row in rows if said and (match := re.search(row["says"], said)))
    advice, match = next(found, ("", None))
    if match is None:
        return None
    return Remedy.advice(filled(advice, now.values | match.groupdict()))
