"""Which clauses of a catalogue may hold for a fault, by the plain texts of their patterns."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from harness.diagnosis.signatures.schema import SHORTEST_PLAIN, Clause, Signature

_Place = tuple[int, int]
"""A signature's number and that of one of its clauses."""


class ClauseIndex:
    """Finds the clauses that may hold for a fault, whose patterns are searched for only then: those whose
    exception is of its type and of whose plain texts one stands in it, or none are known."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._signatures = signatures
        self._clauses = {
            (number, index): clause
            for number, signature in enumerate(signatures)
            for index, clause in enumerate(signature.when)
        }
        self._in_message, self._in_frames = _PlainTexts(), _PlainTexts()
        self._others: set[_Place] = set()
        self._of_any_type = {place for place, clause in self._clauses.items() if clause.exception is None}
        self._by_type: dict[str, set[_Place]] = {"": set()}
        for place, clause in self._clauses.items():
            if clause.message and clause.message.plain:
                self._in_message.add(clause.message.plain, place)
            elif clause.frames and clause.frames.plain:
                self._in_frames.add(clause.frames.plain, place)
            else:
                self._others.add(place)

    def candidates(
        self, exception: str, message: str, frames: str
    ) -> Iterator[tuple[Signature, Iterable[Clause]]]:
        """Signatures in order, each with those of its clauses."""
        found = self._others.union(self._in_message.found(message), self._in_frames.found(frames))
        places = sorted(found & self._of_any_type | found & self._of_type(exception))
        for number, group in groupby(places, itemgetter(0)):
            yield self._signatures[number], (self._clauses[place] for place in group)

    def _of_type(self, exception: str) -> set[_Place]:
        """The clauses that ask for an exception of this type, "" for a line that is none."""
        if exception not in self._by_type:
            self._by_type[exception] = {
                place
                for place, clause in self._clauses.items()
                if clause.exception is not None and clause.exception.search(exception)
            }
        return self._by_type[exception]


class _PlainTexts:
    """Clauses by plain texts. A text is looked for only where its rarest three characters stand."""

    def __init__(self) -> None:
        self._places: dict[str, list[_Place]] = {}
        self._by_three: dict[str, set[str]] = {}

    def add(self, plain: Iterable[str], place: _Place) -> None:
        """One of these texts stands in whatever the clause holds for."""
        for text in plain:
            self._places.setdefault(text, []).append(place)
            rarest = min(_threes(text), key=lambda three: len(self._by_three.get(three, ())))
            self._by_three.setdefault(rarest, set()).add(text)

    def found(self, text: str) -> Iterator[_Place]:
        """The clauses of which a plain text stands in this one, its case aside."""
        searched = text.lower()
        for three in self._by_three.keys() & _threes(searched):
            for plain in self._by_three[three]:
                if plain in searched:
                    yield from self._places[plain]


def _threes(text: str) -> set[str]:
    return {text[at : at + SHORTEST_PLAIN] for at in range(len(text) - SHORTEST_PLAIN + 1)}
