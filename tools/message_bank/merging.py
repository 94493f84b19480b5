"""Equal messages become one with its places; what says too little to be known again is dropped."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from string import Formatter

from harness.diagnosis.message_bank import KnownMessage, Place
from tools.message_bank.extraction import LOGGED, Found
from tools.message_bank.families import Families

LEAST_CHARACTERS = 16
LEAST_WORDS = 3
MOST_PLACES = 3
LONGEST_TEMPLATE = 700
_WORD = re.compile(r"[^\W\d_]{2,}")
_NAME = re.compile(r"\w*_\w{3,}|[a-z]+[A-Z]\w+|\w{12,}")
_PYTHONS_OWN = re.compile(
    r"object has no attribute|unexpected keyword argument|required positional argument|cannot import name"
    r"|No module named|is not (?:callable|iterable|subscriptable|defined)$|unsupported operand"
    r"|has no attribute '|out of range$|missing \{\w+\} required|operands could not be broadcast"
)
"""What the interpreter and compiled code say themselves: whose words it is in a log is not known."""
_EXCEPTION = re.compile(r"_?[A-Z]\w+")


def merged(
    found: Iterable[Found], versions: Mapping[str, Sequence[str]], families: Families
) -> list[KnownMessage]:
    """All messages, sorted by where they are raised first, so that neighbours look alike."""
    alike: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for each in found:
        if identifies(each.template) and (each.exception == LOGGED or _EXCEPTION.fullmatch(each.exception)):
            alike[each.exception, _literal(each.template)].append(each)
    messages = [_message(same, versions, families) for same in alike.values()]
    return sorted(messages, key=lambda each: (each.places[0].library, each.places[0].file, each.template))


def reviewed(messages: Iterable[KnownMessage], families: Families) -> list[KnownMessage]:
    """The same messages, with the families that a person gave since."""

    def again(id: str, place: Place) -> Place:
        family = families.given(id, place)
        return replace(place, family=family, sure=True) if family else place

    return [replace(each, places=tuple(again(each.id, place) for place in each.places)) for each in messages]


def identifies(template: str) -> bool:
    """True if a template has enough literal text: three words and 16 characters, one word fewer where an
    identifier (`max_model_len`) is among them."""
    if len(template) > LONGEST_TEMPLATE or _PYTHONS_OWN.search(template):
        return False
    literal = _literal(template).replace("{}", " ")
    least = LEAST_WORDS - bool(_NAME.search(literal))
    return len(literal.replace(" ", "")) >= LEAST_CHARACTERS and len(_WORD.findall(literal)) >= least


def _literal(template: str) -> str:
    """A template without the names of its holes, which may differ."""
    return "{}".join(text for text, *_ in Formatter().parse(template))


def _message(
    same: Sequence[Found], versions: Mapping[str, Sequence[str]], families: Families
) -> KnownMessage:
    exception, template = same[0].exception, same[0].template
    id = KnownMessage(exception, template, ()).id
    at: dict[tuple[str, str, str], list[Found]] = defaultdict(list)
    for each in same:
        at[each.library, each.path, each.function].append(each)
    chosen = sorted(at.items(), key=lambda item: _prominence(item[0], [*at]))[:MOST_PLACES]
    places = []
    for (library, path, function), there in chosen:
        last = there[-1]
        family, sure = families.of(id, last)
        seen = {each.version for each in there}
        known = [version for version in versions[library] if version in seen]
        told = "" if len(known) == len(versions[library]) else ", ".join(known)
        places.append(Place(library, path, function, last.condition, last.arguments, family, sure, told))
    return KnownMessage(exception, template, tuple(places))


def _prominence(place: tuple[str, str, str], all_places: Sequence[tuple[str, str, str]]) -> tuple:
    """Libraries take turns: the first place of each comes before the second of any. Fewer folders first."""
    library = place[0]
    own = sorted(
        (each for each in all_places if each[0] == library), key=lambda each: (each[1].count("/"), each)
    )
    return own.index(place), library
