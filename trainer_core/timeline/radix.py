"""A radix tree: keys that begin alike share the nodes of their common prefix.

Keys are tuples of token ids, or text. Inserting compares a key once with the path it shares, slice by slice,
so a tree is built in time linear in the total length of its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", tuple[int, ...], str)


class Node(Generic[Key]):
    """A stretch without a fork. Every inserted key ends at the end of a node, and goes on ending there."""

    __slots__ = ("children", "end", "parent", "part")

    def __init__(self, part: Key, parent: Node[Key] | None) -> None:
        self.part: Key = part
        self.parent: Node[Key] | None = parent
        self.children: dict[Any, Node[Key]] = {}
        """By the first item of their part, in the order they came."""
        self.end: int = len(part) + (parent.end if parent is not None else 0)
        """Length of the key that ends here."""

    def path(self) -> list[Node[Key]]:
        """The nodes from the root's child to this one."""
        nodes = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def _split(self, length: int) -> Node[Key]:
        """Put a node with the first `length` items above this one, which keeps the others."""
        assert self.parent is not None
        upper = Node(self.part[:length], self.parent)
        self.parent.children[self.part[0]] = upper
        self.part = self.part[length:]
        self.parent = upper
        upper.children[self.part[0]] = self
        return upper


class RadixTree(Generic[Key]):
    """Keys that share their beginnings."""

    def __init__(self, empty: Key) -> None:
        """`empty` is the key without items."""
        self.root: Node[Key] = Node(empty, None)

    def insert(self, key: Key, more: Key) -> Node[Key]:
        """The node where `key` and then `more` end, made where there was none."""
        node = self.root
        for deeper in self.prefixes(key):
            node = deeper
        above, rest = node.end, key[node.end :] + more  # short where the key goes on from another one
        while node.end < above + len(rest):
            start = node.end - above
            child = node.children.get(rest[start])
            if child is None:
                child = Node(rest[start:], node)
                node.children[child.part[0]] = child
                return child
            shared = _common(child.part, rest, start)
            node = child if shared == len(child.part) else child._split(shared)
        return node

    def prefixes(self, key: Key) -> Iterator[Node[Key]]:
        """The nodes whose key is a prefix of this one, the shortest first."""
        node: Node[Key] | None = self.root
        while node is not None and node.end < len(key):
            child = node.children.get(key[node.end])
            if child is None or child.part != key[node.end : child.end]:
                return
            yield child
            node = child

    def nodes(self) -> Iterator[Node[Key]]:
        """All nodes but the root, depth first: parents before children, children in the order they came."""
        waiting = list(reversed(self.root.children.values()))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children.values()))


def _common(part: Key, key: Key, start: int) -> int:
    """How many items of `part` agree with those of `key` from `start` on."""
    length = min(len(part), len(key) - start)
    if part[:length] == key[start : start + length]:
        return length
    agreed, differs = 0, length  # the first `agreed` items agree, one before `differs` does not
    while differs - agreed > 1:
        middle = (agreed + differs) // 2
        if part[agreed:middle] == key[start + agreed : start + middle]:
            agreed = middle
        else:
            differs = middle
    return agreed
