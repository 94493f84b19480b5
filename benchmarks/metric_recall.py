"""How many metric rows of labelled logs are found, and how many ordinary lines are taken for rows.

    python -m benchmarks.metric_recall [SET...] [--misses N]

A labelled row is found if a row that is read holds all its values under their names. Precision is the share
of rows read that match a label, in fragments with and without rows. What the sets are is said in
`metric_lines/README.md`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from monitors.logs import line_of
from monitors.metrics.parser import Found, read_lines

SETS = Path(__file__).parent / "metric_lines"
Label = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help="default: all in metric_lines/")
    parser.add_argument(
        "--misses", type=int, default=0, help="print so many rows that are not found or false"
    )
    arguments = parser.parse_args()
    for name in arguments.sets or sorted(file.stem for file in SETS.glob("*.jsonl")):
        lines = (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        measure(name, [json.loads(line) for line in lines], arguments.misses)


def measure(name: str, fragments: list[dict[str, Any]], misses: int) -> None:
    """Print one line per family and the totals of a set."""
    families: dict[str, Counter[str]] = defaultdict(Counter)
    total: Counter[str] = Counter()
    for fragment in fragments:
        counts, wrong = score(fragment)
        total += counts
        if fragment["rows"]:
            families[fragment["family"]] += counts
        for text in wrong[: max(0, misses)]:
            print(f"  {fragment['family']}: {text}")
        misses -= len(wrong)
    print(f"\n{name}: rows of each family, found")
    for family, one in sorted(families.items()):
        print(f"  {family:26} {one['rows']:4} {one['found']:4} {share(one['found'], one['rows'])}")
    for what, part, whole in (
        ("recall", "found", "rows"),
        ("precision", "matched", "read"),
        ("step right", "step", "found"),
        ("epoch right", "epoch", "found"),
    ):
        print(f"  {what:12} {share(total[part], total[whole])}  ({total[part]} of {total[whole]})")
    print(f"  ordinary lines taken for rows: {total['false']} of {total['ordinary']}")


def score(fragment: dict[str, Any]) -> tuple[Counter[str], list[str]]:
    """Compare what is read from a fragment with its labels."""
    text, labels = fragment["text"], fragment["rows"]
    raw = text.encode().split(b"\n")
    read = list(read_lines(line_of(number, line) for number, line in enumerate(raw, start=1)))
    left, counts, wrong = list(read), Counter(rows=len(labels)), []
    for label in labels:
        fitting = [one for one in left if holds(one, label)]
        here = [one for one in fitting if one.line in label.get("lines", [label["line"]])]
        match = next(iter(here or fitting), None)
        if match is not None:
            left.remove(match)
            counts["matched"] += 1
        elif label.get("may_merge"):
            match = next((one for one in read if holds(one, label)), None)
        if match is None:
            wrong.append(f"not found: {raw[label['line'] - 1].decode()!r}")
            continue
        counts["found"] += 1
        for key in ("step", "epoch"):
            counts[key] += getattr(match.row, key) in (label[key], *label.get(f"{key}_alt", ()))
    false = [one for one in left if one.line not in fragment.get("ignore_lines", ())]
    counts["read"] = counts["matched"] + len(false)
    if not labels:
        counts["ordinary"], counts["false"] = sum(bool(line.strip()) for line in raw), len(false)
    return counts, wrong + [f"no label: {raw[one.line - 1].decode()!r}" for one in false]


def holds(found: Found, label: Label) -> bool:
    """True if the row has each labelled value under its name or another fair one."""
    values = found.row.values
    for name, wanted in label["values"].items():
        names = [name, *(label.get("aliases") or {}).get(name, ())]
        if not any(known in values and same(values[known], wanted) for known in names):
            return False
    return True


def same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9)


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f} %" if whole else "    –"


if __name__ == "__main__":
    main()
