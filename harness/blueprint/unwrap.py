"""A blueprint out of what it was pasted in: an outer code fence, an indentation. Line numbers stay."""

import re

from harness.blueprint.names import read_title

_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
_MARKS = re.compile(r"\s*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s)?\s*")


def unwrap(lines: list[str]) -> list[str]:
    """As many lines, without a fence around the first section and without the sections' indentation."""
    lines = [_expand(line) for line in lines]
    titles = [number for number, line in enumerate(lines) if _is_title(line)]
    if not titles:
        return lines
    depth = min(_indent(lines[number]) for number in titles)
    blank = _outer_fence(lines, titles[0])
    return ["" if number in blank else line[min(depth, _indent(line)) :] for number, line in enumerate(lines)]


def _expand(line: str) -> str:
    """Tabs in front as spaces: Markdown counts them so."""
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].expandtabs(4) + body


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_title(line: str) -> bool:
    marks = _MARKS.match(line)
    title = read_title(line[marks.end() :] if marks else line)
    return bool(title and title.known and title.name.startswith("exp_"))


def _outer_fence(lines: list[str], first_title: int) -> set[int]:
    """The lines of the fence that is open at the first title, and of the last bare one that no inner fence
    claims, which ends it."""
    fences = [(number, found) for number, line in enumerate(lines) if (found := _FENCE.match(line))]
    outer: tuple[int, re.Match[str]] | None = None
    for number, found in fences:
        if number >= first_title:
            break
        if outer is None:
            outer = number, found
        elif found["fence"].startswith(outer[1]["fence"]) and not found["info"]:
            outer = None
    if outer is None:
        return set()
    opener, fence = outer[0], outer[1]["fence"]
    inner_open, last_bare = False, None
    for number, found in fences:
        if number > opener and found["fence"][0] == fence[0]:
            if not found["info"] and len(found["fence"]) >= len(fence):
                last_bare = number
            inner_open = bool(found["info"]) or not inner_open
    closes = last_bare is not None and (inner_open or len(fence) > 3)
    return {opener, last_bare} if closes and last_bare is not None else {opener}
