"""Launches to examine, made of a few words."""

import json
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.blueprint.types import Blueprint
from harness.doctor.findings import Finding
from harness.doctor.launch import PlannedLaunch, planned
from tests.harness.runs import planned as planned_experiment


def plan(folder: Path, command: str | None = None, config: str | None = None, **changed: Any) -> Blueprint:
    """A plan whose codebase is `folder`; `config` is written there as config.yaml."""
    if config is not None and folder.is_dir():
        (folder / "config.yaml").write_text(config, encoding="utf-8")
    given: dict[str, Any] = {"name": "exam", "max_time_s": 3600.0, "first_step_s": 1200.0}
    given |= {"path": folder / "blueprint.md", "codebase_dir": folder, "result_dir": folder / "results"}
    given |= {"launch_command": command, "venv_exe": sys.executable}
    given["yaml_path"] = None if config is None else folder / "config.yaml"
    return planned_experiment({**given, **changed})


def launch(folder: Path, *given: str | None, variables: Any = None, **changed: Any) -> PlannedLaunch:
    """The launch of such a plan, with `variables` set."""
    return planned(plan(folder, *given, **changed), folder / "results", repairs=variables)


Bad = list[tuple[str, str]]


def bad(found: Iterable[Finding]) -> Bad:
    """(severity, family) of everything that is not fine."""
    return [(finding.severity, finding.predicts) for finding in found if finding.severity != "ok"]


def model(folder: Path) -> Path:
    """A small but complete model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "qwen2"}')
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (folder / "model.safetensors").write_bytes(safetensors(b"\0" * 64))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def safetensors(data: bytes) -> bytes:
    """A whole safetensors file with one tensor of bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data
