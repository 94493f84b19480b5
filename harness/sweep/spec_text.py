"""A `SweepSpec` from a `sweep.yaml` or from the command line, and back to a `sweep.yaml`.

Both are read as YAML 1.2 types them, but values of `arg:` and `env:` keys keep the exact text as it was
written. Every problem is a `SweepError` that says where, and what to write instead.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from harness.config import reader
from harness.sweep.plan import SweepError
from harness.sweep.spec import Each, Expect, SweepSpec, Varied, kind_of
from harness.templating import render
from harness.wording import did_you_mean

Place = tuple[str | int, ...]
_FIRST = ("blueprint", "name", "question")
_SECTIONS = ("each", "canary")  # fields of which `--set FIELD.KEY=VALUE` sets one entry
_INNER: dict[str, type[BaseModel]] = {"vary": Varied, "expect": Expect, "each": Each}


def read_spec(path: Path) -> SweepSpec:
    """The sweep that a `sweep.yaml` describes; its blueprint's path is absolute. Raises SweepError."""
    try:
        text = reader.text_of(path).removeprefix("\ufeff")
    except OSError as error:
        raise SweepError(f"{path} cannot be read: {error.strerror}") from error
    except reader.UnreadableConfigError as error:
        raise SweepError(f"{path} is {error}; save it as a small file in UTF-8") from error
    lines: dict[Place, int] = {}
    data = _data(text, str(path), lines)
    if not isinstance(data, dict):
        raise SweepError(f"{path} is not a mapping of keys to values; `harness new sweep` writes one")
    if isinstance(data.get("blueprint"), str):
        data["blueprint"] = path.absolute().parent / Path(data["blueprint"]).expanduser()
    return checked(data, str(path), lines)


def checked(data: Mapping[str, Any], source: str = "", lines: Mapping[Place, int] = {}) -> SweepSpec:
    """The spec that these fields make. Raises SweepError with one line per problem. `source`, `lines`: where
    they were read, and the line of each place."""
    try:
        return SweepSpec.model_validate(data)
    except ValidationError as error:
        found = []
        for problem in error.errors(include_url=False):
            around = (problem["loc"][:end] for end in range(len(problem["loc"]), 0, -1))
            line = next((f"{lines[place]}:" for place in around if place in lines), "")
            found.append(f"{source}:{line} {_sentence(problem)}" if source else _sentence(problem))
        raise SweepError("\n".join(found)) from error


def fields_of(vary: Sequence[str] = (), settings: Sequence[str] = (), **given: Any) -> dict[str, Any]:
    """The fields that the options of `harness sweep` give, not yet checked by the schema. Raises SweepError.

    `vary`: `KEY=v1,v2`. `settings`: `KEY=VALUE` for a field of the schema (`design=random`, `each.gpus=2`,
    `canary=false`), else for a key that is set in all points alike. `given`: fields by name, of which `seeds`
    may be a text; those that are None are left out.
    """
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
        key: varied.model_dump() if varied.has_baseline else varied.values
        for key, varied in spec.vary.items()
    }
    return as_yaml({name: values[name] for name in (*_FIRST, *values)})


def as_yaml(values: Mapping[str, Any], about: str = "", hints: Mapping[str, Sequence[str]] = {}) -> str:
    """Fields as an explained `sweep.yaml`; `about`: its first comment, `hints`: comments below a field."""
    known = SweepSpec.model_fields
    fields = [
        {
            "name": name,
            "value": value,
            "description": " ".join((known[name].description or "").split()),
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
    head, _, rest = key.partition(".")
    if key in ("vary", "blueprint", "set"):
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
    yaml = reader.parser()

    def value(node: Node | None, place: Place, is_text: bool) -> Any:
        if node is not None:
            lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return mapping(node, place, is_text)
        if isinstance(node, SequenceNode):
            return [value(item, (*place, number), is_text) for number, item in enumerate(node.value)]
        if is_text and isinstance(node, ScalarNode):
            return node.value
        return yaml.constructor.construct_object(node, deep=True) if node is not None else None

    def mapping(node: MappingNode, place: Place, is_text: bool) -> dict[str, Any]:
        about = next((str(item.value) for key, item in node.value if key.value == "key"), "")
        made: dict[str, Any] = {}
        for key, item in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in made:
                raise SweepError(f"{source}:{line}: {name} stands there twice")
            here = (*place, name)
            lines[here] = line
            wants_text = is_text or kind_of(about if name == "level" else name) != "config"
            made[name] = value(item, here, wants_text)
        return made

    try:
        with reader.reading(text):
            return value(yaml.compose(text), (), is_text)
    except reader.UnreadableConfigError as error:
        raise SweepError(f"{source}{f':{error.line}' * bool(error.line)}: {error.problem}") from error


def _sentence(problem: Mapping[str, Any]) -> str:
    """One finding of the schema: the name of the field, what is wrong, what to write."""
    place = [part for part in problem["loc"] if isinstance(part, str) and part != "[key]"]
    name = ".".join(place[:-1] if place[0] == "vary" and place[-1] == "values" else place)
    if problem["type"] == "extra_forbidden":
        known = (_INNER.get(place[0], SweepSpec) if len(place) > 1 else SweepSpec).model_fields
        return f"{name} is unknown{did_you_mean(place[-1], known) or '; known are ' + ', '.join(known)}"
    if problem["type"] == "missing":
        return f"{name} is missing"
    message = str(problem["msg"]).removeprefix("Value error, ").replace("Input should", "should")
    if problem["type"] == "literal_error":
        given, choices = str(problem["input"]), str(problem["ctx"]["expected"]).split("'")
        message += f", not {given!r}{did_you_mean(given, choices)}"
    return f"{name}: {message}"
