"""`harness new sweep`: a `sweep.yaml` beside a blueprint, explained line by line, ready to be changed."""

import os
from pathlib import Path
from typing import Any

from harness.sweep.plan import SweepError

FILE_NAME = "sweep.yaml"


def write_sweep_file(blueprint: Path, folder: Path) -> Path:
    """Write `sweep.yaml` into the folder, with keys of this blueprint as an example; returns its path.

    Nothing is overwritten. Raises SweepError for a blueprint that cannot run, a file that is there, a folder
    that cannot be written.
    """
    from harness.blueprint import read
    from harness.config import as_text
    from harness.sweep.examples import example
    from harness.sweep.spec_text import as_yaml
    from harness.templating import render

    plan = read(blueprint)
    if not plan.can_run:
        errors = [item for item in plan.problems if item.severity == "error"]
        words = "\n".join(f"{plan.path}:{item.line}: {item.message} — {item.fix}" for item in errors)
        raise SweepError(f"{words}\nwhat cannot run cannot be varied")
    found = example(plan)
    about = render("sweeps/about.txt.j2", name=plan.name, file=FILE_NAME, is_guess=found.is_guess).strip()
    key, levels = next(iter(found.vary.items()))
    hints = {
        "vary": [f"  {line}" for line in found.more],
        "seeds": [] if found.knows_seed else ["3 or more, once seed_key says what sets the seed"],
        "expect": [f"  - {{key: {key}, level: {as_text(levels[-1])}, effect: higher, why: a reason}}"],
    }
    values: dict[str, Any] = {
        "blueprint": os.path.relpath(plan.path, folder.absolute()),
        "question": "",
        "vary": found.vary,
        "design": "one-at-a-time",
        "seeds": 3 if found.knows_seed else 1,
        "seed_key": found.seed_key or None,
        "set": {},
        "metric": found.metric,
        "goal": "max",
        **dict.fromkeys(("parallel", "budget", "canary")),
        "expect": [],
    }
    path = folder / FILE_NAME
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(as_yaml(values, about, hints))
    except FileExistsError as error:
        raise SweepError(f"{path} is already there and is not overwritten: rename it") from error
    except OSError as error:
        raise SweepError(f"{path} cannot be written: {error.strerror}") from error
    return path
