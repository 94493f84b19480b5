"""How many small launches that really fail `harness doctor` foresees.

`python benchmarks/doctor.py [FOLDER OF ANOTHER VERSION]`: every launch of `tests/faults/launches/` is run (it
must fail) and examined; it is foreseen where a problem or a warning names its family. A healthy launch beside
them must bring neither. Prints one line per launch.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.config import edit
from harness.self_command import HARNESS

ROOT = Path(__file__).parents[1]
LAUNCHES = ROOT / "tests/faults/launches/launches.yaml"
HEALTHY = {
    "name": "healthy",
    "family": [],
    "command": "python train.py --config config.yaml --epochs 1",
    "config": "optim:\n  lr: 1.0e-4\ndata:\n  train_file: data/train.jsonl\n",
    "files": {
        "train.py": "import argparse\nimport yaml\np = argparse.ArgumentParser()\n"
        "p.add_argument('--config')\np.add_argument('--epochs', type=int)\na = p.parse_args()\n"
        "print(yaml.safe_load(open(a.config))['data'])\n",
        "data/train.jsonl": '{"prompt": "a", "answer": "b"}\n',
    },
}
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


def main() -> None:
    version = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    launches = edit.load(f"launches:\n{_indented(LAUNCHES.read_text(encoding='utf-8'))}")["launches"]
    foreseen = 0
    for launch in launches:
        status, found = _examined(launch, version)
        families = {each["predicts"] for each in found if each["severity"] != "ok"} - {""}
        is_foreseen = bool(families & set(launch["family"]))
        foreseen += is_foreseen
        note = "" if status else "  DOES NOT FAIL"
        mark = "foreseen" if is_foreseen else "  missed"
        print(f"{mark}  {launch['family'][0]:20} {launch['name']}{note}", flush=True)
    print(f"\n{foreseen} of {len(launches)} foreseen ({100 * foreseen / len(launches):.0f} %)")
    status, found = _examined(HEALTHY, version)
    bad = [each["text"] for each in found if each["severity"] != "ok"]
    print(f"healthy launch: status {status}, {len(bad)} problem(s) and warning(s) {bad or ''}")


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _examined(launch: dict[str, Any], version: Path) -> tuple[int, list[dict[str, Any]]]:
    """(status of the command, findings of the doctor) in a folder of its own."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        folder = Path(name).resolve()
        port = str(taken.getsockname()[1])

        def filled(text: str) -> str:
            return text.replace("{folder}", str(folder)).replace("{taken}", port)

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
        examined = subprocess.run(
            [*HARNESS, "doctor", str(folder / "blueprint.md"), "--json"],
            **_quiet(version, version, _EXAMINE_S),
        )
        environment = {"PATH": f"{Path(python).parent}:/usr/bin:/bin"} if "python" in launch else {}
        ran = subprocess.run(["bash", "-c", command], **_quiet(folder, version, _RUN_S, environment))
        try:
            return ran.returncode, json.loads(examined.stdout)["findings"]
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
