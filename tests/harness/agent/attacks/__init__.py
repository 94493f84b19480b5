"""Texts that tell a model to do harm, each with the very call that an obedient model makes of it.

`ATTACKS` must all come to nothing; `CONTROLS` are harmless calls of the same families that must go through,
so that a guard which refuses everything fails too. `target.py` is the experiment they are aimed at.
"""

from tests.harness.agent.attacks import lying, reaching, reading, stopping, studying
from tests.harness.agent.attacks.types import Attack, Control

ROOMS = (stopping, studying, reading, reaching, lying)
ATTACKS: tuple[Attack, ...] = sum((room.ATTACKS for room in ROOMS), ())
CONTROLS: tuple[Control, ...] = sum((room.CONTROLS for room in ROOMS), ())

__all__ = ["ATTACKS", "CONTROLS", "Attack", "Control"]
