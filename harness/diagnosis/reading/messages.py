"""Which lines belong to an exception's message, and which are somebody else's.

In: an exception and a line below it. Out: whether the line goes on with the message, and whether the log
says that the exception was got over.
"""

import re

from harness.diagnosis.reading import carriers, shapes
from harness.diagnosis.reading.faults import Draft
from harness.diagnosis.reading.native import CURRENT_STACK, is_handled, severity
from harness.diagnosis.reading.prefixes import Said, said
from harness.diagnosis.reading.zones import RawLine
from monitors.logs import is_progress_bar
from monitors.metrics import parse_line

MOST_LINES = 12
MOST_OF_A_CARRIER = 200  # what it says before it comes to the root cause
_TOOL = re.compile(r"^(?:wandb|swanlab|srun|slurmstepd|bash|make|\+|\$|root@\S+):? ")
_NOTICES = re.compile(
    r"^(?:\w*Warning: |.*\bNCCL INFO |huggingface/tokenizers: |Token indices sequence length )"
)
_NO_MESSAGES = (
    _TOOL,
    shapes.HANDLED_HEAD,
    shapes.ANNOUNCES,
    shapes.STACK,
    shapes.WARNS,
    CURRENT_STACK,
)
_FAILED = re.compile(r"(?i)fail|error|exception|could ?n[o']t|unable|cannot")
_AFTER_A_BLANK = re.compile(r"\b[45]\d\d (?:Client|Server) Error")


def is_notice(text: str) -> bool:
    """Whether a line only informs or warns, and so belongs to no message."""
    return _NOTICES.match(text) is not None


def is_rule(text: str) -> bool:
    """Whether a line is nothing but a ruler."""
    return re.match(r"^\s*[=\-_*#]{8,}\s*$", text) is not None


def is_progress(text: str) -> bool:
    """Whether a line tells of a training that goes on: a progress bar or a row of metrics."""
    return is_progress_bar(text) or parse_line(text) is not None


def is_full(exception: Draft) -> bool:
    """Whether a message has as many lines as are kept."""
    most = MOST_OF_A_CARRIER if carriers.carries(exception.type, "") else MOST_LINES
    return len(exception.said) >= most


def goes_on_after_a_blank(exception: Draft) -> bool:
    """Whether a message is known to say the more important part below an empty line."""
    return len(exception.said) == 1 and _AFTER_A_BLANK.search(exception.said[0]) is not None


def is_anothers(exception: Draft | None, said: Said, body: str) -> bool:
    """Whether a line below an exception is no part of its message."""
    if body[:1].isspace():
        return False
    return (
        any(pattern.match(body) for pattern in _NO_MESSAGES)
        or is_notice(body)
        or is_handled(body)
        or _fails_too(exception, said)
        or is_progress(body)
    )


def is_got_over(above: RawLine, source: str) -> bool:
    """Whether the log record right above a traceback says that what it prints was got over."""
    record = said(above.text)
    return record.source == source and record.is_record and is_handled(record.text)


def is_warned_of(above: RawLine, source: str) -> bool:
    """Whether the line right above a traceback only warns of a failure."""
    record = said(above.text)
    return record.source == source and record.level == "warning" and bool(_FAILED.search(record.text))


def add(exception: Draft, raw: RawLine, body: str) -> None:
    """Add a line to a message; what torchrun lists above the root cause goes."""
    if carriers.is_root_cause(body):
        del exception.lines[2:], exception.said[2:]
    exception.lines.append(raw.line)
    exception.said.append(body)


def _fails_too(exception: Draft | None, said: Said) -> bool:
    """Whether a line tells a failure of its own: one of the system, or an error right below a message that
    seems complete."""
    if said.is_record:  # all lines of the message stand in log records of one level
        return False
    level = severity(said)
    if level != "error" or exception is None:
        return level == "fatal"
    expects_more = exception.said[-1].rstrip().endswith(":") or goes_on_after_a_blank(exception)
    return len(exception.said) == 1 and not expects_more
