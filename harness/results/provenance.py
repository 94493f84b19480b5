"""What an experiment ran with: code, packages, hardware, config, seeds, command.

In: paths known before the launch. Out: a JSON-ready dict for `provenance.json`, redacted. It never fails a
run: what cannot be found out is null, and `problems` says why. Every child process has a time limit.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.machine.gpus import GpuError, read_gpus
from harness.redaction import redact, secret_values

_MAX_DIFF = 200_000  # characters of a dirty diff that are kept
_GIT_LIMIT_S = 20.0
_PACKAGES_LIMIT_S = 60.0
_LIST_PACKAGES = (
    "import importlib.metadata as m, json, platform, sys; "
    "print(json.dumps({'python': platform.python_version(), 'executable': sys.executable, "
    "'packages': {d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}}))"
)


def gather(
    codebase_dir: Path | str, venv_exe: Path | str, config_path: Path | str | None, command: str | None
) -> dict[str, Any]:
    """Everything needed to say later what this experiment was run with; `command` None is a derived one."""
    problems: list[str] = []
    known = secret_values(os.environ)
    config = _config(config_path, problems)
    return {
        "command": redact(command, known) if command is not None else None,
        "codebase_dir": str(codebase_dir),
        "git": _git(codebase_dir, known, problems),
        "interpreter": interpreter(venv_exe, problems),
        "config": {
            "path": str(config_path) if config_path else None,
            "sha256": hashlib.sha256(config.encode()).hexdigest() if config is not None else None,
        },
        "seeds": _seeds(config or "{}", problems),
        "hardware": _hardware(problems),
        "system": {
            "platform": platform.platform(),
            "host": platform.node(),
            "harness_python": platform.python_version(),
        },
        "problems": problems,
    }


def _run(argv: list[str], cwd: Path | str | None, limit_s: float) -> str:
    """What a command prints. Raises OSError or subprocess.SubprocessError."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    none = subprocess.DEVNULL
    return subprocess.run(
        argv, cwd=cwd, env=environment, stdin=none, capture_output=True, timeout=limit_s, check=True
    ).stdout.decode(errors="replace")


def _git(folder: Path | str, known: tuple[str, ...], problems: list[str]) -> dict[str, Any] | None:
    asked = (
        *("rev-parse HEAD", "rev-parse --abbrev-ref HEAD"),
        *("status --porcelain -- .", "diff HEAD --no-ext-diff --no-color -- ."),
    )
    try:
        told = [_run(["git", *words.split()], folder, _GIT_LIMIT_S) for words in asked]
    except (OSError, subprocess.SubprocessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
        reason = said.decode(errors="replace").strip().partition("\n")[0]
        problems.append(f"git: {reason or error} ({folder})")
        return None
    commit, branch, status, diff = told[0].strip(), told[1].strip(), told[2], redact(told[3], known)
    return {
        "commit": commit,
        "branch": branch,
        "dirty": bool(status.strip()),
        "changed_files": status.splitlines()[:200],
        "diff": diff[:_MAX_DIFF],
        "diff_is_cut": len(diff) > _MAX_DIFF,
    }


def interpreter(venv_exe: Path | str, problems: list[str]) -> dict[str, Any] | None:
    try:
        found = json.loads(_run([str(venv_exe), "-c", _LIST_PACKAGES], None, _PACKAGES_LIMIT_S))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        problems.append(f"packages of {venv_exe}: {error}")
        return None
    found["packages"] = dict(sorted(found["packages"].items(), key=lambda item: item[0].lower()))
    return dict(found)


def _config(path: Path | str | None, problems: list[str]) -> str | None:
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problems.append(f"config {path}: {error.strerror}")
        return None


def _seeds(text: str, problems: list[str]) -> dict[str, Any]:
    """Every config key that is called a seed, dotted."""
    from harness.config.edit import ConfigEditError, leaves

    try:
        values = leaves(text)
    except ConfigEditError as error:
        problems.append(f"config: not YAML ({str(error).partition(chr(10))[0]})")
        return {}
    return {key: value for key, value in values.items() if "seed" in key.rpartition(".")[2].lower()}


def _hardware(problems: list[str]) -> dict[str, Any]:
    import psutil

    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "usable_threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": _gpus(problems),
    }


def _cpu_model() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(names, "") or platform.machine()
    return platform.processor() or platform.machine()


def _gpus(problems: list[str]) -> list[str]:
    try:
        found = read_gpus(10.0)
    except GpuError as error:
        problems.append(f"GPUs: {error}")
        return []
    return [f"{gpu.name}, {gpu.memory_total_bytes >> 20} MiB, {found.driver}" for gpu in found.gpus]
