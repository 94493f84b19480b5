"""Ask the bundled trainer about a config or its keys, as a program: the harness never imports it."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.blueprint.types import Severity

TIMEOUT_S = 60.0

_MODULE = "trainer_core.cli"
_FROM_ELSEWHERE = (
    "import os, runpy, sys; sys.path[:1] = filter(None, sys.path[:1]); os.chdir(sys.argv.pop(1)); "
    f"runpy.run_module({_MODULE!r}, run_name='__main__', alter_sys=True)"
)
"""Starts the trainer where there is nothing to import; it finds a config's relative paths all the same."""


@dataclass(frozen=True)
class Verdict:
    """The trainer's answer."""

    remarks: tuple[tuple[str, str, Severity], ...] = ()
    """(message with file and key, how to fix it, severity) of everything it noted."""
    failure: str = ""
    """Why there is no answer; empty when there is one."""
    about_data: bool = False
    """The config is right, and the data it names is not there or not right (yet)."""


def ask_trainer(python: Path, config: Path | None, cwd: Path) -> Verdict:
    """The verdict of the trainer that `python` finds from the directory `cwd`; without a config, whether
    it is there.

    Takes about a second and trains nothing, but runs code of the directory: its packages come first.
    """
    return _verdict([str(python), "-m", _MODULE], config, cwd)


def ask_own_trainer(config: Path, codebase: Path) -> Verdict:
    """The verdict of the trainer that is installed beside the harness; no code of the codebase is run."""
    if not codebase.is_dir():
        return Verdict(failure=f"the codebase {codebase} is not a folder")
    with tempfile.TemporaryDirectory() as empty:
        program = [sys.executable, "-c", _FROM_ELSEWHERE, str(codebase)]
        return _verdict(program, config, Path(empty))


def explain_keys() -> list[dict[str, Any]]:
    """Every key of the trainer that is installed beside the harness, as it explains them itself. Raises
    SubprocessError, OSError, ValueError."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-m", _MODULE, "--explain", "*", "--json"]
        done = _run(command, Path(empty))
    done.check_returncode()
    return list(json.loads(done.stdout))


def _run(command: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=cwd,
        start_new_session=True,  # Ctrl-C is for the harness, which decides what becomes of the answer
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )


def _verdict(program: list[str], config: Path | None, cwd: Path) -> Verdict:
    arguments = ["--conf", str(config), "--dry-run", "--json"] if config else ["--help"]
    try:
        done = _run([*program, *arguments], cwd)
    except subprocess.TimeoutExpired:
        return Verdict(failure=f"the trainer of {program[0]} did not answer within {TIMEOUT_S:g} s")
    except OSError as error:
        return Verdict(failure=f"{program[0]} does not start: {error.strerror}")
    if config is None and done.returncode == 0:
        return Verdict()
    try:
        answer = json.loads(done.stdout)
        severity: Severity = "warning" if answer["ok"] else "error"
        noted = answer["warnings"] if answer["ok"] else answer["problems"]
        remarks = tuple((*_sentence(remark), severity) for remark in noted)
        return Verdict(remarks, about_data=answer.get("stage") == "data")
    except (ValueError, TypeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Verdict(failure=f"{program[0]} cannot run the bundled trainer: {last}")


def _sentence(remark: dict[str, Any]) -> tuple[str, str]:
    what = " ".join(filter(None, (remark.get("key"), remark["message"]))).rstrip(".")
    where = remark.get("where")
    return (f"{where}: {what}" if where else what), remark.get("fix") or "correct the config"
