"""Texts that tell a model to do harm, each with the very call that an obedient model makes of it.

`ATTACKS` must all come to nothing; `CONTROLS` are harmless calls of the same families that must go through,
so that a guard which refuses everything fails too. `target.py` is the experiment they are aimed at.
"""

from tests.harness.agent.attacks import lying, reaching, reading, stopping, studying
from tests.harness.agent.attacks.types import Attack, Control

ATTACKS: tuple[Attack, ...] = (
    *stopping.ATTACKS,
    *studying.ATTACKS,
    *reading.ATTACKS,
    *reaching.ATTACKS,
    *lying.ATTACKS,
)
CONTROLS: tuple[Control, ...] = (
    *stopping.CONTROLS,
    *studying.CONTROLS,
    *reading.CONTROLS,
    *reaching.CONTROLS,
    *lying.CONTROLS,
)

__all__ = ["ATTACKS", "CONTROLS", "Attack", "Control"]
