"""The shipped signatures as they were read last time, in one file of the user's cache: reading YAML takes
longer than all else that a start does.

Its first line holds digests of what it was made of and of its own content, the rest is JSON, checked as YAML
is. One that is damaged, of other signatures, or that somebody else could have written counts for nothing.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.atomic_write import write_atomically
from harness.diagnosis.signatures.schema import Signature


def cache_file() -> Path:
    """Where it lies: `signatures.json` in the harness's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "harness" / "signatures.json"


def digest_of(texts: Iterable[str]) -> str:
    """What these texts are known by."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def recall(made_of: str) -> list[Signature] | None:
    """The signatures that were read from what has this digest; None where they are not kept."""
    try:
        with cache_file().open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            head, _, body = file.read().partition(b"\n")
        if head.decode() != _head(made_of, body):
            return None
        return TypeAdapter(list[Signature]).validate_json(body)
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def keep(made_of: str, signatures: Iterable[Signature]) -> None:
    """Keep them for the next start, where the folder can be written."""
    body = TypeAdapter(list[Signature]).dump_json(list(signatures), exclude_defaults=True)
    file = cache_file()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, _head(made_of, body).encode() + b"\n" + body, mode=0o600)


def _head(made_of: str, body: bytes) -> str:
    return f"{made_of} {hashlib.sha256(body).hexdigest()}"
