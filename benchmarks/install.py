"""What `pip install .` and `uv tool install .` cost: seconds and MiB, in a fresh environment.

`python benchmarks/install.py [PYTHON ...]` installs this checkout with each interpreter (default: this one),
runs `harness --version` in it, and looks for packages of the trainer that must not be there. The versions are
those of constraints.txt. uv is measured where it is installed, with an empty cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _claim import Row, parser, publish

ROOT = Path(__file__).parents[1]
NOT_WANTED = ("torch", "transformers", "tokenizers", "safetensors", "datasets", "pyarrow", "swanlab")
MOST_S, MOST_MIB = 60, 500


def mebibytes(folder: Path) -> float:
    """Space on disk of everything below the folder, as `du -m` counts it."""
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*")) / 2**20


def measured(folder: Path, *commands: Sequence[str | Path]) -> dict[str, object]:
    """Run the commands, which install into the folder; what they cost and brought."""
    before, used = time.monotonic(), os.times()
    for command in commands:
        subprocess.run([*map(str, command)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.monotonic() - before, os.times()
    (harness,) = (path for path in folder.rglob("bin/harness") if path.is_file() and not path.is_symlink())
    version = subprocess.run([harness, "--version"], check=True, capture_output=True, text=True).stdout
    found = {path.name for path in folder.rglob("site-packages/*")}
    return {
        "version": version.strip(),
        "seconds": seconds,
        "cpu_s": sum(after[2:4]) - sum(used[2:4]),
        "mib": mebibytes(folder),
        "not_wanted": sorted(found & set(NOT_WANTED)),
    }


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("pythons", nargs="*", default=[sys.executable])
    options = asked.parse_args()
    rows, raw = [], []
    for python in options.pythons:
        with tempfile.TemporaryDirectory() as name:
            folder, constraints = Path(name) / "venv", ROOT / "constraints.txt"
            pip = (folder / "bin/python", "-m", "pip", "install", "-q", ".", "-c", constraints)
            ways = {"pip install .": measured(folder, (python, "-m", "venv", folder), pip)}
        if uv := shutil.which("uv"):
            with tempfile.TemporaryDirectory() as name:
                os.environ.update(
                    {f"UV_{what}_DIR": f"{name}/{what}" for what in ("CACHE", "TOOL", "TOOL_BIN")}
                )
                install = (uv, "tool", "install", "-q", "--python", python, ".", "-c", constraints)
                ways["uv tool install ."] = measured(Path(name) / "TOOL", install)
        for way, cost in ways.items():
            what = f"{way} · {cost['version']}"
            took = f"{cost['seconds']:.0f} s ({cost['cpu_s']:.0f} s CPU)"
            rows += [
                Row(f"{what}: time", took, f"< {MOST_S} s", ""),
                Row(f"{what}: size", f"{cost['mib']:.0f} MiB", f"< {MOST_MIB} MiB", ""),
                Row(f"{what}: packages of the trainer", f"{cost['not_wanted'] or 'none'}", "none", ""),
            ]
            raw.append({"way": way, **cost})
    publish("Installing the harness", rows, options, raw)


if __name__ == "__main__":
    main()
