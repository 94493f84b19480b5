"""Paths out of prose, and what they mean on this machine."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.blueprint.choice import Candidate
from harness.blueprint.document import Item, Section
from harness.blueprint.labels import Role, is_nothing, is_placeholder, spans, unquoted

_CJK = r"\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"
_STOP = r"\s,;，。；、：()（）【】「」《》“”\"'`<>|"
_BEGINS = r"(?<![A-Za-z0-9_/.$~}-])"
_TOKEN = re.compile(
    rf"{_BEGINS}(?:~[\w.-]*(?=/|[\s{_CJK}]|$)|\.{{1,2}}(?=/|\s|$)"
    rf"|/(?![/\s]|$)|\$\{{?[A-Za-z_]\w*\}}?(?=/|\s|$))[^{_STOP}]*"
)
_CONFIG = re.compile(rf"{_BEGINS}[A-Za-z0-9_~.$][^{_STOP}{_CJK}]*\.(?:ya?ml|json)(?![A-Za-z0-9])")
_CONFIG_NAME = re.compile(r"\.(?:ya?ml|json)$")
_GLUED = re.compile(r"[A-Za-z0-9_.-][\u4e00-\u9fff]")
_ENDS_CHINESE = re.compile(r"[\u4e00-\u9fff]$")
_REMARK_FOLLOWS = re.compile(r"\s*$|\s*[(（#,，;；。、：!！]|\s+[-–—]{1,2}\s|[.:]\s|[.:]$")
_TRAILING = ".,;:!?)]}。，；：、！？）】"

_Found = tuple[str | None, bool, str]
"""(value, True if it stands alone, why it is unsure)"""


class PathValueError(ValueError):
    """A path that cannot be turned into one on this machine; the message says why."""


def find_paths(section: Section, *, config: bool = False) -> list[Candidate]:
    """Every path a section may mean. `config`: a file name ending in .yaml counts without a slash, and
    only such names count in sentences."""
    items = (item for item in section.items if item.role != Role.REMARK)
    return [found for item in items for found in _of_item(item, config)]


def resolve(value: str, base: Path, env: Mapping[str, str]) -> Path:
    """An absolute path: `~` and `$VAR` expanded, relative to `base`. Symbolic links are kept as they are.
    Raises PathValueError for an unset variable, an unknown user or something that is no path."""

    def variable(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in env:
            raise PathValueError(f"the environment variable {name} is not set")
        return env[name]

    if "://" in value:
        raise PathValueError(f"{value!r} is an address, not a path on this machine")
    expanded = re.sub(r"\$(?:\{(\w+)\}|(\w+))", variable, value)
    if expanded == "~" or expanded.startswith("~/"):
        expanded = env.get("HOME", "~") + expanded[1:]
    elif expanded.startswith("~"):
        expanded = os.path.expanduser(expanded)  # noqa: PTH111 - Path.expanduser raises for an unknown user
    if expanded.startswith("~"):
        raise PathValueError(f"{value!r}: there is no such user")
    if "\0" in expanded:
        raise PathValueError(f"{value!r} contains a NUL character")
    return Path(os.path.normpath(base / expanded))


def exists(path: Path) -> bool:
    """True if the path is there; False for one the system cannot look up (too long, no permission)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _of_item(item: Item, config: bool) -> Iterator[Candidate]:
    """The candidates of one item, by line; one in a sentence counts less than one that stands alone."""
    stated = item.block or (bool(item.label) and item.role in (Role.STATED, Role.CONTENT))
    for number, line in enumerate(item.value.split("\n"), start=item.value_line):
        line = (line if item.block else line.replace("\\_", "_")).strip().strip("*").strip()
        if not line or (item.block and line.startswith("#")):
            continue
        for value, alone, unsure in _of_line(line, stated, config):
            if not (item.title and item.strength == Role.PROSE):
                role = item.strength if alone else max(item.strength, Role.PROSE)
                yield Candidate(value, number, role, unsure)
            elif alone and (value is None or "`" in line or re.search(r"[/~$]|^\.|\.ya?ml$", value)):
                yield Candidate(value, number, Role.STATED, unsure)


def _of_line(line: str, stated: bool, config: bool) -> Iterator[_Found]:
    """Every path in a line."""
    if is_nothing(line):
        yield None, True, ""
        return
    if is_placeholder(line):
        yield line, True, f"{line!r} was never filled in"
        return
    marked = spans(line)
    literals = [text.strip() for text in marked.literals]
    likely = [text for text in literals if _is_path(text, config) or text == line.strip("`")]
    if literals and not marked.before and (len(likely) < 2 or _REMARK_FOLLOWS.match(f" {marked.after}")):
        yield (None if is_nothing(literals[0]) else literals[0]), True, ""
    elif likely:
        yield from ((text, stated and len(likely) == 1, "") for text in likely)
    elif quoted := unquoted(line):
        yield quoted, True, ""
    elif start := _TOKEN.match(line):
        yield _from_start(line, start, stated)
    else:
        yield from _from_words(line, stated, config)


def _from_start(line: str, start: re.Match[str], stated: bool) -> _Found:
    """A line that begins with a path: is the rest of it a remark, or part of the path?"""
    value = _clean(start.group())
    rest = line[start.end() :]
    if unclear := _unclear_end(value, line):
        return value, True, unclear
    if _REMARK_FOLLOWS.match(rest):
        return value, True, ""
    if exists(Path(line)):
        return line, True, ""
    if re.search(r"\S/|/\S", rest) or (stated and not exists(Path(value))):
        return value, True, f"is the space in {line!r} part of the path?"
    return value, stated, ""


def _from_words(line: str, stated: bool, config: bool) -> Iterator[_Found]:
    """A line that begins with a word: a relative path, or a sentence with paths in it."""
    word = re.match(rf"[^{_STOP}]+", line)
    if word and word.group().isascii() and _REMARK_FOLLOWS.match(line[word.end() :]):
        value = _clean(word.group())
        only = not line[word.end() :].strip(_TRAILING + " ")
        if only or stated or "/" in value or (config and _CONFIG.fullmatch(value)):
            yield value, True, ""
            return
    found = [*_TOKEN.finditer(line), *(_CONFIG.finditer(line) if config else ())]
    behind = 0
    for match in sorted(found, key=lambda match: match.start()):
        value = _clean(match.group())
        if match.start() >= behind and (not config or _CONFIG_NAME.search(value)):
            behind = match.end()
            yield value, False, _unclear_end(value, line)


def _unclear_end(value: str, line: str) -> str:
    """A doubt where Chinese words may be glued to a path, unless the line is nothing but the path."""
    glued = _GLUED.search(value) or (value != line and _ENDS_CHINESE.search(value))
    return f"where does the path end in {line!r}?" if glued and not exists(Path(value)) else ""


def _is_path(text: str, config: bool) -> bool:
    """True if a code span in a sentence is a path."""
    if "://" in text or re.search(r"\s-", text):
        return False
    return bool(_CONFIG_NAME.search(text)) if config else bool("/" in text or _TOKEN.match(text))


def _clean(value: str) -> str:
    """Without the punctuation of the sentence around it; `./` and `..` stay."""
    stripped = value.rstrip(_TRAILING)
    if value.startswith((".", "~")) and set(stripped) <= {"."}:
        return value.rstrip(_TRAILING.removeprefix("."))
    if stripped.endswith("/") and value[len(stripped) :].startswith("."):
        return value if set(value[len(stripped) :]) == {"."} else stripped
    return stripped
