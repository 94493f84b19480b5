"""What the report of a run with many metric rows costs: CPU seconds and peak memory.

    python -m benchmarks.report_cost [--harness /other/checkout ...]

For each shape a training prints its rows as fast as it can; measured are the whole `harness run` (the
watching included, the training not) and then `harness report` on its folder. Each `--harness` is measured as
well, on folders of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPES = ((60_000, 60), (200_000, 3))  # rows, metrics in each
GOALS = "at most 300 MB at 60,000 x 60; at most 5 s for the report of 200,000 rows"
PLAN = """## [exp_purpose]
What does a long log cost?
## [exp_launch_command]
`python train.py {rows} {metrics}`
## [exp_max_time]
30 minutes
"""
TRAIN = """import math, sys
rows, metrics = map(int, sys.argv[1:])
for step in range(1, rows + 1):
    values = (f"part_{number}/loss:{math.sin(step / 100 + number):.5f}" for number in range(metrics))
    print(f"step:{step} - " + " - ".join(values))
"""
START = "import sys; sys.path[:1] = []; from harness.cli.app import main; main()"


def main() -> None:
    here = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--harness", type=Path, action="append", default=[])
    trees = [*parser.parse_args().harness, here]
    print(
        f"{'harness':<24} {'rows':>8} {'metrics':>8}  {'command':<8} {'CPU s':>7} {'peak MB':>8}   ({GOALS})"
    )
    for rows, metrics in SHAPES:
        for tree in trees:
            with tempfile.TemporaryDirectory() as name:
                for command, cpu_s, peak in _costs(tree, Path(name), rows, metrics):
                    print(
                        f"{tree.name:<24} {rows:>8} {metrics:>8}  {command:<8} {cpu_s:>7.1f} {peak:>8.0f}",
                        flush=True,
                    )


def _costs(tree: Path, folder: Path, rows: int, metrics: int) -> list[tuple[str, float, float]]:
    """Command, CPU seconds, and peak MB of a run and of its report made again."""
    (folder / "plan.md").write_text(PLAN.format(rows=rows, metrics=metrics))
    (folder / "train.py").write_text(TRAIN)
    own = {"PYTHONPATH": str(tree), "HOME": name} if (name := str(folder)) else {}
    own |= {"XDG_STATE_HOME": f"{name}/state", "SHELL": "/bin/sh", "AJET_TMUX_SOCKET": f"ajet-{os.getpid()}"}
    environment = {**os.environ, **own}
    try:
        return [
            (words[0], *_cost(folder, environment, *words))
            for words in (("run", "plan.md"), ("report", "plan"))
        ]
    finally:
        tmux = ["tmux", "-L", own["AJET_TMUX_SOCKET"], "kill-server"]
        subprocess.run(tmux, capture_output=True, check=False)


def _cost(folder: Path, environment: dict[str, str], *words: str) -> tuple[float, float]:
    with (folder / f"{words[0]}.out").open("wb") as out:
        command = [sys.executable, "-c", START, *words]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"harness {' '.join(words)} failed:\n{Path(out.name).read_text()}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
