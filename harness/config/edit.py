"""Typed edits of YAML text: dotted keys and plain values in, the same file with comments and order kept out.

YAML 1.2 (ruamel.yaml): `1e-6` is a number, `on` is a word. A number that is set is written so that readers
of YAML 1.1 (PyYAML) take it for one, too. A text that is JSON stays JSON.
Nothing here knows what a key means.
"""

import io
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from harness.config import reader
from harness.config.reader import ConfigEditError, UnreadableConfigError
from harness.config.values import Scalar, flatten


class _Writer(RoundTripRepresenter):
    """Writes a number that was set; those that stand in the text keep their spelling."""

    def represent_float(self, data: float) -> ScalarNode:
        node: ScalarNode = super().represent_float(data)
        if "." not in node.value:  # `1e-06`, which YAML 1.1 takes for a word
            node.value = node.value.replace("e", ".0e")
        return node


_Writer.add_representer(float, _Writer.represent_float)


def _yaml() -> YAML:
    yaml = reader.parser("rt")
    yaml.Representer = _Writer
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def load(text: str) -> CommentedMap:
    """The mapping in `text`, comments attached. Raises UnreadableConfigError that says where it is wrong."""
    with reader.reading(text):
        data = _yaml().load(text)
    return _mapping(CommentedMap() if data is None else data)


def read(text: str) -> dict[str, Any]:
    """The mapping in `text` as plain data. Raises UnreadableConfigError."""
    with reader.reading(text):
        data = reader.parser().load(text)
    return _mapping({} if data is None else data)


def _mapping(data: Any) -> Any:
    if not isinstance(data, dict):
        what = type(data).__name__
        raise UnreadableConfigError(f"a config is a mapping of keys to values, this is a {what}", 1)
    return data


def leaves(text: str) -> dict[str, Scalar]:
    """The values in `text` by dotted key, a list as its text. Raises UnreadableConfigError."""
    found = flatten(read(text)).items()
    return {key: value if isinstance(value, str | int | float | None) else str(value) for key, value in found}


def get(data: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value at a dotted key, or `default` where the path does not exist."""
    node: Any = data
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return default
        node = node[part]
    return node


def edit(text: str, changes: Mapping[str, Scalar], remove: Iterable[str] = ()) -> str:
    """`text` with every dotted key set and those to remove taken out; missing parents are made. Text without
    changes comes back byte for byte. Raises ConfigEditError, also where a mapping or list would be
    overwritten.
    """
    data, remove = load(text), tuple(remove)
    if not _apply(data, changes, remove):
        return text
    plain = _as_json(text)
    if plain is not None:
        _apply(plain, changes, remove)
        return _dump_json(plain, text)
    edited = _dump(data)
    if _says(edited, data):
        return edited
    if "<<" in text:
        raise ConfigEditError(f"{', '.join([*changes, *remove])} cannot be edited: the text uses `<<`")
    return _dump(_plain(data))


def _apply(data: dict[str, Any], changes: Mapping[str, Scalar], remove: Iterable[str]) -> bool:
    """Make the changes in the data; True if there were any."""
    removed = [_remove(data, key) for key in remove]
    return any([*removed, *[_set(data, key, value) for key, value in changes.items()]])


def _dump(data: Any) -> str:
    stream = io.StringIO()
    _yaml().dump(data, stream)
    return stream.getvalue()


def _as_json(text: str) -> dict[str, Any] | None:
    """The text read as JSON, each number as a word as it is written; None where it is YAML only."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    def spelled(number: str) -> str:
        return f"\0{number}"

    try:
        found = json.loads(text, parse_int=spelled, parse_float=spelled, parse_constant=refuse)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _dump_json(data: dict[str, Any], before: str) -> str:
    """The data as JSON, indented as the text before."""
    indent = re.search(r"\n([ \t]+)\S", before)
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent[1] if indent else None)
    except ValueError as error:
        raise ConfigEditError(f"the config is JSON, which cannot hold {error}") from error
    return re.sub(r'"\\u0000([^"]*)"', r"\1", text) + ("\n" if before.endswith("\n") else "")


def _says(text: str, data: CommentedMap) -> bool:
    """True if the text still means the data: comments beside removed keys can end up where they break it.
    What `<<` merges in is only read again: its copies in `data` are those from before the edit."""
    try:
        return load(text) == data or "<<" in text
    except ConfigEditError:
        return False


def _plain(node: Any) -> Any:
    """The data without its comments."""
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    return [_plain(item) for item in node] if isinstance(node, CommentedSeq) else node


def _remove(data: dict[str, Any], key: str) -> bool:
    _refuse_twin(data, key)
    parent, _, last = key.rpartition(".")
    node = get(data, parent) if parent else data
    if not isinstance(node, dict) or last not in node:
        return False
    try:
        del node[last]
    except KeyError as error:  # it comes out of a mapping that is merged in, or others merge this one
        raise ConfigEditError(
            f"cannot remove {key}: it is shared with another mapping by `<<`; set it instead"
        ) from error
    return True


def _refuse_twin(data: Any, key: str) -> None:
    """Raises ConfigEditError where a key with dots inside stands for (part of) this one: it cannot be told
    which of the two a trainer would read."""
    parts, node = key.split("."), data
    for depth, part in enumerate(parts):
        if not isinstance(node, Mapping):
            return
        for end in range(depth + 2, len(parts) + 1):
            if (joined := ".".join(parts[depth:end])) in node:
                where = ".".join(parts[:depth]) or "the config"
                raise ConfigEditError(
                    f"cannot edit {key}: {where} writes {joined!r} as one key with dots inside; only its "
                    "author can tell whether the trainer takes that apart"
                )
        node = node.get(part)


def _set(data: dict[str, Any], key: str, value: Scalar) -> bool:
    _refuse_twin(data, key)
    *parents, last = key.split(".")
    node = data
    for depth, part in enumerate(parents):
        if node.get(part) is None:
            node[part] = CommentedMap()
        if not isinstance(node[part], dict):
            where = ".".join(parents[: depth + 1])
            raise ConfigEditError(f"cannot set {key}: {where} is the value {node[part]!r}, not a mapping")
        node = node[part]
    if last in node and type(node[last]) is type(value) and node[last] == value:
        return False
    if isinstance(old := node.get(last), dict | list) and old:
        what = "mapping: name a key in it" if isinstance(old, dict) else "list, not a single value"
        raise ConfigEditError(f"cannot set {key}: it holds a {what}")
    if isinstance(value, str) and not value.isprintable():  # such as a line break of Unicode: written escaped
        value = DoubleQuotedScalarString(value)
    node[last] = value
    return True
