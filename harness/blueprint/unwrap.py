"""Take a blueprint out of what it was pasted in: an outer code fence, an indentation. Line numbers stay as
they are."""

import re

from harness.blueprint.names import read_title

_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
_MARKS = re.compile(r"\s*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s)?\s*")


def unwrap(lines: list[str]) -> list[str]:
    """The same number of lines, without a fence around the first section and without the sections'
    indentation."""
    lines = [_expand(line) for line in lines]
    titles = [number for number, line in enumerate(lines) if _is_title(line)]
    if not titles:
        return lines
    opener = _open_fence(lines[: titles[0]])
    if opener is not None:
        lines = _without_fence(lines, opener)
    depth = min(_indent(lines[number]) for number in titles)
    return [line[min(depth, _indent(line)) :] for line in lines]


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


def _open_fence(lines: list[str]) -> int | None:
    """Number of the line whose fence is still open at the end of `lines`."""
    opener: int | None = None
    fence = ""
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if not found:
            continue
        if opener is None:
            opener, fence = number, found["fence"]
        elif found["fence"].startswith(fence) and not found["info"]:
            opener = None
    return opener


def _without_fence(lines: list[str], opener: int) -> list[str]:
    """Blank the outer fence. Its end is the last bare fence that no inner fence claims."""
    outer = _FENCE.match(lines[opener])
    assert outer
    inner_open = False
    last_bare: int | None = None
    for number in range(opener + 1, len(lines)):
        found = _FENCE.match(lines[number])
        if not found or found["fence"][0] != outer["fence"][0]:
            continue
        if not found["info"] and len(found["fence"]) >= len(outer["fence"]):
            last_bare = number
        inner_open = not inner_open if not found["info"] else True
    blank = {opener}
    if last_bare is not None and (inner_open or len(outer["fence"]) > 3):
        blank.add(last_bare)
    return ["" if number in blank else line for number, line in enumerate(lines)]
