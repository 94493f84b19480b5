"""The rules for a built-in repair as a whole: what stands in the way of its edits or its variables.

In: the config that it starts from and the launch command. Out: a refusal, or None; and, for who knows a
config alone, the `Surroundings` in which nobody can be asked for anything but these rules.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from harness.guard import science
from harness.repair.remedies import Surroundings
from harness.repair.remedies.types import NobodyToAskError, Repair


def of_repairs(config: str, protected: Sequence[str], command: str) -> Callable[[Repair], str | None]:
    """What says why a repair of this config is refused, None when it is not."""

    def refuses(repair: Repair) -> str | None:
        if repair.edits or repair.remove:
            why = science.refuse_edit(config, repair.edits, repair.remove, protected, command)
            if why is not None:
                return why
        named = (
            science.refuse_variable(name, value, protected, command)
            for name, value in repair.environment.items()
        )
        return next((why for why in named if why is not None), None)

    return refuses


def rules_alone(config: str, protected: Sequence[str] = (), command: str = "") -> Surroundings:
    """The rules; nobody is asked for more."""

    def nobody(*_: Any) -> NoReturn:
        raise NobodyToAskError

    return Surroundings(
        free_port=nobody,
        is_taken=nobody,
        cpu_count=nobody,
        open_files=nobody,
        is_cached=nobody,
        leftovers=nobody,
        superseded_bytes=nobody,
        refuses_install=nobody,
        known_key=nobody,
        refuses=of_repairs(config, protected, command),
    )
