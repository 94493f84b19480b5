"""Writes messages as the file that `harness.diagnosis.message_bank` reads."""

import json
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter

from harness.diagnosis.message_bank import HEADER, MAGIC, MOST_MESSAGES, KnownMessage, check_of, keys_of

PER_BLOCK = 128
DICTIONARY_BYTES = 32_000
_FIRST_WORD = re.compile(r"^\w+")


def write(messages: Sequence[KnownMessage], versions: Mapping[str, Sequence[str]], file: Path) -> None:
    """Write the bank. Messages without a whole word outside of holes are left out: nothing finds them."""
    keyed = [(message, keys) for message in messages if (keys := _keys(message))]
    often = Counter(key for _, keys in keyed for key in keys)
    records = [_record(message) for message, _ in keyed]
    shared = "".join(records[:: max(1, len(records) // 150)]).encode()[:DICTIONARY_BYTES]
    blocks, starts = bytearray(), [0]
    for at in range(0, len(records), PER_BLOCK):
        packer = zlib.compressobj(9, zdict=shared)
        text = f"[{','.join(records[at : at + PER_BLOCK])}]".encode()
        blocks += packer.compress(text) + packer.flush()
        starts.append(len(blocks))
    index = sorted(_entry(number, keys, often) for number, (_, keys) in enumerate(keyed))
    columns = b"".join(array("I", column).tobytes() for column in (*zip(*index, strict=True), starts))
    names, packed = (zlib.compress(each, 9) for each in (json.dumps(versions).encode(), shared))
    header = HEADER.pack(MAGIC, len(keyed), PER_BLOCK, len(starts) - 1, len(names), len(packed))
    file.write_bytes(header + columns + names + packed + blocks)


def _keys(message: KnownMessage) -> list[str]:
    """The keys of the literal texts, without words that touch a hole and may go on in it."""
    texts, after_hole = [""], False
    for literal, name, _, _ in Formatter().parse(message.template):
        texts[-1] += _without_first_word(literal) if after_hole else literal
        if after_hole := name is not None:
            texts[-1] = _without_first_word(texts[-1][::-1])[::-1]
            texts.append("")
    return [key for text in texts for key in keys_of(text)]


def _entry(number: int, keys: Sequence[str], often: Counter[str]) -> tuple[int, int]:
    """The hash of the rarest key, and the message's number with what is kept of the second rarest."""
    rarest = sorted(set(keys), key=lambda key: (often[key], -len(key), key))
    check = next((key for key in rarest[1:] if set(key.split()).isdisjoint(rarest[0].split())), rarest[0])
    first, second = zlib.crc32(rarest[0].encode()), zlib.crc32(check.encode())
    return first, check_of(second) * MOST_MESSAGES + number


def _record(message: KnownMessage) -> str:
    places = [
        [
            " ".join(value) if isinstance(value, tuple) else int(value) if isinstance(value, bool) else value
            for value in vars(place).values()
        ]
        for place in message.places
    ]
    record = [message.exception, message.template, places]
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _without_first_word(text: str) -> str:
    """A text without the word that it begins with; the blank or sign after that stays."""
    return _FIRST_WORD.sub("", text, count=1)
