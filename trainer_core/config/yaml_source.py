"""YAML 1.2 text into a plain tree that remembers the line of every key.

The nodes that ruamel.yaml composes are walked here instead of being constructed, so that a mapping can report
both lines of a duplicate key, a value can be traced to its line, and no tag can create an object.
"""

from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from trainer_core.config.problems import ConfigError

Path = tuple[str, ...]

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}value"}
_NUMBER_TAGS = {f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"}
_LONGEST_TEXT = 1_000_000
_MOST_NODES = 50_000
_LONGEST_NUMBER = 400
_LARGEST_INT = 2**63 - 1


@dataclass(frozen=True)
class Source:
    """A tree of dicts, lists and scalars, and the 1-based line of every mapping key in it, by path."""

    tree: Any
    lines: dict[Path, int]


def read_yaml(text: str, name: str) -> Source:
    """Parse one YAML 1.2 document.

    `name` is what messages call the source. An empty document gives None. Raises ConfigError.
    """
    if len(text) > _LONGEST_TEXT:
        raise _error(name, None, "is too long to be a config.", "Check that this is the file you mean.")
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        if root is None:
            return Source(None, {})
        walk = _Walk(name, yaml)
        return Source(walk.value(root, (), ()), walk.lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = f"is not YAML: {error.problem or error.context or 'malformed'}."
        raise _error(name, mark and mark.line, told, _mend(error, text)) from error
    except YAMLError as error:
        told = str(error).splitlines()[0]
        raise _error(name, None, f"is not YAML: {told}.", "Save it as plain UTF-8 text.") from error
    except (RecursionError, ValueError) as error:
        told = "is not YAML that can be read here (nested too deeply, or malformed)."
        raise _error(name, None, told, "Check that this is the file you mean.") from error


class _Walk:
    """One pass over the nodes of a document."""

    def __init__(self, name: str, yaml: YAML) -> None:
        self.name = name
        self.yaml = yaml
        self.lines: dict[Path, int] = {}
        self.visited = 0

    def value(self, node: Node, path: Path, above: tuple[int, ...]) -> Any:
        """The plain value of a node; `above` are the ids of the nodes that contain it."""
        self.visited += 1
        if id(node) in above:
            raise self._error(node, "contains itself through an alias.", "Write the value out.")
        if self.visited > _MOST_NODES:
            raise self._error(node, "grows too large through aliases.", "Write the values out.")
        above = (*above, id(node))
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, (*path, str(index)), above) for index, item in enumerate(node.value)]
        if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path, above)
        raise self._unknown_tag(node)

    def _mapping(self, node: MappingNode, path: Path, above: tuple[int, ...]) -> dict[str, Any]:
        own: dict[str, Any] = {}
        own_lines: dict[str, int] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self._error(key_node, "has a list or a mapping as a key.", "Keys are plain names.")
            if key_node.tag == f"{_TAG}merge":
                merged = {**self._merged(value_node, path, above), **merged}
                continue
            key, line = key_node.value, key_node.start_mark.line + 1
            if key in own:
                raise self._error(
                    key_node,
                    f"`{key}` stands twice in the same mapping, first on line {own_lines[key]}.",
                    "Keep one of the two.",
                )
            own_lines[key] = line
            own[key] = self.value(value_node, (*path, key), above)
        self.lines.update({(*path, key): line for key, line in own_lines.items()})
        return {**merged, **own}

    def _merged(self, node: Node, path: Path, above: tuple[int, ...]) -> dict[str, Any]:
        """What `<<: *anchor` or `<<: [*first, *second]` brings in; of several, the first wins."""
        together: dict[str, Any] = {}
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            if not isinstance(part, MappingNode):
                raise self._error(part, "`<<` needs a mapping to merge.", "Write `<<: *name_of_a_mapping`.")
            together = {**self.value(part, path, above), **together}
        return together

    def _scalar(self, node: ScalarNode) -> Any:
        if node.tag in _TEXT_TAGS:
            return self._text(node)
        if node.tag not in _NUMBER_TAGS:
            raise self._unknown_tag(node)
        if len(node.value) > _LONGEST_NUMBER:
            raise self._error(node, "is too long to be a number.", "Quote it if it is text.")
        try:
            value = self.yaml.constructor.construct_object(node)
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            raise self._error(
                node, f"`{node.value}` is not a {node.tag.removeprefix(_TAG)}.", "Quote it if it is text."
            ) from error
        if isinstance(value, int) and abs(value) > _LARGEST_INT:
            raise self._error(
                node, f"`{node.value[:30]}` does not fit into 64 bits.", "Write a smaller number."
            )
        return value

    def _text(self, node: ScalarNode) -> Any:
        """The text, unless no file could hold it."""
        if "\0" in node.value or any("\ud800" <= character <= "\udfff" for character in node.value):
            told = "holds a character that is no text (NUL, or half of a surrogate pair)."
            raise self._error(node, told, "Remove it.")
        return node.value

    def _unknown_tag(self, node: Node) -> ConfigError:
        told = f"carries the tag `{str(node.tag).replace(_TAG, '!!')}`, which means nothing here."
        return self._error(node, told, "Remove the tag.")

    def _error(self, node: Node, message: str, fix: str) -> ConfigError:
        return _error(self.name, node.start_mark.line, message, fix)


def _error(name: str, line: int | None, message: str, fix: str) -> ConfigError:
    """`line` counts from 0, as ruamel's marks do."""
    where = name if line is None else f"{name}:{line + 1}"
    return ConfigError.at(where, message, fix)


def _mend(error: MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in (error.problem or ""):
        return "Indent with spaces instead of tabs."
    if "mapping values are not allowed" in (error.problem or ""):
        return "Check the indentation, and quote a value that contains `: `."
    if "undefined alias" in (error.problem or ""):
        return "Define the anchor (`&name`) above, or quote a value that begins with `*`."
    if "another document" in (error.problem or ""):
        return "Keep one document; remove the second `---` and what follows it."
    return "Check indentation, brackets and quotes around here."
