"""The bank of error messages: which library raises a message, where, and what stands in its holes.

`messages.bank` is made by `python -m tools.message_bank`. It is an index of hashed words, which is mapped
into memory and not read, and blocks of compressed records, of which a lookup opens those that can hold its
message. A message's key are the two neighbouring words of its template that are rarest among all templates.
"""

import json
import mmap
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from string import Formatter

MAGIC = b"messages"
HEADER = struct.Struct("<8s5I")
"""MAGIC, the number of messages, of a block's messages, of blocks, and the lengths of two compressed JSON
texts: versions by library, and what is put before each block (its dictionary)."""
MOST_MESSAGES = 1 << 18
"""In the index, a message's number and 14 bits of a second key share 32 bits."""
LONGEST_MESSAGE = 4000
LONGEST_VALUE = 600
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Place:
    """Where a message is raised. `file`: below site-packages; `function`: with its class; `condition`: the
    test around it, "" where it is long; `arguments`: the function's parameters that it is about; `sure`: more
    than the exception's type decided the family; `versions`: those that have it, "" for all known."""

    library: str
    file: str
    function: str
    condition: str
    arguments: tuple[str, ...]
    family: str
    sure: bool
    versions: str

    def is_in_package_of(self, path: str) -> bool:
        """True if a file of a traceback belongs to the same package or module."""
        return f"/{self.file.partition('/')[0]}" in path


@dataclass(frozen=True)
class KnownMessage:
    """A message of libraries. `template`: its text with named holes, as for `str.format`; `exception`: the
    name of the type, "" for what is only logged."""

    exception: str
    template: str
    places: tuple[Place, ...]

    @property
    def id(self) -> str:
        """Its name, the same whenever the bank is made."""
        return f"{zlib.crc32(f'{self.exception}: {self.template}'.encode()):08x}"

    @cached_property
    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """Literal texts, each with the name of the hole behind it (None: no hole)."""
        return tuple((text, name) for text, name, _, _ in Formatter().parse(self.template))


@dataclass(frozen=True)
class FoundMessage:
    """A message that a line is. `values`: what stands in its holes, by their names."""

    message: KnownMessage
    place: Place
    values: Mapping[str, str]


class MessageBank:
    """Reads one bank. Raises OSError or ValueError where it cannot be read."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as opened:
            self._data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        magic, count, self._per_block, blocks, names, shared = HEADER.unpack_from(self._data)
        if magic != MAGIC:
            raise ValueError(
                f"{file}: not a bank of messages; make it again with `python -m tools.message_bank`"
            )
        self._count = count
        view, at = memoryview(self._data), HEADER.size
        self._keys, at = view[at : at + 4 * count].cast("I"), at + 4 * count
        self._rest, at = view[at : at + 4 * count].cast("I"), at + 4 * count
        self._starts, at = view[at : at + 4 * (blocks + 1)].cast("I"), at + 4 * (blocks + 1)
        self._names, at = (at, at + names), at + names
        self._shared, self._blocks = (at, at + shared), at + shared
        self._opened: dict[int, list[KnownMessage]] = {}

    def __len__(self) -> int:
        return self._count

    @cached_property
    def versions(self) -> Mapping[str, Sequence[str]]:
        """The libraries, each with the versions that were read."""
        return json.loads(zlib.decompress(self._data[slice(*self._names)]))

    def messages(self) -> Iterator[KnownMessage]:
        """All messages."""
        for number in range(len(self._starts) - 1):
            yield from self._block(number)

    def find(self, exception: str, text: str, paths: Iterable[str] = ()) -> FoundMessage | None:
        """The message that `text` is, said by this type of exception ("" for a line of a log); of several
        the one with the most literal text. `paths`: files of the traceback, innermost first, by which one
        of its places is chosen."""
        said = " ".join(text[:LONGEST_MESSAGE].split())
        best: tuple[int, KnownMessage, dict[str, str]] | None = None
        for message in self._candidates(said, exception.rpartition(".")[2]):
            values = values_of(message, said)
            length = sum(len(literal) for literal, _ in message.parts)
            if values is not None and (best is None or length > best[0]):
                best = length, message, values
        if best is None:
            return None
        _, message, values = best
        return FoundMessage(message, _place(message, tuple(paths)), values)

    def _candidates(self, said: str, exception: str) -> Iterator[KnownMessage]:
        hashes = {zlib.crc32(key.encode()) for key in keys_of(said)}
        checks = {check_of(key) for key in hashes}
        for key in hashes:
            at = bisect_left(self._keys, key)
            while at < self._count and self._keys[at] == key:
                check, number = divmod(self._rest[at], MOST_MESSAGES)
                if check in checks:
                    block, index = divmod(number, self._per_block)
                    message = self._block(block)[index]
                    if message.exception == exception:
                        yield message
                at += 1

    def _block(self, number: int) -> list[KnownMessage]:
        if number not in self._opened:
            begin, end = (self._blocks + self._starts[number + step] for step in (0, 1))
            opened = zlib.decompressobj(zdict=self._dictionary).decompress(self._data[begin:end])
            self._opened[number] = [_message(*record) for record in json.loads(opened)]
        return self._opened[number]

    @cached_property
    def _dictionary(self) -> bytes:
        return zlib.decompress(self._data[slice(*self._shared)])


@cache
def shipped() -> MessageBank:
    """The bank that comes with the harness."""
    return MessageBank(shipped_file())


def shipped_file() -> Path:
    """Where it lies."""
    return Path(__file__).with_name("messages.bank")


def keys_of(literal: str) -> list[str]:
    """What a message may be found by: each word of a text, and each two neighbours."""
    words = _WORD.findall(literal)
    return [*words, *(f"{left} {right}" for left, right in pairwise(words))]


def check_of(key: int) -> int:
    """What the index keeps of a second key."""
    return key % (1 << 32) // MOST_MESSAGES


def values_of(message: KnownMessage, said: str) -> dict[str, str] | None:
    """What stands in the holes where `said` is this message, else None. Takes time linear in the text."""
    parts, values, at, hole = message.parts, dict[str, str](), 0, None
    for index, (literal, name) in enumerate(parts):
        is_end = index == len(parts) - 1 and name is None
        if hole is None:
            found = at if said.startswith(literal, at) else -1
        else:
            found = said.rfind(literal) if is_end and said.endswith(literal) else said.find(literal, at)
            found = len(said) if index == len(parts) - 1 and not literal else found
        if found < at or found - at > LONGEST_VALUE:
            return None
        if hole is not None:
            values.setdefault(hole, said[at:found].strip())
        at, hole = found + len(literal), name
    if hole is not None:
        values.setdefault(hole, said[at : at + LONGEST_VALUE].strip())
    return values


def _message(exception: str, template: str, places: Iterable[Sequence]) -> KnownMessage:
    found = [
        Place(library, file, function, condition, tuple(about.split()), family, bool(sure), told)
        for library, file, function, condition, about, family, sure, told in places
    ]
    return KnownMessage(exception, template, tuple(found))


def _place(message: KnownMessage, paths: Sequence[str]) -> Place:
    """The place that the traceback goes through, else one of the innermost library, else the first."""
    by_file = (place for path in paths for place in message.places if path.endswith(place.file))
    by_library = (place for path in paths[:1] for place in message.places if place.is_in_package_of(path))
    return next(by_file, None) or next(by_library, None) or message.places[0]
