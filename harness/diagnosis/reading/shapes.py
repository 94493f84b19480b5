"""How the lines of a traceback look. In: a line's text without prefixes. Out: what it is."""

import re

FRAME = re.compile(
    r'^(?P<lead>[\s>]*)File ["“](?P<path>[^"”\n]+)["”], line (?P<number>\d+)(?:,? in (?P<function>.+))?$'
)
RICH_FRAME = re.compile(
    r"^(?P<path>(?:/|\.|[A-Za-z]:|<)?[^\s:]*?[\w>]):(?P<number>\d+) in (?P<function>\S.*)$"
)
RICH_CODE = re.compile(r"^❱\s*\d+\s(?P<code>.*)$")
RICH_BOX = re.compile(r"^\s*[╭│╰][\s─]?")
MARKS = re.compile(r"^[\s|]*[\^~][\s^~|]*$")
REPEATED = re.compile(r"^\s*\[Previous line repeated \d+ more times?\]")
LEFT_OUT = re.compile(r"^\s*(?:\[?\.\.\.\]?|…|<\.\.\.>|\(\.\.\.\))\s*(?:\[.*\]|<.*>)?\s*$")
CHAIN = re.compile(
    r"^\s*(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception)"
)
STACK = re.compile(r"^(?:Call stack:|Stack \(most recent call last\):)\s*$")
GROUP_BOX = re.compile(r"^(?P<indent>\s*)\|(?: (?P<rest>.*))?$")
GROUP_HEADER = re.compile(
    r"^(?P<indent>\s*)(?:\||\+)? ?\+ Exception Group Traceback \(most recent call last\):\s*$"
)
GROUP_RULE = re.compile(r"^(?P<indent>\s*)\+(?P<opens>-\+)?-{4,}(?: (?P<index>\d+|\.\.\.) -{4,})?-*\s*$")
HANDLED_HEAD = re.compile(
    r"^(?:Exception ignored (?:in|on|while)|Error in atexit|Error in sys\.excepthook|--- Logging error ---)"
)

ANNOUNCES = re.compile(
    r"^(?:Exception in thread \S.*:|Process [\w-]+(?::\d+)*:|Task exception was never retrieved|future: <)\s*"
)
WARNS = re.compile(r"^\S+:\d+: \w*Warning: ")

_NAME = r"(?:[A-Za-z_]\w*\.)*(?:<locals>\.|\w+\.<locals>\.)*(?P<short>[A-Za-z_]\w*)"
EXCEPTION = re.compile(rf"^(?P<type>{_NAME}(?:\([\w. ]*\)|\[[\w., ]*\])?)(?P<rest>:(?:\s.*)?)?$")
_KINDS = (
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Fault|Iteration|Died|Crash(?:ed)?|NotFound|Unavailable"
    r"|RemoteTraceback|Exceeded|Refused|Denied|Reset|Aborted|Cancelled|Canceled|Group|Violation|Mismatch)"
)
_SURE = re.compile(rf"(?:{_KINDS}\d*$)|^(?:error|timeout|gaierror|herror|Empty|Full)$")
_WITHOUT_TEXT = re.compile(
    r"^(?:KeyboardInterrupt|SystemExit|MemoryError|AssertionError|StopIteration|NotImplementedError|Exception"
    r"|RecursionError|TimeoutError|EOFError|GeneratorExit|BrokenPipeError|CancelledError|RuntimeError)$"
)
_WARNING = re.compile(r"Warning$")


def exception_type(text: str, after_frames: bool = False, at_once: bool = False) -> str | None:
    """The type that an exception's line names, or None where the line is none.

    `after_frames`: frames came before it, so that any class may stand here; `at_once`: directly before it.
    """
    found = EXCEPTION.match(text)
    if found is None or _WARNING.search(found["short"]):
        return found["type"] if found and after_frames and at_once else None
    short, type, told = found["short"], found["type"], (found["rest"] or "")[1:].strip()
    if _SURE.search(short) and (short[0].isupper() or "." in type):
        return type if after_frames or told or _WITHOUT_TEXT.match(short) is not None or "." in type else None
    if after_frames and ("." in type or (at_once and short[0].isupper())):
        return type
    return None
