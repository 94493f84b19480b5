"""What differs between runs beside the keys: settings nobody varied, code, packages, hardware.

In: a study and its runs' files. Out: one sentence per difference, each a reason to doubt that the keys made
the results differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.config_edit import Scalar
from harness.results.comparing.notes import listed
from harness.results.comparing.runs import RunFiles
from harness.results.comparing.settings import differing, settings_of
from harness.results.comparing.types import Study
from harness.results.deviations import value_text
from harness.results.raw import json_file

_MOST_SETTINGS = 20
_LONGEST = 60  # characters of a value


def differences(study: Study, files: Sequence[RunFiles]) -> tuple[str, ...]:
    """Everything known to differ. The settings of a planned study were compared before it began."""
    started = [one for one in files if one.record.attempts]
    settings = _settings(study, started) if study.design == "given" else ()
    return (*settings, *_provenance(started))


def _settings(study: Study, files: Sequence[RunFiles]) -> Iterator[str]:
    keys = {key.name for key in study.keys}
    found = {
        name: values
        for name, values in differing([settings_of(one) for one in files]).items()
        if name not in keys
    }
    for name, values in list(found.items())[:_MOST_SETTINGS]:
        yield _told(name, values, files)
    if len(found) > _MOST_SETTINGS:
        yield f"{len(found) - _MOST_SETTINGS} more settings differ"


def _provenance(files: Sequence[RunFiles]) -> Iterator[str]:
    records = [
        (json_file(one.run.folder / "provenance.json", "provenance.json", []) or {}, one) for one in files
    ]
    known = [(record, one) for record, one in records if record]
    if not known:
        return
    whose = [one for _, one in known]
    facts = [_facts(record) for record, _ in known]
    for name in facts[0]:
        values = [fact[name] for fact in facts]
        if len(set(values)) > 1:
            yield _told(name, values, whose)
    packages = [_below(record, "interpreter").get("packages") or {} for record, _ in known]
    names = sorted({name for one in packages for name in one}, key=str.lower)
    changed = [name for name in names if len({one.get(name) for one in packages}) > 1]
    if changed:
        yield f"packages differ: {listed([_versions(name, packages) for name in changed])}"


def _facts(record: Mapping[str, Any]) -> dict[str, Scalar]:
    git, hardware = _below(record, "git"), _below(record, "hardware")
    return {
        "git commit": (git.get("commit") or "none")[:12],
        "uncommitted changes": _changes(git),
        "Python": _below(record, "interpreter").get("python") or "unknown",
        "CPU": hardware.get("cpu") or "unknown",
        "GPUs": ", ".join(hardware.get("gpus") or []) or "none",
    }


def _changes(git: Mapping[str, Any]) -> str:
    """Uncommitted changes, told apart by what they are; the diff itself is too long to show."""
    if not git.get("dirty"):
        return "none"
    return f"diff {hashlib.sha256(str(git.get('diff')).encode()).hexdigest()[:8]}"


def _below(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = record.get(key)
    return found if isinstance(found, Mapping) else {}


def _versions(name: str, packages: Sequence[Mapping[str, Any]]) -> str:
    return f"{name} {' / '.join(dict.fromkeys(str(one.get(name, 'absent')) for one in packages))}"


def _told(name: str, values: Sequence[Scalar], files: Sequence[RunFiles]) -> str:
    """`git commit differs: 1a2b (a, b); 3c4d (c)`."""
    runs: dict[str, list[str]] = {}
    for value, one in zip(values, files, strict=True):
        text = value_text(value)
        runs.setdefault(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", []).append(
            one.run.name
        )
    return f"{name} differs: " + "; ".join(f"{value} ({listed(names)})" for value, names in runs.items())
