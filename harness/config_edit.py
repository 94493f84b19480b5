"""Typed edits of YAML text: dotted keys and plain values in, the same file with comments and order kept out.

YAML 1.2 (ruamel.yaml): `1e-6` is a number, `on` is a word. Nothing here knows what a key means.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

Scalar = str | int | float | bool | None


class ConfigEditError(Exception):
    """The text is not a YAML mapping, or a key leads through something that is not one."""


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
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


def _says(text: str, data: CommentedMap) -> bool:
    """Whether the text still means the data: comments beside removed keys can end up where they break it.

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


def _set(data: CommentedMap, key: str, value: Scalar) -> bool:
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
    node[last] = value
    return True
