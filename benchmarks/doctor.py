"""How many small launches that really fail `harness doctor` foresees, and how often it cries wolf.

`python benchmarks/doctor.py [--smoke] [NAME.yaml ...] [FOLDER OF ANOTHER VERSION]`: every launch of
`tests/faults/launches/` is run and examined; one that must fail is foreseen where a problem or a warning
names its family. A healthy one must bring neither. Prints one line per launch, with the doctor's seconds.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.config import edit
from harness.self_command import HARNESS

ROOT = Path(__file__).parents[1]
LAUNCHES = ROOT / "tests/faults/launches"
HEALTHY = "healthy.yaml"
_BLUEPRINT = """# [exp_purpose]
See whether it starts.

# [exp_codebase_dir]
{folder}

# [exp_venv_exe]
{python}

# [exp_yaml_path]
{config}

# [exp_launch_command]
```bash
{command}
```

# [exp_result_dir]
{folder}/results
"""
_RUN_S, _EXAMINE_S = 120.0, 300.0
_RAN_LONG = 124


def main() -> None:
    words = sys.argv[1:]
    named = [word for word in words if word.endswith(".yaml")] or ["launches.yaml", "later.yaml", HEALTHY]
    version = next((Path(word).resolve() for word in words if Path(word).is_dir()), ROOT)
    for name in named:
        text = (LAUNCHES / name).read_text(encoding="utf-8")
        there = [each for each in edit.load(f"launches:\n{_indented(text)}")["launches"] if _can_run(each)]
        good = sum(_judged(each, version, "--smoke" in words, name == HEALTHY) for each in there)
        what = "without a false alarm" if name == HEALTHY else "foreseen"
        print(f"\n{name}: {good} of {len(there)} {what} ({100 * good / len(there):.0f} %)\n", flush=True)


def _can_run(launch: dict[str, Any]) -> bool:
    """True if the modules are there without which it fails of something else."""
    return all(importlib.util.find_spec(module) is not None for module in launch.get("needs", ()))


def _judged(launch: dict[str, Any], version: Path, smoke: bool, is_healthy: bool) -> bool:
    """Print one line; True where the doctor was right."""
    status, found, took_s = _examined(launch, version, smoke)
    bad = [each for each in found if each["severity"] != "ok"]
    right = not bad if is_healthy else bool({each["predicts"] for each in bad} & set(launch["family"]))
    note = "" if is_healthy == (status == 0) else f"  ENDS WITH STATUS {status}"
    said = "" if right else "".join(f"\n    [{each['predicts']}] {each['text'][:150]}" for each in bad)
    print(f"{'right' if right else 'WRONG'} {took_s:5.1f} s  {launch['name']}{note}{said}", flush=True)
    return right


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _examined(launch: dict[str, Any], version: Path, smoke: bool) -> tuple[int, list[dict[str, Any]], float]:
    """(status of the command, findings of the doctor, how long it took) in a folder of its own."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        folder = Path(name).resolve()
        port = str(taken.getsockname()[1])

        def filled(text: str) -> str:
            text = text.replace("{folder}", str(folder)).replace("{taken}", port)
            return text.replace("{many_rows}", "".join(f"{row},0.5\n" for row in range(1, 71)))

        files = dict(launch.get("files", {}))
        if "config" in launch:
            files["config.yaml"] = launch["config"]
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(filled(content), encoding="utf-8")
            (folder / path).chmod(int(launch.get("modes", {}).get(path, 0o644)))
        command, python = filled(launch["command"]), filled(launch.get("python", sys.executable))
        config = "config.yaml" if "config" in launch else "NA"
        (folder / "blueprint.md").write_text(
            _BLUEPRINT.format(folder=folder, python=python, config=config, command=command), encoding="utf-8"
        )
        began = time.monotonic()
        examined = subprocess.run(
            [*HARNESS, "doctor", str(folder / "blueprint.md"), "--json", *(["--smoke"] if smoke else [])],
            **_quiet(version, version, _EXAMINE_S),
        )
        took_s = time.monotonic() - began
        environment = {"PATH": f"{Path(python).parent}:/usr/bin:/bin"} if "python" in launch else {}
        try:
            ran = subprocess.run(["bash", "-c", command], **_quiet(folder, version, _RUN_S, environment))
            status = ran.returncode
        except subprocess.TimeoutExpired:
            status = _RAN_LONG
        try:
            return status, json.loads(examined.stdout)["findings"], took_s
        except ValueError:
            print(examined.stdout[-2000:], examined.stderr[-2000:])
            raise


def _quiet(cwd: Path, version: Path, limit_s: float, environment: dict[str, str] | None = None) -> Any:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PYTHONPATH": str(version), **(environment or {})}
    return {
        "cwd": cwd,
        "env": variables,
        "timeout": limit_s,
        "capture_output": True,
        "text": True,
        "stdin": subprocess.DEVNULL,
    }


if __name__ == "__main__":
    main()
