"""A question at this terminal that does not hold up the event loop: the answer arrives as a call."""

import asyncio
import sys
import termios
from collections.abc import Callable
from typing import Any


def ask_for(prompt: str, on_answer: Callable[..., None], *arguments: Any) -> None:
    """Show a prompt, and call `on_answer` when a line can be read; what was typed before it was shown is no
    answer to it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(prompt, end="", flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), on_answer, *arguments)


def read_line() -> str:
    """The line that was typed; "" when the terminal is gone."""
    take_back()
    return sys.stdin.readline()


def take_back() -> None:
    """The question is settled otherwise."""
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
