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
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from harness.config.values import Scalar, flatten


class ConfigEditError(Exception):
    """The text is not a YAML mapping, a key leads through something that is not one, or the text writes the
    key with its dots as one."""


class _Writer(RoundTripRepresenter):
    """Writes a number that was set; those that stand in the text keep their spelling."""

    def represent_float(self, data: float) -> ScalarNode:
        node: ScalarNode = super().represent_float(data)
        if "." not in node.value:  # `1e-06`, which YAML 1.1 takes for a word
            node.value = node.value.replace("e", ".0e")
        return node


_Writer.add_representer(float, _Writer.represent_float)


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.Representer = _Writer
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def load(text: str) -> CommentedMap:
    """The mapping in `text`, comments attached. Raises ConfigEditError that says where the text is wrong."""
    try:
        data = _yaml().load(text)
    except MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigEditError(f"{where}{error.problem or error}") from error
    except YAMLError as error:
        raise ConfigEditError(str(error)) from error
    if data is None:
        return CommentedMap()
    if not isinstance(data, CommentedMap):
        raise ConfigEditError(
            f"line 1: a config is a mapping of keys to values, this is a {type(data).__name__}"
        )
    return data


def read(text: str) -> dict[str, Any]:
    """The mapping in `text` as plain data. Raises ConfigEditError."""
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError, ValueError) as error:
        raise ConfigEditError(str(error)) from error
    if not isinstance(data, dict | None):
        raise ConfigEditError(
            f"line 1: a config is a mapping of keys to values, this is a {type(data).__name__}"
        )
    return data or {}


def leaves(text: str) -> dict[str, Scalar]:
    """The values in `text` by dotted key, a list as its text. Raises ConfigEditError."""
    flat = flatten(read(text))
    return {
        key: value if isinstance(value, str | int | float | None) else str(value)
        for key, value in flat.items()
    }


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
    data = load(text)
    changed = False
    for key in remove:
        changed |= _remove(data, key)
    for key, value in changes.items():
        changed |= _set(data, key, value)
    if not changed:
        return text
    written = _spelled_numbers(text)
    if written is not None:
        return _as_json(data, written, _indent_of(text)) + ("\n" if text.endswith("\n") else "")
    edited = _dump(data)
    if _says(edited, data):
        return edited
    if "<<" in text:
        raise ConfigEditError(f"{', '.join([*changes, *remove])} cannot be edited: the text uses `<<`")
    return _dump(_plain(data))


def _dump(data: Any) -> str:
    stream = io.StringIO()
    _yaml().dump(data, stream)
    return stream.getvalue()


class _Spelled(str):
    """A number as the text writes it."""


def _spelled_numbers(text: str) -> dict[str, Any] | None:
    """The text read as JSON, its numbers as they are written; None where it is YAML only."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    try:
        found = json.loads(text, parse_int=_Spelled, parse_float=_Spelled, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _indent_of(text: str) -> str | None:
    """The indent of the first key; None where everything stands on one line."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else None


def _as_json(node: Any, written: Any, indent: str | None, above: str = "") -> str:
    """The data as JSON; `written` is the same place in the text before, whose numbers keep their spelling."""
    if isinstance(node, CommentedMap | CommentedSeq):
        below = f"{above}{indent or ''}"
        entries = _entries(node, written, None if _is_on_one_line(node) else indent, below)
        start, end = "{}" if isinstance(node, CommentedMap) else "[]"
        if not entries or indent is None or _is_on_one_line(node):
            return f"{start}{', '.join(entries)}{end}"
        joined = f",\n{below}".join(entries)
        return f"{start}\n{below}{joined}\n{above}{end}"
    if isinstance(written, _Spelled) and isinstance(node, int | float) and not isinstance(node, bool):
        value = json.loads(written)
        if value == node and isinstance(value, float) == isinstance(node, float):
            return str(written)
    try:
        return json.dumps(node, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ConfigEditError(f"the config is JSON, which cannot hold {node}") from error


def _entries(node: CommentedMap | CommentedSeq, written: Any, indent: str | None, above: str) -> list[str]:
    if isinstance(node, CommentedMap):
        old = written if isinstance(written, dict) else {}
        return [
            f"{json.dumps(str(key), ensure_ascii=False)}: {_as_json(value, old.get(str(key)), indent, above)}"
            for key, value in node.items()
        ]
    items = written if isinstance(written, list) else [None] * len(node)
    return [_as_json(value, old, indent, above) for value, old in zip(node, items, strict=True)]


def _is_on_one_line(node: CommentedMap | CommentedSeq) -> bool:
    """True if a list or mapping below the top was written on one line."""
    start, places = node.lc.line, (node.lc.data or {}).values()
    return start is not None and bool(places) and node.lc.col != 0 and all(at[0] == start for at in places)


def _says(text: str, data: CommentedMap) -> bool:
    """True if the text still means the data: comments beside removed keys can end up where they break it.

    What `<<` merges in is only read again: its copies in `data` are those from before the edit.
    """
    try:
        return load(text) == data or "<<" in text
    except ConfigEditError:
        return False


def _plain(node: Any) -> Any:
    """The data without its comments."""
    if isinstance(node, Mapping):
        return {key: _plain(value) for key, value in node.items()}
    return [_plain(item) for item in node] if isinstance(node, CommentedSeq) else node


def _remove(data: CommentedMap, key: str) -> bool:
    _refuse_twin(data, key)
    parent, _, last = key.rpartition(".")
    node = get(data, parent) if parent else data
    if not isinstance(node, CommentedMap) or last not in node:
        return False
    try:
        del node[last]
    except KeyError as error:  # it comes out of a mapping that is merged in, or others merge this one
        raise ConfigEditError(
            f"cannot remove {key}: it is shared with another mapping by `<<`; set it instead"
        ) from error
    return True


def _refuse_twin(data: CommentedMap, key: str) -> None:
    """Raises ConfigEditError where a key with dots inside stands for (part of) this one: it cannot be told
    which of the two a trainer would read."""
    parts = key.split(".")
    node: Any = data
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


def _set(data: CommentedMap, key: str, value: Scalar) -> bool:
    _refuse_twin(data, key)
    *parents, last = key.split(".")
    node = data
    for depth, part in enumerate(parents):
        child = node.get(part)
        if child is None:
            child = node[part] = CommentedMap()
        if not isinstance(child, CommentedMap):
            where = ".".join(parents[: depth + 1])
            raise ConfigEditError(f"cannot set {key}: {where} is the value {child!r}, not a mapping")
        node = child
    missing = object()
    old = node.get(last, missing)
    if old is not missing and type(old) is type(value) and old == value:
        return False
    if isinstance(old, CommentedMap | CommentedSeq) and len(old):
        what = "mapping: name a key in it" if isinstance(old, CommentedMap) else "list, not a single value"
        raise ConfigEditError(f"cannot set {key}: it holds a {what}")
    if isinstance(value, str) and not value.isprintable():  # such as a line break of Unicode: written escaped
        node[last] = DoubleQuotedScalarString(value)
    else:
        node[last] = value
    return True
