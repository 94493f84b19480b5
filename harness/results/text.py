"""Text from outside made fit for a document: no secrets, no control characters, no accidental markup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.redaction import NO_SECRETS, Secrets, redact, redact_diff

CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_MARKDOWN = re.compile(
    r"""
      [\\`*<&|~$]  # always
    | (?<![^\W_])_ | _(?![^\W_])  # emphasis; not inside a word
    | !(?=\[) | \](?=[(\[:])  # pictures, links and their definitions
    | ^(?:[-+=>#]|\d+(?=[.)](?:\s|$)))  # what makes a line a list, a quotation or a heading
    """,
    re.VERBOSE,
)

_INLINE_CODE = re.compile(r"`([^`]*[^`\s][^`]*)`")


def clean(text: str, known: Secrets = NO_SECRETS) -> str:
    """The text redacted, without control and direction-changing characters, and encodable as UTF-8."""
    return redact(_printable(text), known)


class Diff(str):
    """A unified diff of code that a person judges: it is cleaned by `clean_diff`."""


def clean_diff(diff: str, known: Secrets = NO_SECRETS) -> Diff:
    """The same for a diff, of which every added line is shown whole (`redact_diff`), with what is not seen,
    or would be obeyed by a terminal, written out."""
    return Diff(redact_diff(spelled(diff), known))


def spelled(text: str) -> str:
    """The text with control and invisible characters written out: `\\x1b[2J`."""
    text = text.replace("\r\n", "\n").encode("utf-8", errors="replace").decode("utf-8")
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _printable(text: str) -> str:
    text = text.encode("utf-8", errors="replace").decode("utf-8")
    return CONTROL.sub("", text.replace("\r\n", "\n"))


@lru_cache(maxsize=4096)
def one_line(text: str, known: Secrets = NO_SECRETS) -> str:
    """Text from outside on one line, without secrets and control characters."""
    return " ".join(clean(text, known).split())


def clean_tree(value: Any, known: Secrets) -> Any:
    """`clean` on every string and path in dicts, lists, tuples and frozen dataclasses."""
    if isinstance(value, Diff):
        return clean_diff(value, known)
    if isinstance(value, str) and not isinstance(value, Enum):
        return clean(value, known)
    if isinstance(value, Path):
        return Path(clean(str(value), known))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {item.name: clean_tree(getattr(value, item.name), known) for item in fields(value)}
        return replace(value, **changed)
    if isinstance(value, Mapping):
        return {
            clean(key, known) if isinstance(key, str) else key: clean_tree(item, known)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(clean_tree(item, known) for item in value)
    return value


def markdown(text: str) -> str:
    """The text as one line of Markdown that shows exactly these characters."""
    return _MARKDOWN.sub(_escaped, " ".join(text.split()))


def prose(text: str) -> str:
    """Text that a person wrote, as one line of Markdown in which nothing but its inline code is markup."""
    parts = enumerate(_INLINE_CODE.split(" ".join(text.split())))
    return "".join(code(part) if number % 2 else _MARKDOWN.sub(_escaped, part) for number, part in parts)


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    return f"{found[:-1]}{found[-1]}\\" if found.isdigit() else f"\\{found}"


def code(text: str) -> str:
    """The text as inline code on one line, whatever backticks it holds; safe in a table."""
    line = " ".join(text.split()).replace("|", "¦")
    if not line:
        return ""
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """The text as a fenced block that it cannot end by itself."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
