"""An episode as bytes: a JSON header, then the token arrays of its calls; docs/rollouts.md has the layout.

A call's prompt repeats the history of the calls before it. Only what is new in it is written, with the
earlier call whose tokens (prompt and completion) it begins with, and how many of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
import zstandard
from pydantic import TypeAdapter

from trainer_core.ids import Ids, shared_beginning
from trainer_core.types import Call, Episode

_LENGTH = struct.Struct("<I")
_IDS, _LOGPROBS = np.dtype("<i4"), np.dtype("<f4")
_ARRAYS = ("prompt_ids", "completion_ids", "logprobs")
_EPISODE = TypeAdapter(Episode)


def encode(episode: Episode) -> bytes:
    """The episode without loss, but for log-probabilities beyond float32 and values in `metadata` that JSON
    does not know, which become text."""
    calls: list[dict[str, Any]] = []
    arrays: list[bytes] = []
    for call, (after, kept) in zip(episode.calls, shared_beginnings(episode.calls), strict=True):
        new, completion = np.array(call.prompt_ids[kept:], _IDS), np.array(call.completion_ids, _IDS)
        logprobs = np.array(call.logprobs, _LOGPROBS)
        told = {name: value for name, value in vars(call).items() if name not in _ARRAYS}
        sizes = {"new": len(new), "sampled": len(completion), "logprobs": len(logprobs)}
        calls.append(told | {"after": after, "kept": kept} | sizes)
        arrays += [new.tobytes(), completion.tobytes(), logprobs.tobytes()]
    header = vars(episode) | {"task": vars(episode.task), "calls": calls}
    text = json.dumps(header, ensure_ascii=False, default=_plain).encode("utf-8", "backslashreplace")
    return b"".join((_LENGTH.pack(len(text)), text, *arrays))


def decode(raw: bytes, at: int = 0) -> tuple[Episode, int]:
    """The episode that begins at `at`, and where the next one begins.

    Raises:
        ValueError: the bytes are no episode.
    """
    try:
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack_from(raw, at)[0]
        header = json.loads(raw[begin:at])
        whole: list[Ids] = []
        calls = []
        for call in header["calls"]:
            after, kept = call.pop("after"), call.pop("kept")
            arrays = []
            for name, kind in (("new", _IDS), ("sampled", _IDS), ("logprobs", _LOGPROBS)):
                arrays.append(np.frombuffer(raw, kind, call.pop(name), at))
                at += arrays[-1].nbytes
            new, completion, logprobs = arrays
            prompt = new if after is None else np.concatenate((whole[after][:kept], new))
            whole.append(np.concatenate((prompt, completion)))
            ids = {"prompt_ids": prompt.tolist(), "completion_ids": completion.tolist()}
            calls.append(call | ids | {"logprobs": logprobs.tolist()})
        return _EPISODE.validate_python(header | {"calls": calls}), at
    except (struct.error, LookupError, TypeError) as error:
        raise ValueError(f"not an episode: {error}") from error


def pack(episodes: SequenceOf[Episode]) -> bytes:
    """Episodes in one zstd frame."""
    return compress(b"".join(map(encode, episodes)))


def unpack(frame: bytes) -> list[Episode]:
    """What `pack` was given.

    Raises:
        ValueError: the bytes are no such frame.
    """
    raw, at, episodes = decompress(frame), 0, []
    while at < len(raw):
        episode, at = decode(raw, at)
        episodes.append(episode)
    return episodes


def compress(raw: bytes) -> bytes:
    """A zstd frame with its checksum."""
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(raw)


def decompress(frame: bytes) -> bytes:
    """What `compress` was given; ValueError where the frame is damaged."""
    try:
        return zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise ValueError(f"not a whole zstd frame: {error}") from error


def shared_beginnings(calls: SequenceOf[Call]) -> list[tuple[int | None, int]]:
    """For each call the earlier one that its prompt shares its longest beginning with, and how many tokens
    that is; (None, 0) where there is none."""
    if len(calls) == 1:
        return [(None, 0)]
    found: list[tuple[int | None, int]] = []
    whole: list[Ids] = []
    for call in calls:
        prompt = np.array(call.prompt_ids, _IDS)
        after, kept = None, 0
        for number in reversed(range(len(whole))):
            if len(whole[number]) > kept < len(prompt):  # it could be longer
                shared = shared_beginning(prompt, whole[number])
                after, kept = (number, shared) if shared > kept else (after, kept)
        found.append((after, kept))
        whole.append(np.concatenate((prompt, np.array(call.completion_ids, _IDS))))
    return found


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
