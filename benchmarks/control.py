"""Claim: what the quickstart learns, it learns from its rewards.

Runs the quickstart as it is and with `shuffle_rewards` (every step deals the same rewards out to the wrong
samples). The first must improve, the second must not: its pass@1 does not end above its start. Intervals are
those of `quickstart.py`.
"""

from __future__ import annotations

from _claim import Row, parser, publish
from quickstart import Trained, run_seed

PEER_PLAIN = ".254 → .940 (probe script, same task and algorithm)"
PEER_SHUFFLED = ".254 → .002 (the same probe)"


def rose(run: Trained) -> bool:
    """The end is above the start by more than chance: the intervals are disjoint."""
    return run.end.low > run.start.high


def main() -> None:
    """Run both for every seed and publish."""
    options = parser(__doc__, quick="one seed, 80 steps").parse_args()
    seeds = [0] if options.quick else [0, 1, 2]
    plainly = ["ajet.trainer_common.total_training_steps=80"] if options.quick else []
    shuffled = [*plainly, "ajet.trainer_common.algorithm.shuffle_rewards=true"]
    pairs = [(run_seed(seed, *plainly), run_seed(seed, *shuffled)) for seed in seeds]

    rows = []
    for plain, control in pairs:
        rows.append(
            Row(f"seed {plain.seed}, plain", f"{plain.start} → {plain.end}", "+0.3, disjoint", PEER_PLAIN)
        )
        rows.append(
            Row(f"seed {plain.seed}, shuffled", f"{control.start} → {control.end}", "no rise", PEER_SHUFFLED)
        )
    learned = sum(plain.improved for plain, _ in pairs)
    still = sum(not rose(control) for _, control in pairs)
    rows.append(Row("plain runs that improved", f"{learned} of {len(pairs)}", "all", "2 of 2"))
    rows.append(Row("shuffled runs that did not", f"{still} of {len(pairs)}", "all", "2 of 2"))
    raw = [{"plain": plain.as_json(), "shuffled": control.as_json()} for plain, control in pairs]
    publish("rewards as they are and shuffled: pass@1, start → end", rows, options, raw)


if __name__ == "__main__":
    main()
