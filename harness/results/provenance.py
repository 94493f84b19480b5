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
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.environment import known_secrets
from harness.machine.gpus import GpuError, read_gpus
from harness.redaction import Secrets, redact

_MAX_DIFF = 200_000  # characters of a dirty diff that are kept
_GIT_LIMIT_S = 20.0
_PACKAGES_LIMIT_S = 60.0
_LIST_PACKAGES = r"""
import importlib.metadata, json, platform, re, sys
packages = {}
for found in importlib.metadata.distributions():
    text = (found.read_text("METADATA") or found.read_text("PKG-INFO") or "") + "\n\n"
    head = text[:text.index("\n\n")]  # the parser of importlib.metadata takes long
    name, version = (re.search("(?mi)^%s: *(.*?) *$" % key, head) for key in ("Name", "Version"))
    if name and version:
        packages.setdefault(name[1], version[1])
print(json.dumps({"python": platform.python_version(), "executable": sys.executable, "packages": packages}))
"""
_Found = TypeVar("_Found")


def gather(
    codebase_dir: Path | str,
    venv_exe: Path | str,
    config_path: Path | str | None,
    command: str | None,
    variables: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Everything needed to say later what this experiment was run with; `command` None is a derived one.
    `variables`: their names."""
    problems: list[str] = []
    known = known_secrets()
    read = partial(Path(config_path or "").read_text, encoding="utf-8", errors="replace")
    config = _tried(f"config {config_path}", read, problems) if config_path is not None else None
    return {
        "command": redact(command, known) if command is not None else None,
        "codebase_dir": str(codebase_dir),
        "git": _tried(f"git of {codebase_dir}", lambda: _git(codebase_dir, known), problems),
        "interpreter": interpreter(venv_exe, problems),
        "config": {
            "path": str(config_path) if config_path else None,
            "sha256": hashlib.sha256(config.encode()).hexdigest() if config is not None else None,
        },
        "seeds": _tried("config", lambda: _seeds(config or "{}"), problems) or {},
        "hardware": {**_hardware(), "gpus": _tried("GPUs", _gpus, problems) or []},
        "system": {
            "platform": platform.platform(),
            "host": platform.node(),
            "harness_python": platform.python_version(),
        },
        "environment": variables,
        "problems": problems,
    }


def interpreter(venv_exe: Path | str, problems: list[str]) -> dict[str, Any] | None:
    """The version of a Python and its packages; why they are not known is added to `problems`."""

    def read() -> dict[str, Any]:
        found = json.loads(_run([str(venv_exe), "-c", _LIST_PACKAGES], None, _PACKAGES_LIMIT_S))
        in_order = sorted(found["packages"].items(), key=lambda item: item[0].lower())
        return {**found, "packages": dict(in_order)}

    return _tried(f"packages of {venv_exe}", read, problems)


def _tried(what: str, find_out: Callable[[], _Found], problems: list[str]) -> _Found | None:
    """What was found out, or None and a line in `problems`."""
    try:
        return find_out()
    except subprocess.CalledProcessError as error:
        problems.append(
            f"{what}: {error.stderr.decode(errors='replace').strip().partition(chr(10))[0] or error}"
        )
    except (OSError, subprocess.SubprocessError, ValueError, GpuError) as error:
        problems.append(f"{what}: {str(error).partition(chr(10))[0]}")
    return None


def _run(argv: list[str], cwd: Path | str | None, limit_s: float) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    none = subprocess.DEVNULL
    return subprocess.run(
        argv, cwd=cwd, env=environment, stdin=none, capture_output=True, timeout=limit_s, check=True
    ).stdout.decode(errors="replace")


def _git(folder: Path | str, known: Secrets) -> dict[str, Any]:
    asked = (
        *("rev-parse HEAD", "rev-parse --abbrev-ref HEAD"),
        *("status --porcelain -- .", "diff HEAD --no-ext-diff --no-color -- ."),
    )
    told = [_run(["git", *words.split()], folder, _GIT_LIMIT_S) for words in asked]
    commit, branch, status, diff = told[0].strip(), told[1].strip(), told[2], redact(told[3], known)
    return {
        "commit": commit,
        "branch": branch,
        "dirty": bool(status.strip()),
        "changed_files": status.splitlines()[:200],
        "diff": diff[:_MAX_DIFF],
        "diff_is_cut": len(diff) > _MAX_DIFF,
    }


def _seeds(text: str) -> dict[str, Any]:
    """Every config key that is called a seed, dotted."""
    from harness.config.edit import leaves

    return {key: value for key, value in leaves(text).items() if "seed" in key.rpartition(".")[2].lower()}


def _hardware() -> dict[str, Any]:
    import psutil

    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "usable_threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
    }


def _cpu_model() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(names, "") or platform.machine()
    return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    found = read_gpus(10.0)
    return [f"{gpu.name}, {gpu.memory_total_bytes >> 20} MiB, {found.driver}" for gpu in found.gpus]
