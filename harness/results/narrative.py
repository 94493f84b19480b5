"""What a language model wrote about a run or a sweep, made fit to stand in a report.

In: Markdown of its own, section by section: text that may try anything; the evidence it is checked against.
Out: HTML and Markdown that hold nothing active (no HTML, link or picture), that cannot end the place where
they stand, and cannot pass for the report's own headings or tables. A sentence that the evidence does not
bear out is struck out, one that nothing measured can settle is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from harness.results import text

if TYPE_CHECKING:
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

    from harness.results.claims import Claim, Evidence

LONGEST = 6000  # characters of one section
_TITLES = {
    "findings": "Findings",
    "what_happened": "What happened",
    "limitations": "Limitations",
    "next_steps": "Next steps",
}
_WORD = re.compile(r"\[[^\[\]]*\]\([^\s)]*\)\S*|\S+")  # a link as Markdown writes it counts as one
_ADDRESS = re.compile(r"://|www\.|@", re.IGNORECASE)  # what viewers of Markdown make a link of by themselves


@dataclass(frozen=True)
class Section:
    """One section, ready to be put into the documents."""

    title: str
    html: str
    markdown: str  # one block quotation
    claims: tuple[Claim, ...] = ()  # what was checked in it


@dataclass(frozen=True)
class Remark:
    """A sentence that is struck out or marked, with the reasons."""

    section: str
    sentence: str
    why: str


@dataclass(frozen=True)
class Told:
    """All that a model wrote, and what came of checking it. `omitted`: what it should have named."""

    sections: tuple[Section, ...]
    omitted: tuple[str, ...] = ()

    @property
    def struck(self) -> tuple[Remark, ...]:
        """Sentences that the raw files do not bear out."""
        return self._remarks("wrong")

    @property
    def unsure(self) -> tuple[Remark, ...]:
        """Sentences that nothing measured can settle, and that are not struck."""
        wrong = {(remark.section, remark.sentence) for remark in self.struck}
        unsure = self._remarks("not checkable")
        return tuple(remark for remark in unsure if (remark.section, remark.sentence) not in wrong)

    def _remarks(self, verdict: str) -> tuple[Remark, ...]:
        reasons: dict[tuple[str, str], list[str]] = {}
        for section in self.sections:
            for claim in section.claims:
                if claim.verdict == verdict:
                    reasons.setdefault((section.title, claim.sentence), []).append(claim.reason)
        return tuple(
            Remark(title, sentence, "; ".join(dict.fromkeys(whys)))
            for (title, sentence), whys in reasons.items()
        )

    def as_json(self) -> dict[str, Any]:
        """What result.json and sweep.json say under `checked`."""
        return {
            "claims": sum(len(section.claims) for section in self.sections),
            "struck": [asdict(remark) for remark in self.struck],
            "not_checkable": [asdict(remark) for remark in self.unsure],
            "omitted": list(self.omitted),
        }


def tell(narrative: Mapping[str, str], known_secrets: tuple[str, ...], evidence: Evidence) -> Told:
    """The sections checked against the evidence; also what all of them together should have named."""
    from harness.results.claims import omissions

    written = [narrative[name] for name in _TITLES if narrative.get(name)]
    omitted = tuple(omission.what for omission in omissions(written, evidence))
    return Told(sections(narrative, known_secrets, evidence), omitted)


def sections(
    narrative: Mapping[str, str], known_secrets: tuple[str, ...], evidence: Evidence | None = None
) -> tuple[Section, ...]:
    """The known sections in their order; empty ones are left out. Texts are cleaned already, and cut here.

    With no evidence they are only made harmless.
    """
    from harness.results.claims import check_tokens
    from harness.results.claims.passages import parser as new_parser
    from harness.results.claims.striking import struck

    parser = new_parser()
    made = []
    for name, title in _TITLES.items():
        said = _cut(narrative.get(name, "")).strip()
        if said:
            tokens = _defused(parser.parse(said), known_secrets)
            claims = tuple(check_tokens(tokens, evidence, name)) if evidence is not None else ()
            tokens = struck(tokens, claims)
            html = parser.renderer.render(tokens, parser.options, {})
            made.append(Section(title, html, _markdown(tokens), claims))
    return tuple(made)


def _cut(said: str) -> str:
    if len(said) <= LONGEST:
        return said
    return f"{said[:LONGEST]}\n\n(cut off here; {len(said)} characters were written)"


def _defused(tokens: Iterable[Token], known_secrets: tuple[str, ...]) -> list[Token]:
    """Headings demoted, horizontal rules out, secrets masked that markup had taken apart."""
    from markdown_it.token import Token

    tokens = [token for token in tokens if token.type != "hr"]
    for token in tokens:
        token.info = ""
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h4"
        shown = "".join(child.content or "\n" for child in token.children or () if _is_shown(child))
        masked = text.clean(shown, known_secrets)
        if masked != shown:
            token.children = [Token("text", "", 0, content=masked)]
    return tokens


def _is_shown(token: Token) -> bool:
    return bool(token.content) or token.type in ("softbreak", "hardbreak")


# --- Markdown -----------------------------------------------------------------------------------------------


def _markdown(tokens: Sequence[Token]) -> str:
    from markdown_it.tree import SyntaxTreeNode

    lines = _blocks(SyntaxTreeNode(tokens).children)
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _blocks(nodes: Iterable[SyntaxTreeNode]) -> list[str]:
    """The lines of several blocks, an empty one between two of them."""
    lines: list[str] = []
    for node in nodes:
        block = _block(node)
        if block:
            lines += ["", *block] if lines else block
    return lines


def _block(node: SyntaxTreeNode) -> list[str]:
    if node.type in ("paragraph", "heading"):
        line = "".join(_line(child) for child in node.children)
        return [f"**{line}**" if node.type == "heading" and line else line] if line else []
    if node.type in ("bullet_list", "ordered_list"):
        return _items(node)
    if node.type == "blockquote":
        return [f"> {line}".rstrip() for line in _blocks(node.children)]
    if node.type == "table":
        rows = [row for part in node.children for row in part.children]
        cells = [" | ".join(_plain(cell) for cell in row.children) for row in rows]
        return text.fenced("\n".join(cells)).split("\n")
    return text.fenced(node.content).split("\n")


def _items(node: SyntaxTreeNode) -> list[str]:
    lines: list[str] = []
    for number, item in enumerate(node.children, start=1):
        mark = "- " if node.type == "bullet_list" else f"{number}. "
        block = _blocks(item.children)
        lines += [(" " * len(mark) if index else mark) + line for index, line in enumerate(block)]
    return lines


def _plain(node: SyntaxTreeNode) -> str:
    parts = []
    for is_struck, leaves in groupby(_leaves(node), key=_is_struck):
        words = "".join(leaf.content or " " for leaf in leaves)
        parts.append(f"~~{words}~~" if is_struck else words)
    return " ".join("".join(parts).split())


def _leaves(node: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    return [leaf for leaf in node.walk() if not leaf.children]


def _is_struck(leaf: SyntaxTreeNode) -> bool:
    return leaf.parent is not None and leaf.parent.type == "del"


def _line(inline: SyntaxTreeNode) -> str:
    """Inline text as one line: its words and its code, without emphasis; addresses as code."""
    line = ""
    for is_struck, leaves in groupby(_leaves(inline), key=_is_struck):
        part = _piece(leaves)
        if is_struck and part.strip():
            before, after = (" " if part[edge].isspace() else "" for edge in (0, -1))
            part = f"{before}~~{part.strip()}~~{after}"
        line = _joined([line, part]) if line else part
    return line.strip()


def _piece(leaves: Iterable[SyntaxTreeNode]) -> str:
    parts: list[str] = []
    words = ""
    for leaf in leaves:
        if leaf.type == "code_inline":
            parts += [_words(words), text.code(leaf.content)]
            words = ""
        elif leaf.type == "text":
            words += leaf.content
        elif leaf.type in ("softbreak", "hardbreak"):
            words += " "
    return _joined([*parts, _words(words)])


def _joined(parts: Iterable[str]) -> str:
    """The parts in a row; two pieces of code that touch would become one, so a space parts them."""
    line = ""
    for part in parts:
        line += f" {part}" if line.endswith("`") and part.startswith("`") else part
    return line


def _words(words: str) -> str:
    """The words escaped, addresses as code, with the spaces around them kept as one."""
    if not words.strip():
        return " " if words else ""
    before, after = (" " if edge.isspace() else "" for edge in (words[0], words[-1]))
    groups = groupby(_WORD.findall(words), key=lambda word: _ADDRESS.search(word) is not None)
    shown = (
        " ".join(map(text.code, group)) if is_address else _escaped(" ".join(group))
        for is_address, group in groups
    )
    return f"{before}{' '.join(shown)}{after}"


def _escaped(words: str) -> str:
    shown = text.markdown(words)
    return f"\\{shown}" if shown.startswith("[") else shown
