"""The rules for a built-in repair as a whole: what stands in the way of its edits or its variables.

In: the config that it starts from and the launch command. Out: a refusal, or None; and, for who knows a
config alone, the `Surroundings` in which only these rules can be asked.
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
    """The rules; whatever else is asked for raises NobodyToAskError."""

    def unknown(*_: Any) -> NoReturn:
        raise NobodyToAskError

    return Surroundings(
        free_port=unknown,
        is_taken=unknown,
        cpu_count=unknown,
        open_files=unknown,
        is_cached=unknown,
        leftovers=unknown,
        superseded_bytes=unknown,
        refuses_install=unknown,
        known_key=unknown,
        refuses=of_repairs(config, protected, command),
    )
