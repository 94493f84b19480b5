"""What a YAML text says to whoever reads it: every value by its path, anchors and merges followed.

In: the text of a config before and after an edit. Out: the paths whose value differs. The nodes are walked,
not constructed, so no tag can create an object. Trainers read YAML 1.2 (ours) or 1.1 (PyYAML), which take
`on` or `1e3` differently: callers compare both readings. `${…}`, which OmegaConf and Hydra resolve, is
followed by `referring`."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import yaml
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from harness.config import reader
from harness.config.reader import UnreadableConfigError

Path = tuple[str, ...]
"""Keys from the top; a place in a list is written `[0]`."""

VERSIONS = ((1, 2), (1, 1))
_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+")
_REFERENCE = re.compile(r"\$\{([^${}]*)")
_NAMED = re.compile(r"\.*[\w-]+(?:\.[\w-]+)*\.?")


@dataclass(frozen=True)
class Value:
    """One value: its kind (`str`, `int`, `float`, `bool`, `null`, `map`, `seq`, or a tag) and its text."""

    kind: str
    text: str

    @property
    def whole(self) -> int | None:
        """A whole number of a size that settings have, from 1 on."""
        is_whole = self.kind == "int" and re.fullmatch(r"[1-9][0-9]{0,8}", self.text)
        return int(self.text) if is_whole else None


def values(text: str, version: tuple[int, int]) -> dict[Path, Value]:
    """Every scalar and every empty mapping or list of the text by its path. Raises UnreadableConfigError."""
    parser = reader.parser()
    parser.version = version
    with reader.reading(text):
        root = parser.compose(text)
        return {} if root is None else dict(_values(root, ()))


@lru_cache(maxsize=16)
def readings(text: str) -> tuple[dict[Path, Value], ...]:
    """`values` in each version of YAML, ours first, kept: only to be read. Raises UnreadableConfigError."""
    return tuple(values(text, version) for version in VERSIONS)


def changed(
    before: Sequence[dict[Path, Value]], after: Sequence[dict[Path, Value]]
) -> dict[Path, tuple[Value | None, Value | None]]:
    """The paths whose value differs in any of the `readings`, with both values (None: absent). A section that
    only became empty or was filled is not listed; what stands in it is."""
    found: dict[Path, tuple[Value | None, Value | None]] = {}
    for old, new in zip(before, after, strict=True):
        for path in (*old, *(path for path in new if path not in old)):
            one, other = old.get(path), new.get(path)
            there, absent_in = (other, old) if one is None else (one, new)
            is_filled = None in (one, other) and there is not None and there.kind in ("null", "map")
            if one != other and not (is_filled and _has_below(absent_in, path)):
                found.setdefault(path, (one, other))
    return found


def numbers_as_text(text: str) -> dict[str, tuple[str, str]]:
    """Numbers such as `1e-2`, which PyYAML takes for text: by dotted key, what stands there and how it is
    written for every reader. Empty for a text that cannot be read."""
    try:
        with reader.reading(text):
            root = yaml.compose(text, Loader=reader.OlderParser)
    except UnreadableConfigError:
        return {}
    return {} if root is None else dict(_numbers_as_text(root, ""))


def _numbers_as_text(node: yaml.Node, key: str) -> Iterator[tuple[str, tuple[str, str]]]:
    if isinstance(node, yaml.MappingNode):
        for name, child in node.value:
            below = f"{key}.{name.value}" if key else str(name.value)
            yield from _numbers_as_text(child, below)
    elif isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str" and node.style is None:
        number = repr(float(node.value)) if _NUMBER.fullmatch(node.value) else ""
        if number:
            yield key, (node.value, re.sub(r"^(-?\d+)e", r"\1.0e", number))


def referring(tree: dict[Path, Value], edited: Collection[Path]) -> dict[Path, Path]:
    """The paths whose value is taken from an edited one by `${…}`, straight or over others, each with the
    path that it refers to. Where that cannot be told for certain, it is taken to refer."""
    references = {path: _references(path, value.text) for path, value in tree.items() if "${" in value.text}
    found: dict[Path, Path] = {}
    fresh = set(edited)
    while fresh:
        hit = {
            path: target
            for path, named in references.items()
            if path not in found
            for target in fresh
            if any(_may_mean(name, target) for name in named)
        }
        found |= hit
        fresh = set(hit)
    return {path: target for path, target in found.items() if path not in edited}


def _references(path: Path, text: str) -> list[Path]:
    """What a value at `path` may refer to; an empty path stands for anything."""
    found: list[Path] = []
    for head in _REFERENCE.findall(text):
        plain = re.sub(r"[\[\]]+\.?", ".", re.sub(r"['\"]", "", head)).strip()
        resolver, colon, arguments = plain.partition(":")
        if not plain:
            found.append(())  # the name itself is put together
        for name in _NAMED.findall(arguments if colon else resolver):
            dots = len(name) - len(name.lstrip("."))
            above = path[: max(len(path) - dots, 0)] if dots else ()
            found.append((*above, *(part for part in name.split(".") if part)))
    return found


def _may_mean(name: Path, target: Path) -> bool:
    """True if a reference means the target, something in it, or a section that holds it. A file may be put
    below another one before references are followed, so beginnings may be left out."""
    wanted = tuple(part.strip("[]") for key in target for part in key.split("."))
    longer, shorter = (name, wanted) if len(name) > len(wanted) else (wanted, name)
    starts = range(len(longer) - len(shorter) + 1)
    return any(longer[start : start + len(shorter)] == shorter for start in starts) or any(
        name[start:] == wanted[: len(name) - start] for start in range(len(name))
    )


def _has_below(tree: dict[Path, Value], path: Path) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in tree)


def _values(node: Node, path: Path) -> Iterator[tuple[Path, Value]]:
    kind = str(node.tag).removeprefix(_TAG)
    if isinstance(node, ScalarNode):
        yield path, Value(kind, _plain(kind, node.value))
        return
    if isinstance(node, SequenceNode):
        items = {f"[{index}]": child for index, child in enumerate(node.value)}
    else:
        items = _mapping(node)
    if not items or kind not in ("map", "seq"):
        yield path, Value(kind, "")
    for key, child in items.items():
        yield from _values(child, (*path, key))


def _mapping(node: Node) -> dict[str, Node]:
    """The keys of a mapping, with what `<<` brings in; of several mappings, the first wins."""
    if not isinstance(node, MappingNode):
        line = node.start_mark.line + 1
        raise UnreadableConfigError("`<<` merges something that is not a mapping", line)
    own: dict[str, Node] = {}
    merged: dict[str, Node] = {}
    for key, child in node.value:
        if not isinstance(key, ScalarNode):
            raise UnreadableConfigError("a list or a mapping as a key", key.start_mark.line + 1)
        if key.tag != f"{_TAG}merge":
            own[key.value] = child
            continue
        for part in child.value if isinstance(child, SequenceNode) else [child]:
            merged = {**_mapping(part), **merged}
    return {**merged, **own}


def _plain(kind: str, text: str) -> str:
    """The text of a scalar, the same for spellings that mean the same."""
    if kind == "null":
        return ""
    if kind == "bool":
        return text.lower()
    if kind == "float":
        try:
            return repr(float(text.replace("_", "")))
        except ValueError:
            return text
    return text
