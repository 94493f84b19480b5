"""Scripts of thirteen libraries run end to end by `harness run`: metric rows, leading metric, figure, verify.

The scripts are in `benchmarks/examples/`, each after its library's documentation: no network, seconds on a
CPU. `--python` names the interpreter that has the libraries; what it lacks is left out, and said.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _claim import parser
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "benchmarks" / "examples").glob("*.py"))
HAS = "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if not u.find_spec(m)])"


def missing(script: Path, python: str) -> list[str]:
    """The packages that a script imports and an interpreter lacks."""
    packages = re.findall(r"^(?:import|from) (\w+)", script.read_text(), re.MULTILINE)
    return subprocess.run([python, "-c", HAS, *packages], capture_output=True, text=True).stdout.split()


def outcome(script: Path, python: str, folder: Path) -> dict[str, str]:
    """Run one script in a folder of its own; what the harness made of it, by columns of the table."""
    folder.mkdir()
    own = {"XDG_STATE_HOME": f"{folder}/state", "YOLO_CONFIG_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    environment = {**os.environ, **own, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    harness = [sys.executable, "-m", "harness"]
    purpose = script.read_text().split('"""')[1]
    begun = time.monotonic()
    run = [*harness, "run", "--purpose", purpose, "--result-dir", "result", "--max-time", "10min", "--"]
    status = subprocess.run([*run, python, str(script)], cwd=folder, env=environment).returncode
    seconds = time.monotonic() - begun
    verify = subprocess.run([*harness, "verify", "result"], cwd=folder, env=environment, capture_output=True)
    made = json.loads((folder / "result" / "result.json").read_text())
    found = made["result"] or {"metric": "none", "goal": "", "text": "", "start": None}
    files = [folder / "result" / one["files"][-1] for one in made["figures"][:1]]
    drawn = next((json.loads(file.read_text())["panels"][0]["lines"][0]["label"] for file in files), "")
    return {
        "script": script.stem,
        "exit": str(status),
        "rows": next((fact["text"] for fact in made["facts"] if fact["id"] == "attempt/1/rows"), "0"),
        "axis": made["axis"],
        "leading metric": f"{found['metric']} ({found['goal'] or 'direction not known'})",
        "first → last": f"{found['start']['text']} → {found['text']}" if found["start"] else found["text"],
        "figure": "yes" if drawn == found["metric"] else "no",
        "verify": "differs" if verify.returncode else "clean",
        "seconds": f"{seconds:.0f}",
    }


def main() -> None:
    options = parser(__doc__, "the scripts that need nothing but PyTorch")
    options.add_argument("--python", default=sys.executable, help="the interpreter that runs the scripts")
    options.add_argument("--only", nargs="*", help="names of scripts")
    chosen = options.parse_args()
    wanted = chosen.only or [script.stem for script in SCRIPTS if not chosen.quick or "like" in script.stem]
    outcomes, left_out = [], []
    with tempfile.TemporaryDirectory() as folder:
        for script in (script for script in SCRIPTS if script.stem in wanted):
            if lacks := missing(script, chosen.python):
                left_out.append(f"{script.stem} (without {', '.join(lacks)})")
            else:
                outcomes.append(outcome(script, chosen.python, Path(folder) / script.stem))
    right = [one for one in outcomes if (one["exit"], one["figure"], one["verify"]) == ("0", "yes", "clean")]
    if outcomes:
        table = Table(*outcomes[0])
        for one in outcomes:
            table.add_row(*one.values())
        Console(width=160).print(table)
    print(f"{len(right)} of {len(outcomes)} right; left out: {', '.join(left_out) or 'none'}")
    if chosen.json:
        report = {"outcomes": outcomes, "left_out": left_out}
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(len(right) != len(outcomes))


if __name__ == "__main__":
    main()
