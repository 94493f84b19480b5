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
from harness.config import Scalar, same_meaning
from harness.config.training import TRAINER_COMMON
from harness.sweep.defaults import METRIC
from harness.sweep.plan import SweepError
from harness.sweep.points import config_text, current, leaves
from harness.sweep.values import bare, key_problem

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_RATE = re.compile(r"lr|learning_?rate", re.IGNORECASE)
_SEED = re.compile(r"(?:random_?|global_?|torch_?)?seed", re.IGNORECASE)
_NO_SETTING = re.compile(r"port|rank|node|nproc|gpu|worker|thread|device|save|log|eval|print", re.IGNORECASE)


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
    own = {name: config.get(f"{TRAINER_COMMON}.{name}", default) for name, default in _AJET.items()}
    factors = {**({"kl_loss_coef": 10} if own["use_kl_loss"] else {}), "optim.lr": 3}
    vary = {f"{TRAINER_COMMON}.{name}": _around(own[name], by) for name, by in factors.items()}
    every = own["test_freq"]
    more = ("ajet.rollout.num_repeat: [4, 8, 16]", f"{TRAINER_COMMON}.mini_batch_num: [1, 2, 4]")
    return Example(vary, metric=METRIC if isinstance(every, int) and every > 0 else "", more=more)


_AJET = {"use_kl_loss": True, "kl_loss_coef": 0.002, "optim.lr": 1e-6, "test_freq": 20}
"""What the bundled trainer has where the config is silent."""


def _of_command(blueprint: Blueprint, config: Mapping[str, object]) -> Example:
    """The first learning rate, else the first number, among what the command and its config say."""
    settings = read_or_empty(blueprint.launch_command or "").settings
    given: dict[str, object] = {each.name: each.value for each in settings if each.kind != "variable"}
    if blueprint.yaml_path is not None and launching.uses_config(blueprint):
        given |= config
    found = {key: value for key, value in given.items() if _can_vary(blueprint, key, value)}
    seed = next((key for key in found if _SEED.fullmatch(_last(key))), "")
    numbers = [key for key in found if not _SEED.fullmatch(_last(key))]
    rates = [key for key in numbers if _RATE.fullmatch(_last(key))]
    others = [key for key in numbers if not _NO_SETTING.search(_last(key))]
    if not (chosen := [*rates, *others][:1]):
        return Example({"arg:--lr": ["1e-4", "3e-4", "1e-3"]}, seed, bool(seed), is_guess=True)
    return Example({chosen[0]: _around(found[chosen[0]], 3)}, seed, bool(seed))


def _can_vary(blueprint: Blueprint, key: str, value: object) -> bool:
    """True if the key holds a plain number that a sweep could set."""
    try:
        is_number = not isinstance(value, bool) and float(value) >= 0  # type: ignore[arg-type]
        return is_number and not key_problem(key) and same_meaning(current(blueprint, key), value)
    except (SweepError, ValueError, TypeError):
        return False


def _last(key: str) -> str:
    return bare(key).lstrip("-+").rpartition(".")[2].replace("-", "_")


def _around(own: object, factor: float) -> list[Scalar]:
    """Values below and above, of the same type: texts stay texts, whole numbers whole."""
    number = float(own if isinstance(own, str | int | float) else 0)
    if isinstance(own, int) or (isinstance(own, str) and own.isdigit()):
        around: list[float] = [int(number) // 2, int(number) * 2] if number else [0, 1]
    else:
        wanted = (number / factor, number * factor) if number else (0.001, 0.01)
        around = [float(f"{each:.1g}") for each in wanted]
    values = [f"{each:g}" if isinstance(own, str) else each for each in around if each and each != number]
    made: list[Scalar] = [own if isinstance(own, str | int | float) else 0.0, *values]
    return sorted(made, key=lambda each: float(each or 0))
