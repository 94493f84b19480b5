"""The blueprint: one experiment as a person or an agent wrote it down, in Markdown.

`read` turns a file into a `Blueprint` and never raises for what the file holds: everything wrong is a
`Problem` with its line and how to fix it. `check_surroundings` adds what only the machine can say (do the
paths exist, does the config parse). In reading order: `source` (the file's text), `document` (Markdown to
sections, by `names` and `labels`), `choice` (one value of several), `durations`, `limits`, `paths`,
`commands`, `extras` (values out of prose), `read` (all of it together), `surroundings`, `scaffold` (a new
blueprint from templates).
"""

from harness.blueprint.read import parse, read
from harness.blueprint.surroundings import check_surroundings, check_trainer
from harness.blueprint.types import Blueprint, MetricSpec, Problem

__all__ = ["Blueprint", "MetricSpec", "Problem", "check_surroundings", "check_trainer", "parse", "read"]
