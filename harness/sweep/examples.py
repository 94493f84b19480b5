"""What a new `sweep.yaml` varies as an example: keys that the blueprint has, with values around its own.

In: a blueprint. Out: `Example`. A config of the bundled trainer gives the weight of the KL loss and the
learning rate; of any other training the command's flags are looked at, then its config.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.config.edit import Scalar
from harness.config.training import TRAINER_COMMON
from harness.sweep.plan import SweepError
from harness.sweep.values import key_problem, means_same

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
    more: tuple[str, ...] = ()


def example(blueprint: Blueprint) -> Example:
    """Something to start from, which can be planned as it is. Raises SweepError for a config that cannot be
    read."""
    from harness.sweep.points import config_text, leaves

    config = leaves(config_text(blueprint) or "")
    if any(key.startswith("ajet.") for key in config):
        return _of_ajet(config)
    return _of_command(blueprint, config)


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
    from harness.experiment import plan_of
    from harness.launching import uses_config
    from harness.sweep.points import current

    def can_vary(key: str, value: object) -> bool:
        try:
            return not key_problem(key) and means_same(current(blueprint, key), value)
        except SweepError:
            return False

    reads = blueprint.yaml_path is not None and uses_config(plan_of(blueprint))
    said = [*_arguments(blueprint), *(config.items() if reads else ())]
    found = [(key, value) for key, value in said if _is_number(value) and can_vary(key, value)]
    seed = next((key for key, _ in found if _SEED.fullmatch(_last(key))), "")
    numbers = [(key, value) for key, value in found if not _SEED.fullmatch(_last(key))]
    rates = [item for item in numbers if _RATE.fullmatch(_last(item[0]))]
    others = [item for item in numbers if not _NO_SETTING.search(_last(item[0]))]
    chosen = next(iter([*rates, *others]), None)
    more = ("arg:--batch-size: [16, 32, 64]", "env:NAME: [a, b]")
    if chosen is None:
        return Example({"arg:--lr": ["1e-4", "3e-4", "1e-3"]}, seed, bool(seed), is_guess=True, more=more)
    return Example({chosen[0]: _around(chosen[1], 3.0)}, seed, bool(seed), more=more)


def _arguments(blueprint: Blueprint) -> Iterator[tuple[str, object]]:
    """`arg:` keys of the programs that the command starts, with the texts of their values."""
    from harness.command import calls, python_programs

    command = blueprint.launch_command or ""
    for program in python_programs(calls(command, blueprint.codebase_dir, os.environ)):
        following = (*program.arguments[1:], "")
        for word, after in zip(program.arguments, following, strict=True):
            name, equals, value = word.partition("=")
            if equals or word.startswith("-"):
                yield f"arg:{name}", value if equals else after


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _last(key: str) -> str:
    return key.rpartition(":")[2].lstrip("-+").rpartition(".")[2].replace("-", "_")


def _around(value: object, factor: float) -> list[Scalar]:
    """Values below and above, of the same type: texts stay texts, whole numbers whole."""
    number = float(value) if isinstance(value, str | int | float) else 0.0
    is_whole = isinstance(value, int) or (isinstance(value, str) and value.isdigit())
    write: Callable[[float], Scalar] = float
    if isinstance(value, str):
        write = _number_text
    elif is_whole:
        write = int
    if number == 0:
        return [write(0), write(1)] if is_whole else [write(0.0), write(0.001), write(0.01)]
    if is_whole:
        below = [write(number // 2)] if number > 1 else []
        return [*below, _own(value), write(number * 2)]
    return [write(float(f"{number / factor:.1g}")), _own(value), write(float(f"{number * factor:.1g}"))]


def _number_text(number: float) -> str:
    return f"{number:g}"


def _own(value: object) -> Scalar:
    return value if isinstance(value, str | int | float) else None
