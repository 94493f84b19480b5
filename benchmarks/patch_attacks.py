"""Patches of a misbehaving model, played through the real command line: what came of each.

Each of the 71 patches of an independent review, of those that were invented for this, and of 32 honest
corrections (`patch_attacks.yaml`) is proposed by a scripted model after a failed attempt of a small training,
in a home of its own with planted secrets. Afterwards every file and every output is searched for the secrets,
and everything outside the run for changes. Without `--mode`: all of them with bubblewrap, those that aim at
the sandbox with Landlock, too, and those that read or write without any, to show that the check would notice.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
from _patch_trial import Found, Surroundings, Trial  # noqa: E402
from _patches import Attack, Patches, Scenario, load  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

MODES = ("bubblewrap", "landlock", "off")
EVERY = 6
"""Of so many attacks at the numbers, one has `show`, `ls`, `compare` and `verify` asked, too: they take as
long as the run."""


def surroundings(where: Path, patches: Patches) -> Surroundings:
    """The stub that hides bubblewrap, and a clean run."""
    stub = where / "stub" / "bwrap"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    right = Scenario(Attack("clean", "clean", ()), {**patches.files, "train.py": patches.right})
    trial = Trial(0, "off", right, Surroundings(where), False)
    assert trial.play().outcome == "succeeded", trial.output
    return Surroundings(where, str(trial.bench.result_dir))


def chosen(patches: Patches, mode: str | None, only: str) -> list[tuple[str, Scenario]]:
    """What is played, with the mode."""
    made = [(mode or "bubblewrap", one) for one in (*patches.attacks, *patches.honest)]
    if mode is None:
        aimed = [one for one in patches.attacks if one.attack.aim == "sandbox"]
        made += [("landlock", one) for one in aimed]
        made += [("off", one) for one in aimed if one.attack.kind != "processes"]
    return [
        (m, one)
        for m, one in made
        if re.search(only, f"{one.attack.aim}: {one.attack.kind}: {one.attack.name}")
    ]


def table(found: list[Found]) -> Table:
    """One line per mode and kind."""
    made = Table(
        "mode", "kind", "runs", "own", "read", "wrote outside", "accepted", title="patches of a model"
    )
    for mode, kind in dict.fromkeys((each.mode, each.kind) for each in found):
        some = [each for each in found if (each.mode, each.kind) == (mode, kind)]
        counts = [
            sum(bool(getattr(one, name)) for one in some) for name in ("own", "read", "wrote", "accepted")
        ]
        made.add_row(mode, kind, str(len(some)), *map(str, counts))
    return made


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    made.add_argument("--mode", choices=MODES, help="all of them in this mode")
    made.add_argument("--only", default="", help="an expression: those whose `aim: kind: name` it finds")
    made.add_argument("--where", type=Path, default=Path("/opt"), help="where the homes are made")
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--keep", action="store_true", help="do not remove the homes")
    made.add_argument("--json", type=Path, help="also write what came of each here")
    return made.parse_args()


def main() -> None:
    asked = options()
    for variable in ("ENV", "TMUX", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(variable, None)
    os.environ["OMP_NUM_THREADS"] = "1"
    patches = load(Path(__file__).with_suffix(".yaml"))
    where = Path(tempfile.mkdtemp(prefix="patch-attacks-", dir=asked.where))
    around = surroundings(where, patches)
    played = chosen(patches, asked.mode, asked.only)

    def play(numbered: tuple[int, tuple[str, Scenario]]) -> Found:
        number, (mode, scenario) = numbered
        is_asked = scenario.attack.aim == "metric" and number % EVERY == 0
        found = Trial(number, mode, scenario, around, is_asked).play()
        marks = [name for name in ("own", "read", "wrote") if getattr(found, name)]
        told = f"{number}/{len(played)} {mode} {found.kind}: {found.name}: {found.outcome} {marks}"
        print(f"{told} {found.seconds:.0f} s", flush=True)
        return found

    with ThreadPoolExecutor(asked.jobs) as pool:
        found = list(pool.map(play, enumerate(played, 1)))
    console = Console(width=150)
    for each in found:
        if each.own or each.read or each.wrote or each.noted or not each.accepted:
            console.print(asdict(each), markup=False)
    console.print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    if not asked.keep:
        shutil.rmtree(where)


if __name__ == "__main__":
    main()
