"""A `SweepSpec` from a `sweep.yaml` or from the command line, and back to a `sweep.yaml`.

Both are read as YAML 1.2 types them, but values of `arg:` and `env:` keys keep the exact text as it was
written. Every problem is a `SweepError` that says where, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from harness.sweep.plan import SweepError
from harness.sweep.spec import Each, Expect, SweepSpec, Varied
from harness.sweep.values import UNSET, did_you_mean, kind_of

Place = tuple[str | int, ...]
_FIRST = ("blueprint", "name", "question")
_SECTIONS = ("each", "canary", "set")
"""Fields of which `--set FIELD.KEY=VALUE` sets one entry."""


def read_spec(path: Path) -> SweepSpec:
    """The sweep that a `sweep.yaml` describes; its blueprint's path is absolute. Raises SweepError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SweepError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SweepError(f"{path} is not a text in UTF-8; save it as UTF-8") from error
    lines: dict[Place, int] = {}
    data = _data(text, str(path), lines)
    if not isinstance(data, dict):
        raise SweepError(f"{path} is not a mapping of keys to values; `harness new sweep` writes one")
    if isinstance(data.get("blueprint"), str):
        data["blueprint"] = path.absolute().parent / Path(data["blueprint"]).expanduser()

    def where(place: Place) -> str:
        around = (place[:end] for end in range(len(place), 0, -1))
        line = next((lines[part] for part in around if part in lines), None)
        return f"{path}:{line}: " if line is not None else f"{path}: "

    try:
        return SweepSpec.model_validate(data)
    except ValidationError as error:
        said = [f"{where(item['loc'])}{sentence(item)}" for item in error.errors(include_url=False)]
        raise SweepError("\n".join(said)) from error


def spec_from_options(
    blueprint: Path, vary: Sequence[str] = (), settings: Sequence[str] = (), **given: Any
) -> SweepSpec:
    """The sweep that the options of `harness sweep` describe. Raises SweepError.

    `vary`: `KEY=v1,v2`. `settings`: `KEY=VALUE` for a field of the schema (`design=random`, `each.gpus=2`,
    `canary=false`), else for a key that is set in all points alike. `given`: fields of `SweepSpec` by name,
    of which `seeds` may be a text; those that are None are left out.
    """
    return checked({"blueprint": blueprint.absolute(), "vary": {}, **fields_of(vary, settings, **given)})


def checked(data: Mapping[str, Any]) -> SweepSpec:
    """The spec that these fields make. Raises SweepError with one line per problem."""
    try:
        return SweepSpec.model_validate(data)
    except ValidationError as error:
        raise SweepError("\n".join(sentence(item) for item in error.errors(include_url=False))) from error


def fields_of(vary: Sequence[str] = (), settings: Sequence[str] = (), **given: Any) -> dict[str, Any]:
    """The fields that options give, not yet checked by the schema. Raises SweepError."""
    data = {name: value for name, value in given.items() if value is not None}
    if isinstance(data.get("seeds"), str):
        data["seeds"] = _one_or_several("seeds", data["seeds"])
    for text in vary:
        key, written = _split(text, "--vary", "KEY=v1,v2")
        if key in data.setdefault("vary", {}):
            raise SweepError(f"--vary gives {key} twice; put all its values into one: {key}=v1,v2,v3")
        data["vary"][key] = _values(key, written)
    for text in settings:
        key, written = _split(text, "--set", "KEY=VALUE")
        _put(data, key, written)
    return data


def to_yaml(spec: SweepSpec) -> str:
    """The sweep as a `sweep.yaml` with every field, each explained; it reads back equal."""
    values = spec.model_dump() | {"blueprint": str(spec.blueprint)}
    values["vary"] = {
        key: varied.values if varied.stated_baseline is UNSET else varied.model_dump()
        for key, varied in spec.vary.items()
    }
    return as_yaml({name: values[name] for name in (*_FIRST, *values)})


def as_yaml(values: Mapping[str, Any], about: str = "", hints: Mapping[str, Sequence[str]] = {}) -> str:
    """Fields by name as an explained `sweep.yaml`. `about`: the first lines, as a comment; `hints`: comments
    below a field."""
    from harness.templating import render

    known = SweepSpec.model_fields
    fields = [
        {
            "name": name,
            "value": value,
            "description": known[name].description,
            "hints": hints.get(name, ()),
        }
        for name, value in values.items()
    ]
    return render("sweeps/sweep.yaml.j2", fields=fields, about=about)


# --- texts to data ------------------------------------------------------------------------------------------


def _split(text: str, option: str, form: str) -> tuple[str, str]:
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        raise SweepError(f"{option} {text!r} is not {form}")
    return key.strip(), written


def _put(data: dict[str, Any], key: str, written: str) -> None:
    """Put what `--set` says where it belongs."""
    head, _, rest = key.partition(".")
    if key in ("vary", "blueprint", *_SECTIONS[2:]):
        raise SweepError(f"--set {key}: write --vary KEY=v1,v2, the blueprint's path, or --set KEY=VALUE")
    if key in SweepSpec.model_fields:
        section, name = data, key
    elif head in _SECTIONS and rest:
        section, name = data.setdefault(head, {}), rest
    else:
        section, name = data.setdefault("set", {}), key
    if not isinstance(section, dict) or name in section:
        raise SweepError(f"--set gives {key} twice")
    section[name] = _one_or_several(name, written)


def _one_or_several(key: str, written: str) -> Any:
    """One value; several between commas where `key` has several."""
    found = _values(key, written)
    if len(found) != 1 and key != "seeds":
        raise SweepError(f"{key}={written} gives {len(found)} values; put quotes around one with a comma")
    return found[0] if len(found) == 1 else found


def _values(key: str, written: str) -> list[Any]:
    """The values between the commas that no quotes protect."""
    try:
        found = _data(f"[{written}]", key, {}, is_text=kind_of(key) != "config")
    except SweepError as error:
        raise SweepError(f"{error}: put quotes inside {written!r} around what is one text") from error
    if not isinstance(found, list) or not found:
        raise SweepError(f"{key}: no value in {written!r}; write null, or '' for an empty text")
    return found


def _data(text: str, source: str, lines: dict[Place, int], *, is_text: bool = False) -> Any:
    """The data of a YAML text; `lines` is filled with the line of every key and list entry, by its place."""
    yaml = YAML(typ="safe", pure=True)
    try:
        return _Reader(yaml, source, lines).value(yaml.compose(text), (), is_text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise SweepError(f"{where}: {' '.join(str(error.problem or error).split())}") from error
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SweepError(f"{source}: this is no YAML that can be read ({error})") from error


class _Reader:
    """Makes data of YAML nodes."""

    def __init__(self, yaml: YAML, source: str, lines: dict[Place, int]) -> None:
        self._yaml, self._source, self._lines = yaml, source, lines

    def value(self, node: Node | None, place: Place, is_text: bool) -> Any:
        """The data of a node. `is_text`: scalars below are kept as they are written."""
        if isinstance(node, MappingNode):
            return self._mapping(node, place, is_text)
        if isinstance(node, SequenceNode):
            return [self._entry(item, (*place, number), is_text) for number, item in enumerate(node.value)]
        if is_text and isinstance(node, ScalarNode):
            return node.value
        return self._yaml.constructor.construct_object(node, deep=True) if node is not None else None

    def _mapping(self, node: MappingNode, place: Place, is_text: bool) -> dict[str, Any]:
        about = next((value.value for key, value in node.value if key.value == "key"), "")
        made: dict[str, Any] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in made:
                raise SweepError(f"{self._source}:{line}: {name} stands there twice")
            wants_text = kind_of(str(about) if name == "level" else name) != "config"
            made[name] = self._entry(value, (*place, name), is_text or wants_text, line)
        return made

    def _entry(self, node: Node, place: Place, is_text: bool, line: int | None = None) -> Any:
        self._lines[place] = line or node.start_mark.line + 1
        return self.value(node, place, is_text)


# --- problems in words --------------------------------------------------------------------------------------


def sentence(problem: Mapping[str, Any]) -> str:
    """One finding of the schema: the name of the field, what is wrong, what to write."""
    place = [str(part) for part in problem["loc"] if part != "[key]"]
    shown = place[:-1] if place[0] == "vary" and place[-1] == "values" else place
    name = ".".join(shown)
    if problem["type"] == "extra_forbidden":
        known = _fields(place).model_fields
        hint = did_you_mean(place[-1], known) or f"; known are {', '.join(known)}"
        return f"{name} is unknown{hint}"
    if problem["type"] == "missing":
        return f"{name} is missing"
    if problem["type"] == "literal_error":
        choices = [str(choice) for choice in get_args(_fields(place).model_fields[place[-1]].annotation)]
        hint = did_you_mean(str(problem["input"]), choices) or f"; use {', '.join(choices)}"
        return f"{name}: there is no {problem['input']!r}{hint}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{name}: {message.replace('Input should', 'should')}"


def _fields(place: Sequence[str]) -> type[BaseModel]:
    inner: dict[str, type[BaseModel]] = {"vary": Varied, "expect": Expect, "each": Each}
    return inner[place[0]] if len(place) > 1 and place[0] in inner else SweepSpec
