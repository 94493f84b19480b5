"""Exceptions that only carry another one: what a process says of the failure of another.

In: an exception's type and message, or a line below it. Out: whether the true one is to be looked for in
what follows.
"""

import json
import re
from collections.abc import Iterator

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
_INTRODUCTION = re.compile(
    r"^-- Process \d+ terminated with the following error:"
    r"|^Original Traceback \(most recent call last\):"
    r"|^\s*traceback\s*: Traceback \(most recent call last\):"
    r"|^(?:\x1b\[\d+m)?ray::\S.*\(pid=\d+"
    r"|^The above exception was raised in|^Remote traceback"
)


def carries(type: str, message: str) -> bool:
    """True if an exception's type or message says that it stands for another one."""
    return bool(_WRAPPER.search(type) or _WRAPPING.search(message))


def carries_in_a_chain(type: str) -> bool:
    """True if an exception says nothing of its own when it follows another one in a chain."""
    return _IN_A_CHAIN.search(type) is not None


def is_quotes(text: str) -> bool:
    """True if a line holds nothing but the quotes around a remote traceback."""
    return text.rstrip() in ('"""', "'''")


def introduces(text: str) -> bool:
    """True if below this line the frames of the carried exception begin."""
    return _INTRODUCTION.match(text) is not None


def error_file(text: str) -> Iterator[str]:
    """The lines of the traceback in what torchrun writes to an error file, as one line of JSON."""
    try:
        stack = json.loads(text)["message"]["extraInfo"]["py_callstack"]
        yield from (stack if isinstance(stack, str) else "".join(stack)).splitlines()
    except (ValueError, KeyError, TypeError, RecursionError):
        return
