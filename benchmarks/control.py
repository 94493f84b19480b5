"""Claim: what the quickstart learns, it learns from its rewards.

Runs the quickstart as it is and with `shuffle_rewards` (every step deals the same rewards out to the wrong
samples). The first must improve, the second must not: its pass@1 does not end above its start. Intervals are
those of `quickstart.py`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from quickstart import Trained, run_seed
from rich.console import Console
from rich.table import Table

PEER = "plain .254 → .940, shuffled .254 → .002 (probe script, same task and algorithm)"


def rose(run: Trained) -> bool:
    """The end is above the start by more than chance: the intervals are disjoint."""
    return run.end.low > run.start.high


def main() -> None:
    """Run, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, 80 steps")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    seeds = [0] if options.quick else [0, 1, 2]
    plainly = ["ajet.trainer_common.total_training_steps=80"] if options.quick else []
    shuffled = [*plainly, "ajet.trainer_common.algorithm.shuffle_rewards=true"]
    pairs = [(run_seed(seed, *plainly), run_seed(seed, *shuffled)) for seed in seeds]

    table = Table(
        "what", "ours", "goal", "peer", title="rewards as they are and shuffled: pass@1, start → end"
    )
    for plain, control in pairs:
        table.add_row(f"seed {plain.seed}, plain", f"{plain.start} → {plain.end}", "+0.3, disjoint", PEER)
        table.add_row(f"seed {plain.seed}, shuffled", f"{control.start} → {control.end}", "no rise", PEER)
    learned = sum(plain.improved for plain, _ in pairs)
    still = sum(not rose(control) for _, control in pairs)
    table.add_row("plain runs that improved", f"{learned} of {len(pairs)}", "all", "2 of 2")
    table.add_row("shuffled runs that did not", f"{still} of {len(pairs)}", "all", "2 of 2")
    Console(width=160).print(table)
    if options.json:
        rows = [{"plain": plain.as_json(), "shuffled": control.as_json()} for plain, control in pairs]
        report = {"benchmark": "control", "quick": options.quick, "runs": rows}
        options.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
