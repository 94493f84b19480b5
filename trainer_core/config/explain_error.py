"""What pydantic refused, told in the words of the config's reader."""

import difflib
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainer_core.algorithm.names import INSTEAD
from trainer_core.config.keys import Key, all_keys, shown_default, suggestion
from trainer_core.config.layers import Layered
from trainer_core.config.problems import Problem
from trainer_core.config.schema import RULE_BROKEN


def problems_of(error: ValidationError, layered: Layered) -> tuple[Problem, ...]:
    """Every problem of a failed validation, once per key."""
    every = (
        problem for details in error.errors(include_url=False) for problem in _problems(details, layered)
    )
    return tuple({problem.key: problem for problem in every}.values())


def _problems(details: ErrorDetails, layered: Layered) -> list[Problem]:
    location = tuple(str(part) for part in details["loc"])
    if details["type"] == RULE_BROKEN:
        return [layered.problem(*violation) for violation in details["ctx"]["violations"]]
    if details["type"] == "extra_forbidden":
        key = ".".join(location)
        nested = "Write one name per line, each indented below the one before."
        fix = nested if key in all_keys() else suggestion(key)
        return [Problem("is not a key of the trainer.", fix, layered.where(location), key)]
    whole = location
    while ".".join(location) not in all_keys():  # it ends with indices of a list and branches of a union
        location = location[:-1]
    found, (item, *inside) = all_keys()[".".join(location)], (*whole[len(location) :], "")
    if item.isdigit() and inside[:-1]:  # a key of a mapping in a list
        key, why = f"{found.path}[{item}].{'.'.join(inside[:-1])}", details["msg"]
        fix = "Add it." if details["type"] == "missing" else "Correct it, or leave it out."
        return [Problem(f"{why[0].lower()}{why[1:]}.", fix, layered.where(location), key)]
    return [
        layered.problem(found.path, f"must be {_expected(found)}.", _mend(found, layered.value(location)))
    ]


def _expected(key: Key) -> str:
    if key.is_section:
        return "a mapping of keys"
    return "text that is not empty" if key.type == "text" and key.default else key.type


def _mend(key: Key, value: Any) -> str:
    if key.is_section:
        return "Indent its keys below it."
    if value is None:
        return f"Leave it out for the default, {shown_default(key)}."
    if isinstance(value, str):
        return _mend_text(key, value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and key.type.startswith("text"):
        return f'Put it in quotes: "{value}".'
    if isinstance(value, float) and value.is_integer() and key.type.startswith("int"):
        return f"Write {int(value)}."
    return f"The default is {shown_default(key)}."


def _mend_text(key: Key, value: str) -> str:
    if key.type == "true | false" and value.lower() in ("yes", "on", "y", "no", "off", "n", "true", "false"):
        return f"Write {'true' if value.lower() in ('yes', 'on', 'y', 'true') else 'false'}."
    if key.type.startswith(("int", "number")) and _is_number(value):
        return "Remove the quotes."
    if value in INSTEAD and "|" in key.type:
        return f"{INSTEAD[value].capitalize()}."
    choices = key.type.removeprefix("list of ").split(" | ")
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    return f"Did you mean `{close[0]}`?" if close else f"The default is {shown_default(key)}."


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return value.isascii()
