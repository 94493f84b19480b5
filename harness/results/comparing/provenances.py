"""What runs were carried out with, held against each other: interpreter, packages, hardware; and their code.

In: each run's provenance.json by the run's name. Out: one sentence per difference, with the runs that have
each value.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.config.edit import Scalar
from harness.results.raw import json_file
from harness.wording import listed, shortened, value_text

CODE = "code"
_MOST_NAMED = 6
_LONGEST = 60  # characters of a value

Records = Mapping[str, Mapping[str, Any]]
"""Run to what its provenance.json holds."""


def records_of(folders: Mapping[str, Path]) -> Records:
    """The records of these runs, by name; runs without a readable one are left out."""
    found = {
        name: json_file(folder / "provenance.json", "provenance.json", []) for name, folder in folders.items()
    }
    return {name: record for name, record in found.items() if record}


def code_of(folder: Path) -> dict[str, str]:
    """The commit of a run's code, with a fingerprint of uncommitted changes; {} where none is known."""
    record = json_file(folder / "provenance.json", "provenance.json", []) or {}
    git = _below(record, "git")
    if not git.get("commit"):
        return {}
    changes = hashlib.sha256(str(git.get("diff")).encode()).hexdigest()[:8]
    return {CODE: f"{git['commit'][:12]}{f' with changes {changes}' if git.get('dirty') else ''}"}


def surroundings(records: Records) -> Iterator[str]:
    """Python, hardware and packages that differ; what a run does not record counts as equal."""
    interpreters = _parts(records, "interpreter")
    yield from _differing("Python", {name: one.get("python") for name, one in interpreters.items()})
    hardware = _parts(records, "hardware")
    for key, label in (("cpu", "CPU"), ("gpus", "GPU"), ("usable_threads", "number of usable threads")):
        yield from _differing(label, {name: one.get(key) for name, one in hardware.items()})
    packages = {name: one["packages"] for name, one in interpreters.items() if one.get("packages")}
    known = sorted({package for one in packages.values() for package in one}, key=str.lower)
    versions = [{name: one.get(package, "absent") for name, one in packages.items()} for package in known]
    differing = [
        f"{package} {_by_value(found, ', ')}"
        for package, found in zip(known, versions, strict=True)
        if len(set(found.values())) > 1
    ]
    if differing:
        yield f"packages differ: {listed(differing, _MOST_NAMED, '; ')}"


def differs(what: str, values: Mapping[str, Scalar]) -> str:
    """`git commit differs: 1a2b (a, b); 3c4d (c)`: each value with the runs that have it."""
    return f"{what} differs: {_by_value(values, '; ')}"


def _differing(what: str, values: Mapping[str, Any]) -> Iterator[str]:
    shown = {name: _shown(value) for name, value in values.items()}
    if len(set(shown.values())) > 1:
        yield differs(what, shown)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        counts = Counter(map(str, value))
        return ", ".join(f"{n} × {one}" if n > 1 else one for one, n in counts.items()) or "none"
    return "unknown" if value is None else str(value)


def _parts(records: Records, key: str) -> dict[str, Mapping[str, Any]]:
    """One part of the records, of the runs that have it."""
    return {name: part for name, record in records.items() if (part := _below(record, key))}


def _below(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = record.get(key)
    return found if isinstance(found, Mapping) else {}


def _by_value(values: Mapping[str, Scalar], separator: str) -> str:
    """Each value with its runs, the most common one first."""
    runs: dict[str, list[str]] = {}
    for run, value in values.items():
        runs.setdefault(value_text(value), []).append(run)
    ordered = sorted(runs.items(), key=lambda item: -len(item[1]))
    return separator.join(
        f"{shortened(value, _LONGEST)} ({listed(names, _MOST_NAMED)})" for value, names in ordered
    )
