"""The framing of binary logs: TFRecord, LevelDB's log, protobuf messages.

In: the bytes of a file. Out: its records, and the fields of a message, as far as they are whole: what a crash
has torn off, or what is still being written, ends the reading.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
BLOCK_BYTES = 32_768
FILE_HEAD_BYTES = 7  # ":W&B" or ":SWL", a magic number, a version
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4

Value = int | bytes


def tfrecords(data: bytes) -> Iterator[bytes]:
    """The records of a TFRecord file (length, its checksum, data, its checksum)."""
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        if at + 16 + length > len(data):
            return
        yield data[at + 12 : at + 12 + length]
        at += 16 + length


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's framing, with the file head of W&B and SwanLab: blocks of 32 KiB,
    each piece with checksum, length and kind; a long record lies in several pieces."""
    at, pieces = FILE_HEAD_BYTES, b""
    while at + 7 <= len(data):
        if BLOCK_BYTES - at % BLOCK_BYTES < 7:
            at += BLOCK_BYTES - at % BLOCK_BYTES
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + 7 : at + 7 + length]
        if len(piece) < length or not FULL <= kind <= LAST:
            return
        pieces = piece if kind in (FULL, FIRST) else pieces + piece
        if kind in (FULL, LAST):
            yield pieces
        at += 7 + length


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of each field of a protobuf message: an integer, or the bytes of everything else.
    Raises ValueError for bytes that are no message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"no protobuf message: wire type {kind}")
        if at + size > len(message):
            raise ValueError("no protobuf message: it ends too early")
        yield key >> 3, message[at : at + size]
        at += size


def first(message: bytes, number: int, default: Value = b"") -> Value:
    """The last value of a field, as protobuf reads one that stands once; `default` without it."""
    return next((value for key, value in reversed(list(fields(message))) if key == number), default)


def part(message: bytes, *path: int) -> bytes:
    """The bytes of a field inside fields; empty where one of them is missing or an integer."""
    for number in path:
        inner = first(message, number)
        message = inner if isinstance(inner, bytes) else b""
    return message


def signed(value: Value) -> int:
    """A varint as the signed 64-bit number that it stands for."""
    number = value if isinstance(value, int) else 0
    return number - (1 << 64) if number >= 1 << 63 else number


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("no protobuf message: a number does not end")
