"""Whether the conclusions of a sweep are true: simulated sweeps with a planted difference, many of each kind.

Twelve points, three seeds each, one key that matters at one of its levels by what the design should find in
four of five sweeps, and one that does not (`_planted_sweeps.py` says what is simulated). The calculated
power takes all points to scatter alike, and no run to be lost. The peers read the same numbers: one run
against one, and best of seeds against best of seeds, each calling 0.01 a difference. Then pairs of points
that do not differ and scatter unlike: how often the test says that they do, and how often a pooled one.
"""

from __future__ import annotations

from dataclasses import asdict

from _claim import Row, parser, publish
from _planted_sweeps import DESIGNS, NOISES, PAIRS, RATIOS, Tally, false_of_pairs, planted, tally

SWEEPS, QUICK = 200, 20
PAIRS_PER_SWEEP = 50
MOST_FALSE = 0.08
SIMULATED_PEER = "one seed {one} of {n}, best of seeds {best} of {n}"


def rows_of(name: str, counts: Tally) -> list[Row]:
    """What is shown of one kind of sweep."""
    n = counts.sweeps
    goal = f"≤ {int(MOST_FALSE * n)} of {n}"
    peer = SIMULATED_PEER.format(one=counts.one_seed, best=counts.best_seed, n=n)
    return [
        Row(f"{name}: sweeps with a false difference", f"{counts.false_findings} of {n}", goal, peer),
        Row("  the null key said to matter", f"{counts.false_keys} of {n}", goal, ""),
        Row(
            "  power, one comparison alone",
            f"{counts.alone / n:.1%}",
            f"calculated {counts.calculated:.0%}",
            "",
        ),
        Row("  found after Holm's correction", f"{counts.found / n:.1%}", "", ""),
        Row("  95 % intervals that hold the truth", f"{counts.covered / counts.intervals:.1%}", "95 %", ""),
    ]


def row_of_pair(n: int, m: int, ratio: float, pairs: int) -> Row:
    """How often a pair without a difference is said to have one."""
    ours, pooled = (f"{found / pairs:.1%}" for found in false_of_pairs(n, m, ratio, pairs))
    return Row(f"{n} v {m} runs, the second scatters {ratio:g} times as much", ours, "≤ 6.5 %", pooled)


def main() -> None:
    options = parser(__doc__, f"{QUICK} sweeps of each kind instead of {SWEEPS}").parse_args()
    sweeps = QUICK if options.quick else SWEEPS
    found = {
        f"{design}, {noise}": tally(planted(design, noise), sweeps, seed)
        for seed, (design, noise) in enumerate((design, noise) for design in DESIGNS for noise in NOISES)
    }
    rows = [row for name, counts in found.items() for row in rows_of(name, counts)]
    rows += [row_of_pair(n, m, ratio, PAIRS_PER_SWEEP * sweeps) for n, m in PAIRS for ratio in RATIOS]
    publish("Conclusions of simulated sweeps", rows, options, {k: asdict(v) for k, v in found.items()})


if __name__ == "__main__":
    main()
