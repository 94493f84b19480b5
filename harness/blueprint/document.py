"""From Markdown to sections: which lines belong to which section, as items that know their line and label.

Block structure comes from markdown-it's token stream. A section opens at a heading, at a bold line, or,
where a document has no such heading for it, at a line or list item that starts with its name in brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from harness.blueprint.labels import Role, role_of, split_label
from harness.blueprint.names import Title, read_heading, read_title
from harness.blueprint.unwrap import unwrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_MARKUP_LINE = re.compile(r"\s*(?:</?\w+/?>|<!--.*?-->)\s*")
_NO_HEADING = 7
"""The level of a section that something else than a heading opened."""


@dataclass(frozen=True)
class Item:
    """One paragraph, list entry or code block of a section."""

    line: int
    text: str
    """As written, without its list marker."""
    label: str = ""
    value: str = ""
    """The text behind the label (all of it where there is none)."""
    role: Role | None = None
    """What the label, or the label it stands under, says; None where neither does."""
    block: bool = False
    """True for a fenced or indented code block."""
    info: str = ""
    """The language of a fenced block."""
    title: bool = False
    """True for the text behind the section's name in its heading."""

    @property
    def strength(self) -> Role:
        """Its role; text that no label says anything about is taken for the value."""
        return self.role or Role.STATED

    @property
    def value_line(self) -> int:
        """The line in which the value begins."""
        return self.line + self.text.count("\n") - self.value.count("\n")


@dataclass(frozen=True)
class Section:
    """A section with its name and what stands in it."""

    title: Title
    line: int
    items: tuple[Item, ...]
    text: str
    """The lines below the heading as written."""
    heading: bool = True
    """False for a section opened by a line of text."""

    @property
    def name(self) -> str:
        return self.title.name


@dataclass(frozen=True)
class Document:
    """The sections in order, repeated and unknown ones included, and the text outside all of them."""

    sections: tuple[Section, ...]
    outside: str


@dataclass
class _Node:
    """A block of the document before sections are known."""

    kind: str  # heading | underlined | text | code
    line: int
    text: str
    depth: int = 0
    level: int = 0
    info: str = ""
    label: str = ""
    value: str = ""
    role: Role | None = None

    @property
    def is_heading(self) -> bool:
        """Several underlined lines are a paragraph above a rule, not a heading."""
        return self.kind == "heading" or (self.kind == "underlined" and "\n" not in self.text)


@dataclass
class _Open:
    """A section (or text outside of one) while it is collected; `body`: index of its first line below."""

    title: Title | None
    line: int
    level: int
    body: int = 0
    items: list[Item] = field(default_factory=list)
    context: Role | None = None


def read_document(text: str) -> Document:
    """Split Markdown into sections. Any text is accepted."""
    lines = unwrap(text.split("\n"))
    nodes = list(_nodes("\n".join(lines)))
    headings = {id(node): title for node in nodes if node.is_heading and (title := read_heading(node.text))}
    strong = {title.name for title in (*headings.values(), *_bold_lines(nodes)) if title.known}
    underlines = any(node.kind == "underlined" and id(node) in headings for node in nodes)
    parts = [_Open(None, 1, 0)]
    for node in nodes:
        if node.kind == "heading" or (node.is_heading and underlines):
            _place_heading(node, headings.get(id(node)), parts)
        elif node.kind == "code":
            role = node.role or parts[-1].context or Role.STATED
            parts[-1].items.append(Item(node.line, node.text, "", node.text, role, True, node.info))
        elif node.depth > 1:
            _add(parts[-1], node.line, node.text, node.role)
        else:
            _place_lines(node, parts, strong)
    return _assemble(parts, lines)


# --- Markdown to blocks ---------------------------------------------------------------------------------


@cache
def _markdown() -> "MarkdownIt":
    """CommonMark blocks only. Without link definitions (`[exp_x]: /y` is a section) and HTML apart from
    comments."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"maxNesting": 30})
    markdown.disable(["reference", "html_block"])
    markdown.core.ruler.disable("inline")
    markdown.block.ruler.before("fence", "comment", _comment, {"alt": ["paragraph", "blockquote", "list"]})
    return markdown


def _comment(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """Block rule: skip `<!-- … -->`, over blank lines too."""
    if not state.src.startswith("<!--", state.bMarks[start] + state.tShift[start]):
        return False
    for line in range(start, end):
        _, closed, behind = state.src[state.bMarks[line] : state.eMarks[line]].partition("-->")
        if closed:
            if not behind.strip() and not silent:
                state.line = line + 1
            return not behind.strip()
    return False


def _nodes(text: str) -> Iterator[_Node]:
    """The leaf blocks in order; those in a list know its depth and the label of the entry they stand
    under."""
    entries: list[_Node | None] = []
    lead_in: _Node | None = None
    heading: Token | None = None
    for token in _markdown().parse(text):
        if token.type == "list_item_open":
            entries.append(lead_in if lead_in and not entries else None)
        elif token.type == "list_item_close":
            entries.pop()
        elif token.type in ("heading_open", "heading_close"):
            heading = token if token.type == "heading_open" else None
        elif token.type in ("bullet_list_close", "ordered_list_close") and not entries:
            lead_in = None
        elif token.type in ("inline", "fence", "code_block"):
            node = _node(token, heading, len(entries))
            parent = next((entry for entry in reversed(entries) if entry), None)
            if not entries and node.kind == "code":
                parent = lead_in
            if parent and node.role is None:
                node.role = _inherited(node, parent)
            if not entries:
                ends_in_colon = node.kind == "text" and node.text.rstrip("*_ ").endswith((":", "："))
                lead_in = node if ends_in_colon else None
            elif node.kind != "code" and not (entries[-1] and entries[-1].depth):
                entries[-1] = node
            yield node


def _node(token: "Token", heading: "Token | None", depth: int) -> _Node:
    line = token.map[0] + 1 if token.map else 1
    if token.type != "inline":
        line += token.type == "fence"
        return _Node("code", line, token.content.rstrip("\n"), depth, info=token.info.strip().lower())
    if heading:
        kind = "heading" if heading.markup.startswith("#") else "underlined"
        return _Node(kind, line, token.content, depth, level=int(heading.tag[1]))
    label, value = split_label(token.content)
    return _Node("text", line, token.content, depth, label=label, value=value, role=role_of(label))


def _inherited(node: _Node, parent: _Node) -> Role | None:
    """What an unlabelled block under an entry is: the entry's value if the entry has none itself, else a
    sentence."""
    if parent.role in (Role.REMARK, Role.DEFAULT, Role.DESCRIPTION):
        return parent.role
    if node.kind == "code":
        return Role.STATED
    label, value = (parent.label, parent.value) if parent.kind == "text" else split_label(parent.text)
    return parent.role if label and not value else Role.PROSE


# --- blocks to sections ---------------------------------------------------------------------------------


def _bold_lines(nodes: list[_Node]) -> Iterator[Title]:
    """The sections that a bold line of their own opens."""
    for node in nodes:
        if node.kind in ("text", "underlined") and node.depth <= 1:
            titles = map(_line_title, node.text.split("\n"))
            yield from (title for title in titles if title and title.bold)


def _line_title(line: str) -> Title | None:
    """The section a line of ordinary text opens: its name in bold or brackets, or followed by a colon."""
    title = read_title(line)
    if not title or not (title.bold or title.bracketed or title.remark.startswith((":", "："))):
        return None
    return None if title.loose and not title.bracketed else title


def _place_heading(node: _Node, title: Title | None, parts: list[_Open]) -> None:
    """A real heading opens a section, ends one, or (deeper, with another name) labels a part of one."""
    deeper = parts[-1].title is not None and node.level > parts[-1].level
    if title and (not deeper or ((title.name.startswith("exp") or title.known) and not title.loose)):
        parts.append(_opened(title, node.line, node.level, node.line + (node.kind == "underlined")))
    elif deeper:
        parts[-1].context = role_of(split_label(node.text + ":")[0])
    else:
        is_document_title = node.level == 1 and not any(part.title for part in parts)
        body = node.line + (node.kind == "underlined") if is_document_title else node.line - 1
        parts.append(_Open(None, node.line, node.level, body))


def _place_lines(node: _Node, parts: list[_Open], strong: set[str]) -> None:
    """A paragraph or list entry: each of its lines may open a section."""
    gathered: list[str] = []
    start, role = node.line, node.role
    for number, line in enumerate(node.text.split("\n"), start=node.line):
        title = _line_title(line)
        if title and (title.bold or title.name not in strong):
            _add(parts[-1], start, "\n".join(gathered), role)
            parts.append(_opened(title, number, _NO_HEADING, number))
            gathered, start, role = [], number + 1, None
        else:
            gathered.append(line)
    _add(parts[-1], start, "\n".join(gathered), role)


def _opened(title: Title, line: int, level: int, below: int) -> _Open:
    return _Open(title, line, level, below, [_title_item(title.remark, line)] if title.remark else [])


def _title_item(remark: str, line: int) -> Item:
    """The value in a heading: behind its colon, or the only thing there; parentheses are remarks unless
    alone."""
    outside = re.sub(r"\([^()]*\)|（[^（）]*）", lambda found: " " * len(found.group()), remark)
    colon = re.match(r"[^-/.=:：]*(?:：|:(?=[\s/`~.$\"'*]|$)(?!//))|:", outside)
    if colon:
        return Item(line, remark, "", remark[colon.end() :].strip(), Role.STATED, title=True)
    alone = remark.strip("()（） ") if not outside.strip() else outside.strip()
    return Item(line, remark, "", alone, Role.PROSE, title=True)


def _add(part: _Open, line: int, text: str, role: Role | None) -> None:
    """Add a paragraph as one item, or as several where its lines carry labels of their own."""
    pieces: list[tuple[int, list[str]]] = []
    for number, piece in enumerate(text.split("\n"), start=line):
        if not pieces or role_of(split_label(piece.strip())[0]) is not None:
            pieces.append((number, []))
        pieces[-1][1].append(piece)
    for number, lines in pieces:
        body = re.sub(r"<!--.*?-->", "", "\n".join(lines).strip(), flags=re.DOTALL).strip()
        if not body or _MARKUP_LINE.fullmatch(body):
            continue
        label, value = split_label(body)
        own = role_of(label)
        part.items.append(Item(number, body, label, value, own if own is not None else role or part.context))


def _assemble(parts: list[_Open], lines: list[str]) -> Document:
    """Close every part where the next begins."""
    sections = []
    outside = []
    ends = [part.line - 1 for part in parts[1:]] + [len(lines)]
    for part, end in zip(parts, ends, strict=True):
        body = "\n".join(line for line in lines[part.body : end] if not _MARKUP_LINE.fullmatch(line)).strip()
        if part.title:
            heading = part.level < _NO_HEADING
            sections.append(Section(part.title, part.line, tuple(part.items), body, heading))
        elif body:
            outside.append(body)
    return Document(tuple(sections), "\n\n".join(outside))
