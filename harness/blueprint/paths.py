"""Paths out of prose, and what they mean on this machine."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.blueprint.choice import Candidate
from harness.blueprint.document import Item, Section
from harness.blueprint.inline import is_nothing, is_placeholder, spans, unquoted
from harness.blueprint.labels import Role

_CJK = r"\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"
_STOP = r"\s,;，。；、：()（）【】「」《》“”\"'`<>|"
_START = (
    rf"(?<![A-Za-z0-9_/.$~}}-])(?:~[\w.-]*(?=/|[\s{_CJK}]|$)|\.{{1,2}}(?=/|\s|$)"
    rf"|/(?![/\s]|$)|\$\{{?[A-Za-z_]\w*\}}?(?=/|\s|$))"
)
_TOKEN = re.compile(rf"{_START}[^{_STOP}]*")
_CONFIG = re.compile(
    rf"(?<![A-Za-z0-9_/.$~}}-])[A-Za-z0-9_~.$][^{_STOP}{_CJK}]*\.(?:ya?ml|json)(?![A-Za-z0-9])"
)
_CONFIG_NAME = re.compile(r"\.(?:ya?ml|json)$")
_GLUED = re.compile(r"[A-Za-z0-9_.-][\u4e00-\u9fff]")
_ENDS_CHINESE = re.compile(r"[\u4e00-\u9fff]$")
_REMARK_FOLLOWS = re.compile(r"\s*$|\s*[(（#,，;；。、：!！]|\s+[-–—]{1,2}\s|[.:]\s|[.:]$")
_TRAILING = ".,;:!?)]}。，；：、！？）】"


class PathValueError(ValueError):
    """A path that cannot be turned into one on this machine; the message says why."""


def find_paths(section: Section, *, config: bool = False) -> list[Candidate]:
    """Every path a section may mean. `config`: a file name ending in .yaml counts without a slash, and
    only such names count in sentences."""
    found: list[Candidate] = []
    for item in section.items:
        if item.role != Role.REMARK:
            found += _of_item(item, config)
    return found


def resolve(value: str, base: Path, env: Mapping[str, str]) -> Path:
    """An absolute path: `~` and `$VAR` expanded, relative to `base`. Symbolic links are kept as they are.

    Raises PathValueError for an unset variable, an unknown user or something that is no path.
    """
    if "://" in value:
        raise PathValueError(f"{value!r} is an address, not a path on this machine")
    expanded = re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: _variable(found, env), value)
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
    """Whether the path is there; False for one the system cannot look up (too long, no permission)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _variable(found: re.Match[str], env: Mapping[str, str]) -> str:
    name = found[1] or found[2]
    if name not in env:
        raise PathValueError(f"the environment variable {name} is not set")
    return env[name]


def _of_item(item: Item, config: bool) -> Iterator[Candidate]:
    """The candidates of one item, line by line; what is wrapped in a sentence counts less than what stands
    alone."""
    role = item.role or Role.STATED
    first = item.line + item.text.count("\n") - item.value.count("\n")
    stated = bool(item.label) and item.role in (Role.STATED, Role.CONTENT)
    for number, line in enumerate(item.value.split("\n"), start=first):
        line = (
            line.strip().strip("*").strip()
            if item.block
            else line.replace("\\_", "_").strip().strip("*").strip()
        )
        if not line or (item.block and line.startswith("#")):
            continue
        for value, alone, unsure in _of_line(line, stated or item.block, config):
            if item.title and role == Role.PROSE:
                if alone and (value is None or "`" in line or re.search(r"[/~$]|^\.|\.ya?ml$", value)):
                    yield Candidate(value, number, Role.STATED, unsure)
            else:
                yield Candidate(value, number, role if alone else max(role, Role.PROSE), unsure)


def _of_line(line: str, stated: bool, config: bool) -> Iterator[tuple[str | None, bool, str]]:
    """(value, whether it stands alone, why it is unsure) of every path in a line."""
    if is_nothing(line):
        yield None, True, ""
        return
    if is_placeholder(line):
        yield line, True, f"{line!r} was never filled in"
        return
    marked = spans(line)
    literals = [text.strip() for text in marked.literals]
    if literals:
        likely = [text for text in literals if _is_path(text, config) or text == line.strip("`")]
        if not marked.before and (len(likely) < 2 or _REMARK_FOLLOWS.match(f" {marked.after}")):
            yield (None if is_nothing(literals[0]) else literals[0]), True, ""
            return
        for text in likely:
            yield text, stated and len(likely) == 1, ""
        if likely:
            return
    quoted = unquoted(line)
    if quoted:
        yield quoted, True, ""
        return
    start = _TOKEN.match(line)
    if start:
        yield from _from_start(line, start, stated)
    else:
        yield from _from_words(line, stated, config)


def _from_start(line: str, start: re.Match[str], stated: bool) -> Iterator[tuple[str | None, bool, str]]:
    """A line that begins with a path: is the rest of it a remark, or part of the path?"""
    value = _clean(start.group())
    rest = line[start.end() :]
    if _end_is_unclear(value, line):
        yield value, True, f"where does the path end in {line!r}?"
    elif _REMARK_FOLLOWS.match(rest):
        yield value, True, ""
    elif exists(Path(line)):
        yield line, True, ""
    elif re.search(r"\S/|/\S", rest) or (stated and not exists(Path(value))):
        yield value, True, f"is the space in {line!r} part of the path?"
    else:
        yield value, stated, ""


def _from_words(line: str, stated: bool, config: bool) -> Iterator[tuple[str | None, bool, str]]:
    """A line that begins with a word: a relative path, or a sentence with paths in it."""
    word = re.match(rf"[^{_STOP}]+", line)
    if word and word.group().isascii() and _REMARK_FOLLOWS.match(line[word.end() :]):
        value = _clean(word.group())
        only = not line[word.end() :].strip(_TRAILING + " ")
        if only or stated or "/" in value or (config and _CONFIG.fullmatch(value)):
            yield value, True, ""
            return
    seen: list[tuple[int, int]] = []
    for found in sorted(
        [*_TOKEN.finditer(line), *(_CONFIG.finditer(line) if config else ())], key=lambda f: f.start()
    ):
        value = _clean(found.group())
        if any(start <= found.start() < end for start, end in seen) or (
            config and not _CONFIG_NAME.search(value)
        ):
            continue
        seen.append(found.span())
        unclear = _end_is_unclear(value, line)
        yield value, False, f"where does the path end in {line!r}?" if unclear else ""


def _end_is_unclear(value: str, line: str) -> bool:
    """Whether Chinese words may have been glued to a path; a line that is nothing but a path may end in
    them."""
    return bool(_GLUED.search(value) or (value != line and _ENDS_CHINESE.search(value))) and not exists(
        Path(value)
    )


def _is_path(text: str, config: bool) -> bool:
    """Whether a code span in a sentence is a path."""
    if "://" in text or re.search(r"\s-", text):
        return False
    return bool(_CONFIG_NAME.search(text)) if config else bool("/" in text or _TOKEN.match(text))


def _clean(value: str) -> str:
    """Without the punctuation of the sentence around it; `./` and `..` stay."""
    stripped = value.rstrip(_TRAILING)
    if value.startswith((".", "~")) and set(stripped) <= {"."}:
        return value.rstrip(",;:!?)]}。，；：、！？）】")
    if stripped.endswith("/") and value[len(stripped) :].startswith("."):
        return value if set(value[len(stripped) :]) == {"."} else stripped
    return stripped
