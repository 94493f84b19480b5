"""What runs were carried out with, held against each other: interpreter, packages, hardware; and their code.

In: each run's provenance.json by the run's name. Out: what differs, with the runs that have each value; what
a run does not record counts as equal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.config.values import as_text, flatten
from harness.results.comparing.types import Differing
from harness.results.raw import json_file
from harness.wording import listed, shortened

CODE = "code"
_MOST_NAMED = 6
_LONGEST = 60  # characters of a value
_PACKAGES = "interpreter.packages."
_PROGRAMS = (".py", ".sh", ".ipynb")
_LABELS = {
    "interpreter.python": "Python",
    "hardware.cpu": "CPU",
    "hardware.gpus": "GPU",
    "hardware.usable_threads": "number of usable threads",
}

Records = Mapping[str, Mapping[str, Any]]
"""Run to what its provenance.json holds."""


def records_of(folders: Mapping[str, Path]) -> Records:
    """The records of these runs, by name; runs without a readable one are left out."""
    found = {name: json_file(folder / "provenance.json", "", []) for name, folder in folders.items()}
    return {name: record for name, record in found.items() if record}


def code_of(folder: Path) -> dict[str, str]:
    """The commit of a run's code, with a fingerprint of uncommitted changes; without one that of the programs
    which its sweep froze; {} where neither is known."""
    git = (json_file(folder / "provenance.json", "", []) or {}).get("git") or {}
    if not git.get("commit"):
        frozen = json_file(folder.parent / "snapshot" / "files.json", "", []) or {}
        programs = sorted((name, str(digest)) for name, digest in frozen.items() if name.endswith(_PROGRAMS))
        return {CODE: hashlib.sha256(str(programs).encode()).hexdigest()[:12]} if programs else {}
    changes = hashlib.sha256(str(git.get("diff")).encode()).hexdigest()[:8]
    return {CODE: f"{git['commit'][:12]}{f' with changes {changes}' if git.get('dirty') else ''}"}


def surroundings(records: Records) -> Iterator[Differing]:
    """Python, hardware and packages that differ; those packages as one."""
    flat = {name: flatten(record) for name, record in records.items()}
    found = {
        label: {name: _shown(one[key]) for name, one in flat.items() if one.get(key) is not None}
        for key, label in _LABELS.items()
    }
    of = {name: {key: one[key] for key in one if key.startswith(_PACKAGES)} for name, one in flat.items()}
    of = {name: packages for name, packages in of.items() if packages}
    known = sorted({key for packages in of.values() for key in packages}, key=str.lower)
    unlike = [key for key in known if len({str(packages.get(key)) for packages in of.values()}) > 1]
    found["set of packages"] = {
        name: ", ".join(f"{key.removeprefix(_PACKAGES)} {packages.get(key, 'absent')}" for key in unlike)
        for name, packages in of.items()
    }
    return (Differing(what, values) for what, values in found.items() if len({*values.values()}) > 1)


def differs(what: str, values: Mapping[str, Any]) -> str:
    """`git commit differs: 1a2b (a, b); 3c4d (c)`: each value with its runs, the commonest first."""
    runs: dict[str, list[str]] = {}
    for run, value in values.items():
        runs.setdefault(as_text(value), []).append(run)
    ordered = sorted(runs.items(), key=lambda item: -len(item[1]))
    shown = [(shortened(value, _LONGEST), listed(names, _MOST_NAMED)) for value, names in ordered]
    return f"{what} differs: {'; '.join(f'{value} ({names})' for value, names in shown)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        counts = Counter(map(str, value))
        return ", ".join(f"{n} × {one}" if n > 1 else one for one, n in counts.items()) or "none"
    return str(value)
