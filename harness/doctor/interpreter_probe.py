"""Ask the experiment's own interpreter what it has, in one short process.

In: the interpreter and the modules that are wanted. Out: a `Probe`, or the `ProbeError` that says why there
is no answer.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.doctor.sources import Wanted

LIMIT_S = 20.0
PACKAGES = (
    "numpy", "torch", "torchvision", "torchaudio", "transformers", "tokenizers", "huggingface-hub",
    "safetensors", "vllm", "xformers", "flash-attn", "ray", "verl", "trl", "accelerate", "peft", "deepspeed",
    "datasets",
)  # fmt: skip
_FOLDERS = ("torch", "verl")
_PROGRAM = Path(__file__).with_name("probe.py")


@dataclass(frozen=True)
class Package:
    """An installed package: its version and what it requires, as its metadata say."""

    version: str
    requires: tuple[str, ...]


@dataclass(frozen=True)
class Probe:
    """What the interpreter answered. `modules`: found or not. `folders`: of some packages that are there."""

    version: tuple[int, int, int]
    modules: Mapping[str, bool]
    packages: Mapping[str, Package]
    folders: Mapping[str, Path]


@dataclass(frozen=True)
class ProbeError:
    """Why there is no answer, in words for people."""

    reason: str


def look_into(
    python: Path, wanted: Wanted, environment: Mapping[str, str], cwd: Path
) -> "Probe | ProbeError":
    """Start the interpreter and ask it. Never raises."""
    question = {
        "modules": sorted(wanted.modules),
        "packages": PACKAGES,
        "folders": _FOLDERS,
        "search": [str(folder) for folder in wanted.search],
    }
    try:
        done = subprocess.run(
            [str(python), "-c", _PROGRAM.read_text(encoding="utf-8")],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
            cwd=cwd if cwd.is_dir() else None,
            env=dict(environment),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return ProbeError(f"did not answer within {LIMIT_S:g} s")
    except OSError as error:
        return ProbeError(f"does not start: {error.strerror}")
    return _read(done)


def _read(done: "subprocess.CompletedProcess[str]") -> "Probe | ProbeError":
    lines = [line for line in done.stdout.splitlines() if line.startswith("harness-doctor:")]
    if done.returncode != 0 or not lines:
        said = (done.stderr.strip().splitlines() or ["it is no Python, or says nothing"])[-1]
        return ProbeError(f"ends with status {done.returncode}: {said[:300]}")
    answer = json.loads(lines[-1].partition(":")[2])
    packages = {
        name: Package(found["version"], tuple(found["requires"]))
        for name, found in answer["packages"].items()
        if found and found["version"]
    }
    folders = {name: Path(folder) for name, folder in answer["folders"].items() if folder}
    return Probe(tuple(answer["version"]), answer["modules"], packages, folders)
