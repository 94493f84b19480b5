"""Reads a text as a log file."""

from collections.abc import Iterable
from pathlib import Path

from harness.diagnosis.reading import read
from harness.diagnosis.types import Fault, Log


def log_of(folder: Path, text: str | bytes, words: Iterable[str] = (), **options: int) -> Log:
    path = folder / "log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path, words, **options)


def faults_of(folder: Path, text: str, words: Iterable[str] = ()) -> tuple[Fault, ...]:
    return log_of(folder, text, words).faults


def only_fault(folder: Path, text: str, words: Iterable[str] = ()) -> Fault:
    (fault,) = faults_of(folder, text, words)
    return fault
