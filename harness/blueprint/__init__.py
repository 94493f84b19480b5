"""The blueprint: one experiment as a person or an agent wrote it down, in Markdown.

`read` turns a file into a `Blueprint` and never raises for what the file holds: everything wrong is a
`Problem` with its line and how to fix it. `check_surroundings` adds what only the machine can say (do the
paths exist, does the config parse). In reading order: `document` (Markdown to sections, by `names` and
`labels`), `choice` (one value of several), `durations`, `limits`, `paths`, `commands`, `extras` (values out
of prose), `reader` (all of it together), `surroundings`, `scaffold` (a new blueprint from templates). Only
the types are imported at once: they are all that a journal needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.blueprint.types import Blueprint, MetricSpec, Problem

if TYPE_CHECKING:
    from harness.blueprint.reader import parse, read
    from harness.blueprint.surroundings import check_surroundings, check_trainer

__all__ = ["Blueprint", "MetricSpec", "Problem", "check_surroundings", "check_trainer", "parse", "read"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    place = "surroundings" if name.startswith("check_") else "reader"
    return getattr(import_module(f"harness.blueprint.{place}"), name)
