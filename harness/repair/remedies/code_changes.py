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
    said, code = now.captured("message"), now.captured("code")
    for row in own_table(_TABLE) if said else ():
        match = re.search(row["says"], said)
        if match is not None and ("in_code" not in row or match[row["in_code"]] in code):
            return Remedy.advice(filled(row["advise"], now.values | match.groupdict()))
    return None
