"""What a new `sweep.yaml` varies as an example: keys that the blueprint has, with values around its own.

In: a blueprint. Out: `Example`. A config of the bundled trainer gives the weight of the KL loss and the
learning rate; of any other training the command's flags are looked at, then its config.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import launching
from harness.command import read_or_empty
from harness.config import Scalar
from harness.config.training import TRAINER_COMMON
from harness.experiment import plan_of
from harness.sweep.plan import SweepError
from harness.sweep.points import config_text, current, leaves
from harness.sweep.values import bare, key_problem, means_same

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_RATE = re.compile(r"lr|learning_?rate", re.IGNORECASE)
_SEED = re.compile(r"(?:random_?|global_?|torch_?)?seed", re.IGNORECASE)
_NO_SETTING = re.compile(
    r"port|rank|node|nproc|gpu|worker|thread|device|save|log|eval|print|version|world_size", re.IGNORECASE
)
_NUMBER = re.compile(r"\d+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Example:
    """`vary`: keys with their values. `seed_key`: "" where it need not be said, or is not known
    (`knows_seed`). `is_guess`: the blueprint shows no number that could be varied, so a flag was made up.
    `more`: other lines for `vary`."""

    vary: Mapping[str, list[Scalar]]
    seed_key: str = ""
    knows_seed: bool = True
    metric: str = ""
    is_guess: bool = False
    more: tuple[str, ...] = ("arg:--batch-size: [16, 32, 64]", "env:NAME: [a, b]")


def example(blueprint: Blueprint) -> Example:
    """Something to start from, which can be planned as it is. Raises SweepError for a config that cannot be
    read."""
    config = leaves(config_text(blueprint) or "")
    is_ajet = any(key.startswith("ajet.") for key in config)
    return _of_ajet(config) if is_ajet else _of_command(blueprint, config)


def _of_ajet(config: Mapping[str, object]) -> Example:
    vary: dict[str, list[Scalar]] = {}
    weight, rate = f"{TRAINER_COMMON}.kl_loss_coef", f"{TRAINER_COMMON}.optim.lr"
    if config.get(f"{TRAINER_COMMON}.use_kl_loss", True):
        vary[weight] = _around(config.get(weight, 0.002), 10.0)
    vary[rate] = _around(config.get(rate, 1e-6), 3.0)
    every = config.get(f"{TRAINER_COMMON}.test_freq", 20)
    validates = isinstance(every, int) and every > 0
    more = ("ajet.rollout.num_repeat: [4, 8, 16]", f"{TRAINER_COMMON}.mini_batch_num: [1, 2, 4]")
    return Example(vary, metric="val/task_pass_rate@1" if validates else "", more=more)


def _of_command(blueprint: Blueprint, config: Mapping[str, object]) -> Example:
    """The first learning rate, else the first number, among what the command and its config say."""
    given: dict[str, object] = {
        each.name: each.value
        for each in read_or_empty(blueprint.launch_command or "").settings
        if each.kind != "variable"
    }
    if blueprint.yaml_path is not None and launching.uses_config(plan_of(blueprint)):
        given |= config
    found = {key: value for key, value in given.items() if _can_vary(blueprint, key, value)}
    seed = next((key for key in found if _SEED.fullmatch(_last(key))), "")
    numbers = [key for key in found if not _SEED.fullmatch(_last(key))]
    rates = [key for key in numbers if _RATE.fullmatch(_last(key))]
    others = [key for key in numbers if not _NO_SETTING.search(_last(key))]
    if not (chosen := [*rates, *others][:1]):
        return Example({"arg:--lr": ["1e-4", "3e-4", "1e-3"]}, seed, bool(seed), is_guess=True)
    return Example({chosen[0]: _around(found[chosen[0]], 3.0)}, seed, bool(seed))


def _can_vary(blueprint: Blueprint, key: str, value: object) -> bool:
    """True if the key holds a plain number that a sweep could set."""
    is_number = (
        _NUMBER.fullmatch(value) is not None
        if isinstance(value, str)
        else isinstance(value, int | float) and not isinstance(value, bool)
    )
    try:
        return is_number and not key_problem(key) and means_same(current(blueprint, key), value)
    except SweepError:
        return False


def _last(key: str) -> str:
    return bare(key).lstrip("-+").rpartition(".")[2].replace("-", "_")


def _around(value: object, factor: float) -> list[Scalar]:
    """Values below and above, of the same type: texts stay texts, whole numbers whole."""
    own = value if isinstance(value, str | int | float) else 0.0
    number, is_whole = float(own), isinstance(own, int) or (isinstance(own, str) and own.isdigit())
    if is_whole:
        around: list[float] = [0, 1] if number == 0 else [*([number // 2] if number > 1 else []), number * 2]
    else:
        around = (
            [0.001, 0.01]
            if number == 0
            else [float(f"{each:.1g}") for each in (number / factor, number * factor)]
        )
    made: list[Scalar] = [
        f"{each:g}" if isinstance(own, str) else int(each) if is_whole else each
        for each in around
        if each != number
    ]
    return sorted([own, *made], key=lambda each: float(each or 0))
