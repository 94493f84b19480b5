"""How the lines of a traceback look, without prefixes, and which exceptions only carry another one."""

import re

TRACEBACK = "Traceback (most recent call last)"
HEADER = f"{TRACEBACK}:"
BEGINS = re.compile(r"^(?P<lead>.*?)Traceback \(most recent call last\):?\s*(?:─+\s*╮?|\(RANK \d+\))?$")
FRAME = re.compile(
    r'^(?P<lead>[\s>]*)File ["“](?P<path>[^"”\n]+)["”], line (?P<number>\d+)(?:,? in (?P<function>.+))?$'
)
RICH_FRAME = re.compile(
    r"^(?:File )?(?P<path>(?:/|\.|[A-Za-z]:|<|~)?[^\s:]*?[\w>]):(?P<number>\d+),? in (?P<function>\S.*)$"
)
NOTEBOOK_FRAME = re.compile(
    r"^(?:Input )?<?(?P<path>Cell In ?\[\d+\](?=, line )|In \[\d+\](?=>? in )|ipython-input-[\w-]+(?=>? in )"
    r"|(?:/|~)[^\s:]*\.py(?= in ))>?(?:, line \d+)?(?:,? in (?P<function>\S.*))?$"
)
MARKED_CODE = re.compile(r"^(?:❱|-{2,}>)\s*\d+\s?(?P<code>.*)$")  # by Rich and by notebooks
NUMBERED_CODE = re.compile(r"^\s*\d+(?:\s|$)")
RICH_BOX = re.compile(r"^\s*[╭│╰][\s─]?")
INDENTED_EXCEPTION = re.compile(r"^ {2,8}(?P<exception>[A-Za-z_][\w.]*(?:Error|Exception): .*)$")
NO_CODE = re.compile(
    r"^[\s|]*[\^~][\s^~|]*$"
    r"|^\s*\[Previous line repeated \d+ more times?\]"
    r"|^\s*(?:\[?\.\.\.\]?|…|<\.\.\.>|\(\.\.\.\))\s*(?:\[.*\]|<.*>)?\s*$"
)
MARKS = re.compile(r"^[\s|]*[\^~][\s^~|]*$|^\s*[=\-_*#]{8,}\s*$")
CHAIN = re.compile(
    r"^\s*(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception)"
)
STACK = re.compile(r"^(?:Call stack:|Stack \(most recent call last\):)\s*$")
CURRENT_STACK = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\)")
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

_WRAPPER = re.compile(
    r"RayTaskError|RemoteTraceback$|RemoteException$|ProcessRaisedException$|CheckpointException$|TransportableException$"
    r"|ChildFailedError$|BrokenBarrierError$"
)
_WRAPPING = re.compile(
    r"^\S+: Caught \w+ in (?:DataLoader|pin memory|replica)|\bray::\S+\(\)\s*\(pid="
    r"|because of an error raised in its creation task"
)
_IN_A_CHAIN = re.compile(
    r"(?:^|\.)(?:DatasetGenerationError|RetryError|InstantiationException|FailedToGenerate\w*|RayTaskError\S*)$"
)
INTRODUCTION = re.compile(
    r"^-- Process \d+ terminated with the following error:"
    r"|^Original Traceback \(most recent call last\):"
    r"|^\s*traceback\s*: Traceback \(most recent call last\):"
    r"|^(?:\x1b\[\d+m)?ray::\S.*\(pid=\d+"
    r"|^The above exception was raised in|^Remote traceback"
)
QUOTES = re.compile(r"^(?:\"{3}|'{3})\s*$")

_NAME = r"(?:[A-Za-z_]\w*\.)*(?:<locals>\.|\w+\.<locals>\.)*(?P<short>[A-Za-z_]\w*)"
_EXCEPTION = re.compile(rf"^(?P<type>{_NAME}(?:\([\w. ]*\)|\[[\w., ]*\])?)(?P<rest>:(?:\s.*)?)?$")
_KINDS = (
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Fault|Iteration|Died|Crash(?:ed)?|NotFound|Unavailable"
    r"|RemoteTraceback|Exceeded|Refused|Denied|Reset|Aborted|Cancelled|Canceled|Group|Violation|Mismatch)"
)
_SURE = re.compile(rf"(?:{_KINDS}\d*$)|^(?:error|timeout|gaierror|herror|Empty|Full)$")
_WITHOUT_TEXT = re.compile(
    r"^(?:KeyboardInterrupt|SystemExit|MemoryError|AssertionError|StopIteration|NotImplementedError|Exception"
    r"|RecursionError|TimeoutError|EOFError|GeneratorExit|BrokenPipeError|CancelledError|RuntimeError)$"
)


def exception_type(text: str, after_frames: bool = False, at_once: bool = False) -> str | None:
    """The type that an exception's line names, or None where the line is none.

    `after_frames`: frames came before it, so that any class may stand here; `at_once`: directly before it.
    """
    found = _EXCEPTION.match(text)
    if found is None or found["short"].endswith("Warning"):
        return found["type"] if found and after_frames and at_once else None
    short, type, message = found["short"], found["type"], (found["rest"] or "")[1:].strip()
    if _SURE.search(short) and (short[0].isupper() or "." in type):
        is_named = after_frames or message or _WITHOUT_TEXT.match(short) or "." in type
        return type if is_named else None
    return type if after_frames and ("." in type or (at_once and short[0].isupper())) else None


def out_of_rich_box(text: str) -> str | None:
    """A line without the box that Rich drew around it: a traceback's header, a frame, or code; None for its
    locals. A line in no box stays as it is."""
    box = RICH_BOX.match(text) if text[:1] in ("╭", "│", "╰", " ") else None
    if box is None:
        return text
    side = text.lstrip()[0]
    if side == "╭":
        return HEADER if "Traceback" in text else None
    inner = text[box.end() :].rstrip("│╮╯ ").strip()
    return inner if side == "│" and inner[:1] not in ("╭", "│", "╰") else None


def carries(type: str, message: str) -> bool:
    """True if an exception's type or message says that it stands for another one."""
    return bool(_WRAPPER.search(type) or _WRAPPING.search(message))


def carries_in_a_chain(type: str) -> bool:
    """True if an exception says nothing of its own when it follows another one in a chain."""
    return _IN_A_CHAIN.search(type) is not None
