"""From Markdown to sections: which lines belong to which section, as items that know their line and label.

A section opens at a heading or a bold line; where a document has none for it, at a line or list entry that
starts with its name in brackets or before a colon; and where there is none of these either, at a line that is
its name and a value (`bare_title`). markdown-it says which lines are code, and reads what stands below each
name.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from harness.blueprint import durations, names
from harness.blueprint.commands import looks_like_command
from harness.blueprint.labels import Role, is_nothing, role_of, split_label
from harness.blueprint.names import Title, read_heading, read_title

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

_NAME_FIRST = re.compile(r"\s*(?P<marker>[-*+]\s+|\d+[.)]\s+|\|\s*)?`?exp(?:_[A-Za-z0-9]+)+`?(?=[\s|]|$)")
_PATH = re.compile(r"(?:`[^`]+`|\"[^\"]+\"|'[^']+'|(?P<word>\S*[/\\~$]\S*|\.{1,2}|\S*\.\w+))(?:\s+[(（#].*)?")
_PATHS = (names.CODEBASE, names.VENV, names.YAML, names.RESULT)
_COMMANDS = (names.COMMAND, names.PREPARE, names.EVALUATE, names.CLEANUP)
_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
_HEADING = re.compile(r" {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<text>.*))?$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_ENTRY = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_MARKUP_LINE = re.compile(r"\s*(?:</?\w+/?>|<!--.*?-->)\s*")
_NO_HEADING, _BARE = 7, 8
"""The levels of sections that a line of text opened: with brackets, bold or a colon; with the bare name."""


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
class _Opening:
    """A line, from 0, that opens a section or, without a title, ends one. `below`: where its text begins."""

    line: int
    level: int
    title: Title | None
    below: int

    @property
    def strength(self) -> int:
        """What one names, no weaker (larger) one opens. Headings and bold lines are the strongest."""
        is_strong = self.level < _NO_HEADING or bool(self.title and self.title.bold)
        return 0 if is_strong else self.level


def read_document(text: str) -> tuple[list[Section], str]:
    """The sections of a Markdown text in order, repeated and unknown ones included, and the text outside all
    of them. Any text is accepted."""
    lines = _unwrapped(text.split("\n"))
    parts = [_Opening(0, 0, None, 0)]
    for opening in _openings(lines):
        title, level = opening.title, opening.level
        is_ours = title and not title.loose and (title.known or title.name.startswith("exp"))
        if parts[-1].title and parts[-1].level < level < _NO_HEADING and not is_ours:
            continue  # a deeper heading labels a part of its section
        is_document_title = not title and level == 1 and not any(part.title for part in parts)
        below = opening.below if title or is_document_title else opening.line
        parts.append(_Opening(opening.line, level, title, below))
    sections, outside = [], []
    for part, end in zip(parts, [*(part.line for part in parts[1:]), len(lines)], strict=True):
        body = lines[part.below : end]
        written = "\n".join(line for line in body if not _MARKUP_LINE.fullmatch(line)).strip()
        if part.title:
            text = "\n".join(body)
            text = textwrap.dedent(text) if _ENTRY.match(lines[part.line]) else text
            items = (*_title_items(part.title.remark, part.line + 1), *_items(text, part.below + 1))
            sections.append(Section(part.title, part.line + 1, items, written, part.level < _NO_HEADING))
        elif written:
            outside.append(written)
    return sections, "\n\n".join(outside)


# --- lines to sections ------------------------------------------------------------------------------------


def _unwrapped(lines: list[str]) -> list[str]:
    """As many lines, taken out of what a blueprint was pasted in: a code fence around the first section,
    the sections' indentation, the quotation marks of a reply."""
    lines = [re.sub(r"^[ \t]+", lambda found: found[0].expandtabs(4), line) for line in lines]
    read = enumerate(map(read_title, lines))
    titles = [number for number, title in read if title and title.known and title.name.startswith("exp_")]
    if not titles:
        return lines
    if lines[titles[0]].lstrip().startswith(">"):
        lines = [re.sub(r"^ *> ?", "", line) for line in lines]
    depth = min(_indent(lines[number]) for number in titles)
    for number in _outer_fence(lines, titles[0]):
        lines[number] = ""
    return [line[min(depth, _indent(line)) :] for line in lines]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _outer_fence(lines: list[str], first_title: int) -> list[int]:
    """The lines of the fence that is open at the first title; it ends at the last bare one unless that closes
    a fence inside."""
    fences = {number: found for number, line in enumerate(lines) if (found := _FENCE.match(line))}
    opener: int | None = None
    for number in (number for number in fences if number < first_title):
        if opener is None:
            opener = number
        elif fences[number]["fence"].startswith(fences[opener]["fence"]) and not fences[number]["info"]:
            opener = None
    if opener is None:
        return []
    fence = fences[opener]["fence"]
    later = [number for number in fences if number > opener and fences[number]["fence"][0] == fence[0]]
    bare = [n for n in later if not fences[n]["info"] and len(fences[n]["fence"]) >= len(fence)]
    return [opener, *(bare[-1:] if len(later) % 2 else [])]


def _openings(lines: list[str]) -> list[_Opening]:
    """What the lines outside code open."""
    code = {
        number
        for token in _markdown().parse("\n".join(lines))
        if token.type in ("fence", "code_block", "comment") and token.map
        for number in range(*token.map)
    }
    openings: list[_Opening] = []
    for number in range(len(lines)):
        begins = not number or not lines[number - 1].strip() or (openings and openings[-1].below == number)
        if number not in code and (found := _opening(lines, number, bool(begins))):
            openings.append(found)
    strongest: dict[str, int] = {}
    for one in openings:
        if one.title and one.title.known:
            strongest[one.title.name] = min(one.strength, strongest.get(one.title.name, _BARE))
    return [one for one in openings if not one.title or one.strength <= strongest.get(one.title.name, _BARE)]


def _opening(lines: list[str], number: int, begins: bool) -> _Opening | None:
    """A heading opens anything; other lines a section whose name is underlined, bold, in brackets, before a
    colon, or bare with a value behind it. `begins`: no text stands directly above the line."""
    line, below = lines[number], "".join(lines[number + 1 : number + 2])
    if heading := _HEADING.match(line):
        return _Opening(number, len(heading["marks"]), read_heading(heading["text"] or ""), number + 1)
    is_underlined = _UNDERLINE.match(below) and not (number and lines[number - 1].strip())
    if is_underlined and (title := read_heading(line)):
        return _Opening(number, 2, title, number + 2)
    title = read_title(line) if _indent(line) < 4 else None
    if not title:
        return None
    if not (title.bold or title.bracketed or title.remark.startswith((":", "："))):
        bare = bare_title(line, title, begins)
        return _Opening(number, _BARE, bare, number + 1) if bare else None
    return None if title.loose and not title.bracketed else _Opening(number, _NO_HEADING, title, number + 1)


def bare_title(line: str, title: Title, begins: bool) -> Title | None:
    """The title as if a colon stood behind its name, where the line is a section; else None. `begins`: the
    line is the first of its paragraph, or follows the line of another section."""
    found, section = _NAME_FIRST.match(line), title.name if title.known else title.suggestion
    if not found or not section:
        return None
    value = title.remark
    begins = begins or bool(found["marker"])
    if value and not (_is_value(section, value) or (begins and _may_be_value(section, value))):
        return None
    return replace(title, remark=f": {value}" if value else "")


def _is_value(section: str, value: str) -> bool:
    """True if the text can be nothing but this section's value."""
    if is_nothing(value):
        return True
    if section in _PATHS:
        return bool(_PATH.fullmatch(value))
    if section == names.MAX_TIME:
        return durations.single(value) is not None
    is_code = value.startswith("`") and value.find("`", 1) == len(value) - 1
    return is_code or (section in _COMMANDS and _is_command(value) and bool(re.search(r"[./]", value)))


def _may_be_value(section: str, value: str) -> bool:
    """True if the text is this section's value where a paragraph begins with the name."""
    if section == names.PURPOSE:
        return True
    if section in _COMMANDS:
        return _is_command(value)
    return not re.search(r"[^\s,]\s+[^\s,]", value) and value[-1:] not in ".!?"


def _is_command(value: str) -> bool:
    """True if a program, and not a word of a sentence, comes first."""
    first, _, rest = value.partition(" ")
    begins_well = "=" in first or rest.lstrip().startswith("-") or looks_like_command(first)
    return begins_well and looks_like_command(value)


def _title_items(remark: str, line: int) -> Iterator[Item]:
    """The value in a heading: behind its colon, or alone there; parentheses are remarks unless alone."""
    if not remark:
        return
    outside = re.sub(r"\([^()]*\)|（[^（）]*）", lambda found: " " * len(found.group()), remark)
    colon = re.match(r"[^-/.=:：]*(?:：|:(?=[\s/`~.$\"'*]|$)(?!//))|:", outside)
    value = remark[colon.end() :].strip() if colon else outside.strip() or remark.strip("()（） ")
    yield Item(line, remark, "", value, Role.STATED if colon else Role.PROSE, title=True)


# --- what stands below a name to items --------------------------------------------------------------------


@cache
def _markdown() -> "MarkdownIt":
    """CommonMark blocks only. Without link definitions (`[exp_x]: /y` is a section), underlined headings (or
    values above rules), and HTML apart from comments."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"maxNesting": 30})
    markdown.disable(["reference", "html_block", "lheading"])
    markdown.core.ruler.disable("inline")
    markdown.block.ruler.before("fence", "comment", _comment, {"alt": ["paragraph", "blockquote", "list"]})
    return markdown


def _comment(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """Block rule: `<!-- … -->`, over blank lines too."""
    if not state.src.startswith("<!--", state.bMarks[start] + state.tShift[start]):
        return False
    for line in range(start, end):
        _, closed, behind = state.src[state.bMarks[line] : state.eMarks[line]].partition("-->")
        if closed:
            if not behind.strip() and not silent:
                state.line = line + 1
                state.push("comment", "", 0).map = [start, state.line]
            return not behind.strip()
    return False


def _items(text: str, first: int) -> Iterator[Item]:
    """The blocks of a text that begins in line `first`. `parents`: the lead-in of a list (`Paths:`), then for
    each open entry what its blocks stand under."""
    parents: list[Item | None] = [None]
    context: Role | None = None
    is_heading = False
    for token in _markdown().parse(text):
        is_heading = token.type == "heading_open" or (is_heading and token.type != "heading_close")
        if token.type == "list_item_open":
            parents.append(parents[-1])
        elif token.type == "list_item_close":
            parents.pop()
        elif token.type in ("bullet_list_close", "ordered_list_close", "heading_open") and len(parents) == 1:
            parents[0] = None
        elif token.type == "inline" and is_heading and len(parents) == 1:
            context = role_of(split_label(f"{token.content}:")[0])
        elif token.type in ("inline", "fence", "code_block"):
            line, is_code = first + (token.map or [0])[0], token.type != "inline"
            role = (_inherited(parents[-1], is_code) if is_code or len(parents) > 1 else None) or context
            if is_code:
                code, info = token.content.rstrip("\n"), token.info.strip().lower()
                line += token.type == "fence"
                found = [Item(line, code, "", code, role or Role.STATED, True, info)]
            else:
                found = _paragraph(token.content, line, role)
            yield from found
            if len(parents) == 1:
                leads = not is_code and token.content.rstrip("*_ ").endswith((":", "："))
                parents[0] = found[-1] if leads and found else None
            elif found and not is_code and parents[-1] is parents[-2]:
                parents[-1] = found[-1]


def _inherited(parent: Item | None, is_code: bool) -> Role | None:
    """What an unlabelled block under an entry is: its value if it has none itself, else a sentence."""
    if parent is None:
        return None
    if parent.role in (Role.REMARK, Role.DEFAULT, Role.DESCRIPTION):
        return parent.role
    if is_code:
        return Role.STATED
    return parent.role if parent.label and not parent.value else Role.PROSE


def _paragraph(text: str, line: int, role: Role | None) -> list[Item]:
    """A paragraph as one item, or as several where its lines carry labels of their own."""
    pieces: list[tuple[int, list[str]]] = []
    for number, piece in enumerate(text.split("\n"), start=line):
        if not pieces or role_of(split_label(piece.strip())[0]) is not None:
            pieces.append((number, []))
        pieces[-1][1].append(piece)
    items = []
    for number, lines in pieces:
        body = re.sub(r"<!--.*?-->", "", "\n".join(lines).strip(), flags=re.DOTALL).strip()
        if body and not _MARKUP_LINE.fullmatch(body):
            label, value = split_label(body)
            own = role_of(label)
            items.append(Item(number, body, label, value, role if own is None else own))
    return items
