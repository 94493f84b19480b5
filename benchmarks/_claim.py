"""What every benchmark shares: its options, its table (ours beside the goal and the peer), its JSON."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One line of the table, as text. `goal` is empty where nothing was promised."""

    what: str
    ours: str
    goal: str
    peer: str


def parser(description: str | None, quick: str = "") -> argparse.ArgumentParser:
    """The options `--quick`, where something can be left out (`quick` says what), and `--json PATH`."""
    made = argparse.ArgumentParser(description=(description or "").partition("\n\n")[0])
    if quick:
        made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--json", type=Path, help="also write the numbers here")
    return made


def publish(title: str, rows: list[Row], options: argparse.Namespace, raw: Any) -> None:
    """Print the table; with `--json` also write the rows and the raw measurements."""
    table = Table("what", "ours", "goal", "peer", title=title)
    for row in rows:
        table.add_row(row.what, row.ours, row.goal, row.peer)
    Console(width=160).print(table)
    if options.json:
        report = {
            "title": title,
            "date": date.today().isoformat(),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "quick": options.quick,
            "rows": [asdict(row) for row in rows],
            "raw": raw,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")
