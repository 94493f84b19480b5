"""Remedies that `remedies.yaml` describes whole: a parameter switched on or halved, a variable set."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.repair.remedies.settings import Setting
from harness.repair.remedies.types import Repair, Situation


def computed(does: Mapping[str, Any], now: Situation) -> Repair | None:
    """What a row's `does` comes to: `switch_on: parameter`, `halve: parameter` with `least`, or `set:
    VARIABLE` with `to`."""
    if "switch_on" in does:
        found = now.settings.of(does["switch_on"])
        return Repair.of({each.key: True for each in found if each.value is False})
    if "halve" in does:
        return halved(now.settings.of(does["halve"]), does["least"])
    name, value = does["set"], does["to"]
    return None if now.environment.get(name) == value else Repair(environment={name: value})


def halved(settings: Sequence[Setting], least: int) -> Repair | None:
    """Whole numbers above `least`, halved."""
    wholes = [(each.key, each.whole) for each in settings]
    return Repair.of(
        {key: max(least, size // 2) for key, size in wholes if size is not None and size > least}
    )
