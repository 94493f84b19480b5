"""The failures of the laboratory (`CASES`) and trainings that only look ill (`HEALTHY`): see `cases.yaml`."""

from collections.abc import Mapping
from pathlib import Path
from signal import Signals
from typing import Any

import yaml

from tests.faults.lab.types import MIB, Case, Kill, Limits

QUICKSTART = Path(__file__).parents[3] / "blueprints" / "quickstart" / "config.yaml"
SIZES = ("address_space", "file_size", "memory", "disk", "shm")


def quickstart(changes: Mapping[str, str]) -> str:
    """The quickstart's config with texts of it replaced; each must stand there."""
    text = QUICKSTART.read_text()
    for old, new in changes.items():
        assert old in text, f"{QUICKSTART} no longer holds {old!r}"
        text = text.replace(old, new, 1)
    return text


def _case(entry: dict[str, Any]) -> Case:
    files = entry.pop("files", {})
    if encoding := entry.pop("encoding", None):
        files = {name: text.encode(encoding) for name, text in files.items()}
    if changes := entry.pop("changes", None):
        files = {"config.yaml": quickstart(changes), **files}
        entry |= {"program": "ajet.py", "arguments": ("--conf", "config.yaml"), "warm": True}
    limits = entry.pop("limits", {})
    limits = {name: value * MIB if name in SIZES else value for name, value in limits.items()}
    kill = entry.pop("kill", None)
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    return Case(
        **{"root": "", **entry, **lists},
        files=files,
        limits=Limits(**limits),
        kill=kill and Kill(Signals[kill["signal"]], kill["after"]),
    )


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
CASES, HEALTHY = (tuple(map(_case, _TABLE[part])) for part in ("cases", "healthy"))
