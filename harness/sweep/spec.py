"""What a person asks of a sweep: a `sweep.yaml` or the options of `harness sweep` in, a checked `SweepSpec`
out, and back to a `sweep.yaml`. Every problem is a `SweepError` that says where and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from harness.config.edit import Scalar
from harness.sweep import spec_file
from harness.sweep.spec_parts import Each, Expect, Varied
from harness.sweep.spec_schema import SweepSpec
from harness.sweep.types import SweepError
from harness.sweep.values import UNSET, did_you_mean, parse_setting, parse_varied

__all__ = ["Each", "Expect", "SweepSpec", "Varied", "as_yaml", "read_spec", "spec_from_options", "to_yaml"]


def read_spec(path: Path) -> SweepSpec:
    """The sweep that a `sweep.yaml` describes; its blueprint's path is absolute. Raises SweepError."""
    file = spec_file.load(path)
    data = dict(file.data)
    if isinstance(data.get("blueprint"), str):
        data["blueprint"] = path.absolute().parent / Path(data["blueprint"]).expanduser()
    try:
        return SweepSpec.model_validate(data)
    except ValidationError as error:
        problems = [f"{file.where(problem['loc'])}: {_sentence(problem)}" for problem in _problems(error)]
        raise SweepError("\n".join(problems)) from error


def spec_from_options(
    blueprint: Path,
    *,
    vary: Sequence[str],
    set_: Sequence[str] = (),
    canary: Sequence[str] = (),
    seeds: str | None = None,
    **given: Any,
) -> SweepSpec:
    """The sweep that the options of `harness sweep` describe; options that are None are left out.

    `vary`: `KEY=v1,v2`; `set_`, `canary`: `KEY=VALUE`, or `["false"]` for no canary; `seeds`: `3` or `1,5,7`;
    `given`: other fields of `SweepSpec` by name. Raises SweepError that names the option.
    """
    data: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    data |= {"blueprint": blueprint.absolute(), "vary": {}}
    for text in vary:
        key, values = parse_varied(text)
        if key in data["vary"]:
            raise SweepError(f"--vary gives {key} twice; put all its values into one: {key}=v1,v2,v3")
        data["vary"][key] = values
    if set_:
        data["set"] = _assignments(set_, "--set")
    if canary:
        data["canary"] = False if list(canary) == ["false"] else _assignments(canary, "--canary")
    if seeds is not None:
        data["seeds"] = _seeds_of(seeds)
    try:
        return SweepSpec.model_validate(data)
    except ValidationError as error:
        problems = [_sentence(problem, of_options=True) for problem in _problems(error)]
        raise SweepError("\n".join(problems)) from error


def to_yaml(spec: SweepSpec) -> str:
    """The sweep as a `sweep.yaml` with every field, each explained; it reads back equal."""
    values = {name: _plain(spec, name) for name in SweepSpec.model_fields}
    return as_yaml(values)


def as_yaml(values: Mapping[str, Any], about: str = "", hints: Mapping[str, Sequence[str]] = {}) -> str:
    """Fields by name as an explained `sweep.yaml`. `about`: the first lines, as a comment; `hints`: comments
    below a field."""
    from harness.templating import render

    fields = [
        {"name": name, "value": values[name], "description": field.description, "hints": hints.get(name, ())}
        for name, field in SweepSpec.model_fields.items()
        if name in values
    ]
    return render("sweeps/sweep.yaml.j2", fields=fields, about=about)


def _plain(spec: SweepSpec, name: str) -> Any:
    """A field as JSON has it."""
    if name == "blueprint":
        return str(spec.blueprint)
    if name == "vary":
        return {
            key: varied.values if varied.stated_baseline is UNSET else varied.model_dump()
            for key, varied in spec.vary.items()
        }
    return spec.model_dump(include={name})[name]


def _assignments(texts: Sequence[str], option: str) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for text in texts:
        key, value = parse_setting(text, option)
        if key in found:
            raise SweepError(f"{option} gives {key} twice")
        found[key] = value
    return found


def _seeds_of(text: str) -> int | list[int] | str:
    words = text.strip().removeprefix("[").removesuffix("]").split(",")
    if not all(re.fullmatch(r"\s*\d{1,10}\s*", word) for word in words):
        return text
    return int(text) if text.strip().isdigit() else [int(word) for word in words]


def _problems(error: ValidationError) -> list[dict[str, Any]]:
    return [dict(problem) for problem in error.errors(include_url=False)]


def _sentence(problem: Mapping[str, Any], *, of_options: bool = False) -> str:
    """One finding of the schema: the name of the field or the option, what is wrong, what to write."""
    place = [str(part) for part in problem["loc"] if part != "[key]"]
    shown = place[:-1] if place[0] == "vary" and place[-1] == "values" else place
    name = f"--{' '.join([shown[0].replace('_', '-'), *shown[1:]])}" if of_options else ".".join(shown)
    if problem["type"] == "extra_forbidden":
        known = _fields(place).model_fields
        hint = did_you_mean(place[-1], known) or f"; known are {', '.join(known)}"
        return f"{name} is unknown{hint}"
    if problem["type"] == "missing":
        return f"{'.'.join(place)} is missing"
    if problem["type"] == "literal_error":
        choices = _choices(place)
        hint = did_you_mean(str(problem["input"]), choices) or f"; use {', '.join(choices)}"
        return f"{name}: there is no {problem['input']!r}{hint}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{name}: {message.replace('Input should', 'should')}"


def _fields(place: Sequence[str]) -> type[BaseModel]:
    inner: dict[str, type[BaseModel]] = {"vary": Varied, "expect": Expect, "each": Each}
    return inner[place[0]] if len(place) > 1 and place[0] in inner else SweepSpec


def _choices(place: Sequence[str]) -> list[str]:
    annotation = _fields(place).model_fields[place[-1]].annotation
    return [str(choice) for choice in get_args(annotation)]
