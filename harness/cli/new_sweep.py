"""`harness new sweep`: a `sweep.yaml` beside a blueprint, explained line by line, ready to be changed."""

import os
from pathlib import Path
from typing import Any

from harness.sweep.plan import SweepError

FILE_NAME = "sweep.yaml"
_KL, _LR = "ajet.trainer_common.kl_loss_coef", "ajet.trainer_common.optim.lr"
_AJET = {_KL: (0.002, 10), _LR: (1e-6, 3)}
"""Keys of the bundled trainer: what it has where a config is silent, and a factor that may matter."""


def write_sweep_file(blueprint: Path, folder: Path) -> Path:
    """Write `sweep.yaml` into the folder, with keys of this blueprint as an example; returns its path.

    Nothing is overwritten. Raises SweepError for a blueprint that cannot run, a file that is there, a folder
    that cannot be written.
    """
    from harness.blueprint import read
    from harness.sweep.design import is_ajet
    from harness.sweep.points import current
    from harness.sweep.spec_text import as_yaml
    from harness.templating import render, yaml_scalar

    plan = read(blueprint)
    if not plan.can_run:
        errors = [item for item in plan.problems if item.severity == "error"]
        words = "\n".join(f"{plan.path}:{item.line}: {item.message} — {item.fix}" for item in errors)
        raise SweepError(f"{words}\nwhat cannot run cannot be varied")
    has_seed, more = is_ajet(plan), ("arg:--batch-size: [16, 32, 64]", "env:NAME: [a, b]")
    vary: dict[str, list[Any]] = {"arg:--lr": ["1e-4", "3e-4", "1e-3"]}
    if has_seed:
        vary = {key: _around(current(plan, key), *usual) for key, usual in _AJET.items()}
        more = ("ajet.rollout.num_repeat: [4, 8, 16]", "ajet.trainer_common.mini_batch_num: [1, 2, 4]")
    key, levels = next(iter(vary.items()))
    hints = {
        "vary": [f"  {line}" for line in more],
        "seeds": [] if has_seed else ["3 or more, once seed_key says what sets the seed"],
        "expect": [f"  - {{key: {key}, level: {yaml_scalar(levels[-1])}, effect: higher, why: a reason}}"],
    }
    values: dict[str, Any] = {
        "blueprint": os.path.relpath(plan.path, folder.absolute()),
        "question": "",
        "vary": vary,
        "design": "one-at-a-time",
        "seeds": 3 if has_seed else 1,
        "seed_key": None,
        "set": {},
        "metric": "",
        "goal": None,
        **dict.fromkeys(("parallel", "budget", "canary")),
        "expect": [],
    }
    about = render("sweeps/about.txt.j2", name=plan.name, file=FILE_NAME, is_guess=not has_seed).strip()
    path = folder / FILE_NAME
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(as_yaml(values, about, hints))
    except FileExistsError as error:
        raise SweepError(f"{path} is already there and is not overwritten: rename it") from error
    except OSError as error:
        raise SweepError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _around(own: object, usual: float, factor: float) -> list[float]:
    present = own if isinstance(own, int | float) else usual
    middle = present or usual
    return sorted({present, *(float(f"{value:.1g}") for value in (middle / factor, middle * factor))})
