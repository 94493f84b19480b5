"""A `sweep.yaml` as data: values typed as YAML 1.2 types them, but those of `arg:` and `env:` as exact texts.

In: the text of the file. Out: the data, and the line of every key, so that whoever checks it can say where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from harness.sweep.types import SweepError
from harness.sweep.values import kind_of

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class SweepFile:
    """`data`: the mapping. `lines`: of every key and list entry, by its place."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[Place, int]

    def where(self, place: Place) -> str:
        """`sweep.yaml:12` of the entry, else of the nearest one around it."""
        around = (place[:end] for end in range(len(place), 0, -1))
        line = next((self.lines[part] for part in around if part in self.lines), None)
        return f"{self.path}:{line}" if line is not None else str(self.path)


def load(path: Path) -> SweepFile:
    """Read the file. Raises SweepError that says where the text is wrong."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SweepError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SweepError(f"{path} is not a text in UTF-8; save it as UTF-8") from error
    try:
        data: Any = YAML(typ="safe", pure=True).load(text)
        tree: Any = YAML(typ="safe", pure=True).compose(text)
        lines: dict[Place, int] = {}
        if isinstance(data, dict) and isinstance(tree, MappingNode):
            return SweepFile(path, _mapping(tree, data, (), lines, as_text=False), lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise SweepError(f"{where}: {' '.join(str(error.problem or error).split())}") from error
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SweepError(f"{path} is no YAML that can be read: {error}") from error
    raise SweepError(
        f"{path} is not a mapping of keys to values; `harness new sweep` writes one to start from"
    )


def _mapping(
    tree: MappingNode, data: Mapping[Any, Any], place: Place, lines: dict[Place, int], *, as_text: bool
) -> dict[str, Any]:
    """The mapping with the scalars of `arg:` and `env:` keys as texts; `level` too, where `key` is one."""
    names = {key.value: value for key, value in tree.value}
    key = names.get("key")
    about = key.value if isinstance(key, ScalarNode) else ""
    made = {str(name): value for name, value in data.items()}
    for node, value in tree.value:
        name = node.value
        if name not in made:  # `<<`
            continue
        here = (*place, name)
        lines[here] = node.start_mark.line + 1
        is_text = as_text or _is_text(name) or (name == "level" and _is_text(about))
        made[name] = _value(value, made[name], here, lines, as_text=is_text)
    return made


def _is_text(key: object) -> bool:
    return isinstance(key, str) and kind_of(key) != "config"


def _value(tree: Node, data: Any, place: Place, lines: dict[Place, int], *, as_text: bool) -> Any:
    if isinstance(tree, MappingNode) and isinstance(data, dict):
        return _mapping(tree, data, place, lines, as_text=as_text)
    if isinstance(tree, SequenceNode) and isinstance(data, list):
        items = []
        for number, (node, item) in enumerate(zip(tree.value, data, strict=True)):
            here = (*place, number)
            lines[here] = node.start_mark.line + 1
            items.append(_value(node, item, here, lines, as_text=as_text))
        return items
    return tree.value if as_text and isinstance(tree, ScalarNode) else data
