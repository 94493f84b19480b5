"""Pages and drawings against those that are made now: the same words, and the same shapes at the same places.

In: a file, and the text that it would have now. Out: where they differ, if they do. Another version of the
drawing library leaves other margins and other ids, so that a coordinate may be off by a few units and ids
count only for what refers to what; every word, colour and line of a drawing must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from harness.results.verifying.same import is_same_text, text_of

_OFF_BY = 3.0  # units of a drawing that is about 700 wide: a hundredth of an axis
_DRAWING = re.compile(r"<svg .*?</svg>", re.DOTALL)
_ID = re.compile(r'(?<=\bid=")[^"]*|(?<=url\(#)[^)]*|(?<=href="#)[^"]*')
_PLACES = re.compile(r'(?<=\s)(?:d|x|y|width|height|transform)="[^"]*"')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def document_differences(path: Path, again: str) -> Iterator[tuple[str, str]]:
    """The first line of a page, or the first drawing, that is not as it is made now."""
    try:
        text = text_of(path)
    except (OSError, ValueError) as error:
        yield "the text", f"it cannot be read: {error}"
        return
    if text is None or text == again:
        return  # what is no file is told by the fingerprint
    one, other = (_DRAWING.sub("<svg/>", each).split("\n") for each in (text, again))
    for number, (line, fresh) in enumerate(zip_longest(one, other, fillvalue=""), start=1):
        if not is_same_text(line, fresh):
            said, wanted = _around(line, fresh)
            yield f"line {number} outside of drawings", f"it says {said!r}, the runs give {wanted!r}"
            return
    drawings, drawn_now = (_DRAWING.findall(each) for each in (text, again))
    if len(drawings) != len(drawn_now):
        yield "the drawings", f"it has {len(drawings)}, the runs give {len(drawn_now)}"
        return
    for number, (drawn, fresh) in enumerate(zip(drawings, drawn_now, strict=True), start=1):
        if not _is_same_drawing(drawn, fresh):
            why = (
                "it is not what is drawn from the runs now; another version of matplotlib may draw otherwise"
            )
            yield f"drawing {number}", why
            return


def _is_same_drawing(drawn: str, again: str) -> bool:
    if drawn == again:
        return True
    (shapes, places), (fresh, there) = _taken_apart(drawn), _taken_apart(again)
    is_alike = len(places) == len(there) and is_same_text(shapes, fresh)
    return is_alike and all(abs(one - other) <= _OFF_BY for one, other in zip(places, there, strict=True))


def _taken_apart(drawing: str) -> tuple[str, list[float]]:
    """A drawing with its ids numbered and without its coordinates, and these."""
    ids: dict[str, int] = {}
    places: list[float] = []

    def without(match: re.Match[str]) -> str:
        places.extend(map(float, _NUMBER.findall(match[0])))
        return _NUMBER.sub("0", match[0])

    numbered = _ID.sub(lambda match: str(ids.setdefault(match[0], len(ids))), drawing)
    return _PLACES.sub(without, numbered), places


def _around(line: str, fresh: str) -> tuple[str, str]:
    """Both lines from shortly before they part."""
    same = next(
        (n for n, (a, b) in enumerate(zip(line, fresh, strict=False)) if a != b), min(len(line), len(fresh))
    )
    start = max(same - 20, 0)
    return line[start : start + 80], fresh[start : start + 80]
