"""From Markdown to sections: which lines belong to which section, as items that still know their line and
label.

Block structure comes from markdown-it's token stream. A section opens at a heading, at a bold line, or,
where a document has no such heading for it, at a line or list item that starts with its name in brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.blueprint.labels import Role, role_of, split_label
from harness.blueprint.names import Title, read_heading, read_title
from harness.blueprint.unwrap import unwrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_MARKUP_LINE = re.compile(r"\s*(?:</?\w+/?>|<!--.*?-->)\s*")


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
    role: Role | None = None


@dataclass
class _Open:
    """A section (or text outside of one) while it is collected; level 7: opened by something else than a
    heading."""

    title: Title | None
    line: int
    level: int
    body: int = 0
    """Index of the first line below its heading."""
    items: list[Item] = field(default_factory=list)
    context: Role | None = None


def read_document(text: str) -> Document:
    """Split Markdown into sections. Any text is accepted."""
    lines = unwrap(text.split("\n"))
    nodes = list(_nodes("\n".join(lines)))
    strong = _strong_names(nodes)
    underlines = any(node.kind == "underlined" and _heading_title(node) for node in nodes)
    parts = [_Open(None, 1, 0)]
    for node in nodes:
        _place(node, parts, strong, underlines)
    return _assemble(parts, lines)


@lru_cache(maxsize=1)
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
        elif token.type == "heading_open":
            heading = token
        elif token.type == "heading_close":
            heading = None
        elif token.type in ("inline", "fence", "code_block"):
            node = _node(token, heading, len(entries))
            parent = next((entry for entry in reversed(entries) if entry), None)
            if not entries and token.type != "inline":
                parent = lead_in
            if parent and node.role is None:
                node.role = _inherited(node, parent)
            if entries and token.type == "inline":
                entries[-1] = node if not (entries[-1] and entries[-1].depth) else entries[-1]
            elif not entries:
                ends_in_colon = node.kind == "text" and node.text.rstrip("*_ ").endswith((":", "："))
                lead_in = node if ends_in_colon else None
            yield node
        elif token.type in ("bullet_list_close", "ordered_list_close") and not entries:
            lead_in = None


def _node(token: "Token", heading: "Token | None", depth: int) -> _Node:
    line = token.map[0] + 1 if token.map else 1
    if token.type != "inline":
        line += token.type == "fence"
        return _Node("code", line, token.content.rstrip("\n"), depth, info=token.info.strip().lower())
    if heading:
        kind = "heading" if heading.markup.startswith("#") else "underlined"
        return _Node(kind, line, token.content, depth, level=int(heading.tag[1]))
    label, _ = split_label(token.content)
    return _Node("text", line, token.content, depth, label=label, role=role_of(label))


def _inherited(node: _Node, parent: _Node) -> Role | None:
    """What an unlabelled block under an entry is: the entry's value if the entry has none itself, else a
    sentence."""
    label, value = split_label(parent.text)
    if parent.role in (Role.REMARK, Role.DEFAULT, Role.DESCRIPTION):
        return parent.role
    if node.kind == "code":
        return Role.STATED
    return parent.role if label and not value else Role.PROSE


def _strong_names(nodes: list[_Node]) -> set[str]:
    """Sections that have a real heading or a bold line of their own."""
    titles = [_heading_title(node) for node in nodes]
    for node in nodes:
        if node.kind in ("text", "underlined") and node.depth <= 1:
            titles += [title for line in node.text.split("\n") if (title := _line_title(line)) and title.bold]
    return {title.name for title in titles if title and title.known}


def _heading_title(node: _Node) -> Title | None:
    """The section a heading opens. Several underlined lines are a paragraph above a rule, not a heading."""
    if node.kind == "heading" or (node.kind == "underlined" and "\n" not in node.text):
        return read_heading(node.text)
    return None


def _line_title(line: str) -> Title | None:
    """The section a line of ordinary text opens: its name in bold or brackets, or followed by a colon."""
    title = read_title(line)
    if not title or not (title.bold or title.bracketed or title.remark.startswith((":", "："))):
        return None
    if title.loose and not title.bracketed:
        return None
    return title


def _place(node: _Node, parts: list[_Open], strong: set[str], underlines: bool) -> None:
    """Add one block to the section it belongs to, opening new sections on the way."""
    if node.kind == "heading" or (node.kind == "underlined" and "\n" not in node.text and underlines):
        _place_heading(node, parts)
    elif node.kind == "code":
        role = node.role or parts[-1].context or Role.STATED
        parts[-1].items.append(Item(node.line, node.text, "", node.text, role, block=True, info=node.info))
    elif node.depth > 1:
        _add(parts[-1], node.line, node.text, node.role)
    else:
        _place_lines(node, parts, strong)


def _place_heading(node: _Node, parts: list[_Open]) -> None:
    """A real heading opens a section, ends one, or (deeper, with another name) labels a part of one."""
    title = read_heading(node.text)
    below = node.line + (node.kind == "underlined")
    deeper = parts[-1].title is not None and node.level > parts[-1].level
    if title and (not deeper or ((title.name.startswith("exp") or title.known) and not title.loose)):
        parts.append(_opened(title, node.line, node.level, below))
    elif deeper:
        parts[-1].context = role_of(split_label(node.text + ":")[0])
    else:
        is_document_title = node.level == 1 and not any(part.title for part in parts)
        parts.append(_Open(None, node.line, node.level, below if is_document_title else node.line - 1))


def _place_lines(node: _Node, parts: list[_Open], strong: set[str]) -> None:
    """A paragraph or list entry: each of its lines may open a section."""
    gathered: list[str] = []
    start = node.line
    role = node.role
    for number, line in enumerate(node.text.split("\n"), start=node.line):
        title = _line_title(line)
        if title and (title.bold or title.name not in strong):
            _add(parts[-1], start, "\n".join(gathered), role)
            parts.append(_opened(title, number, 7, number))
            gathered, start, role = [], number + 1, None
        else:
            gathered.append(line)
    _add(parts[-1], start, "\n".join(gathered), role)


def _opened(title: Title, line: int, level: int, below: int) -> _Open:
    part = _Open(title, line, level, below)
    if title.remark:
        part.items.append(_title_item(title.remark, line))
    return part


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
    gathered: list[str] = []
    start = line
    for number, piece in enumerate([*text.split("\n"), ""], start=line):
        ends = number == line + text.count("\n") + 1
        if gathered and (ends or role_of(split_label(piece.strip())[0]) is not None):
            _add_item(part, start, "\n".join(gathered).strip(), role)
            gathered, start = [], number
        gathered.append(piece)


def _add_item(part: _Open, line: int, text: str, role: Role | None) -> None:
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    if not text or _MARKUP_LINE.fullmatch(text):
        return
    label, value = split_label(text)
    own = role_of(label)
    part.items.append(Item(line, text, label, value, own if own is not None else role or part.context))


def _assemble(parts: list[_Open], lines: list[str]) -> Document:
    """Close every part where the next begins."""
    sections = []
    outside = []
    ends = [part.line - 1 for part in parts[1:]] + [len(lines)]
    for part, end in zip(parts, ends, strict=True):
        body = "\n".join(line for line in lines[part.body : end] if not _MARKUP_LINE.fullmatch(line)).strip()
        if part.title:
            sections.append(Section(part.title, part.line, tuple(part.items), body, part.level <= 6))
        elif body:
            outside.append(body)
    return Document(tuple(sections), "\n\n".join(outside))
