"""Sections of a narrative: what is refused of one, and what a report shows of all of them.

In: `Section`s as a model wrote them, and the evidence. Out: sentences worded by the program, and the
interpretation as harmless text with its citations filled in. A section that cannot stand is refused before
it is published; nothing is struck out afterwards.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import templating
from harness.redaction import NO_SECRETS, Secrets, redact
from harness.results import text
from harness.results.narrative.evidence import CitationError, Evidence, Sentence, lookup
from harness.results.narrative.findings import SECTIONS, Language, Section

MAX_REFUSALS = 2
"""How often a section is sent back; after that its findings stand alone."""
REFUSED = "this section cannot be published"
_MOST_NAMED = 8
_CITATION = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_ADDRESS = re.compile(r"(\S*(?:://|www\.|@)\S*)")
_NUMERIC = ("Nd", "Nl", "No", "Cn", "Co", "Cs")
"""Digits and number signs of all scripts; what Unicode has not assigned yet may become one."""
_SHARES = "%‰‱٪％﹪"


@dataclass(frozen=True)
class Piece:
    """Part of a line. `kind`: "text", "address" (shown as code, never as a link), or "cited" (a citation's
    label and value)."""

    text: str
    kind: str = "text"
    id: str = ""

    @property
    def markdown(self) -> str:
        if self.kind == "address":
            return text.code(self.text)
        if self.kind == "cited":
            return f"**[{text.markdown(self.text)}]**"
        before, after = (" " if edge.isspace() else "" for edge in (self.text[0], self.text[-1]))
        return f"{before}{text.markdown(self.text)}{after}" if self.text.strip() else " "


@dataclass(frozen=True)
class Line:
    """One line of an interpretation, a paragraph or an item of a list."""

    is_item: bool
    pieces: tuple[Piece, ...]

    @property
    def plain(self) -> str:
        """As result.json keeps it, citations in brackets."""
        words = (f"[{piece.text}]" if piece.kind == "cited" else piece.text for piece in self.pieces)
        return ("- " if self.is_item else "") + "".join(words)

    @property
    def markdown(self) -> str:
        """The same words in Markdown that shows exactly them."""
        return "".join(piece.markdown for piece in self.pieces).strip()


Narrative = Mapping[str, Any]
"""All that stands in a report of what a model wrote, as `tell` makes it and the templates lay it out."""


# --- before it is published ---------------------------------------------------------------------------------


def refusal(sections: Sequence[Section], evidence: Evidence) -> str | None:
    """Why sections cannot be published as they are, with what to write instead; None if they can."""
    return "\n".join(filter(None, (_refusal(section, evidence) for section in sections))) or None


def _refusal(section: Section, evidence: Evidence) -> str | None:
    kept, faults = _judged(section, evidence)
    if not faults and kept.is_empty:
        faults = ["it is empty"]
    if not faults:
        return None
    more = [f"and {len(faults) - _MOST_NAMED} more"] if len(faults) > _MOST_NAMED else []
    asked = f"{REFUSED} ({section.section}); correct it, then write all again:"
    return "\n- ".join([asked, *faults[:_MOST_NAMED], *more])


def published(sections: Sequence[Section], evidence: Evidence) -> dict[str, Any]:
    """What the journal keeps of sections, by name: what can stand of each, secrets masked, and what was left
    out. One of which nothing stands is not among them."""
    written, left_out = {}, []
    for section in sections:
        kept, _ = _judged(section, evidence)
        if lost := len(section.findings) - len(kept.findings):
            left_out.append(f"{lost} findings of {section.section}")
        if kept.interpretation != section.interpretation:
            left_out.append(f"the interpretation of {section.section}")
        if kept.findings or kept.interpretation:
            masked = kept.model_copy(update={"interpretation": redact(kept.interpretation)})
            written[section.section] = masked.as_json()
    return {"written": written, "left_out": left_out}


def _judged(section: Section, evidence: Evidence) -> tuple[Section, list[str]]:
    """What can stand of a section, and what is wrong with the rest."""
    findings, faults = [], []
    for finding in section.findings:
        try:
            evidence.resolve(finding)
            findings.append(finding)
        except CitationError as error:
            faults.append(f"finding {finding.kind}: {error}")
    of_text = [f"interpretation: {fault}" for fault in _faults_of_text(section.interpretation, evidence)]
    kept = {"findings": tuple(findings), "interpretation": "" if of_text else section.interpretation}
    return section.model_copy(update=kept), [*faults, *of_text]


def _faults_of_text(words: str, evidence: Evidence) -> Iterator[str]:
    """What an interpretation may not hold: numbers outside citations, and citations of nothing."""
    for name in _CITATION.findall(words):
        try:
            lookup(name.strip(), evidence.citable, "fact to cite")
        except CitationError as error:
            yield str(error)
    free = _CITATION.sub(" ", words)
    found = [
        char
        for char in dict.fromkeys(free + html.unescape(free))
        if unicodedata.category(char) in _NUMERIC or char in _SHARES
    ]
    if found:
        shown = " ".join(found[:_MOST_NAMED]) + (" …" if len(found) >= _MOST_NAMED else "")
        yield (
            f"it holds numbers of its own ({shown}); cite facts as [[id]], and names that hold digits the "
            "same way ([[attempt/1]]), or leave them out"
        )


# --- as it is shown -----------------------------------------------------------------------------------------


def tell(written: Mapping[str, Any], evidence: Evidence, secrets: Secrets = NO_SECRETS) -> Narrative | None:
    """What stands in the report, of sections by name as the journal has them; None where there are none.
    `added`: sentences that the program adds."""
    sections = (Section.model_validate(written[name]) for name in SECTIONS if name in written)
    kept = [item for item in (_judged(each, evidence)[0] for each in sections) if not item.is_empty]
    if not kept:
        return None

    def words(sentence: Sentence, language: Language) -> str:
        return text.clean(worded(sentence, language), secrets)

    told = []
    for item in kept:
        sentences = dict.fromkeys(words(evidence.resolve(one), item.language) for one in item.findings)
        lines = tuple(_lines(item, evidence, secrets))
        about = {"name": item.section, "language": item.language}
        told.append({**about, "sentences": tuple(sentences), "interpretation": lines})
    said = {finding for item in kept for finding in item.findings}
    due = [evidence.resolve(finding) for finding in evidence.due if finding not in said]
    language = kept[0].language
    added = tuple(words(sentence, language) for sentence in (*due, *evidence.cautions))
    return {"sections": told, "added": added, "language": language}


def words_json(said: Narrative) -> dict[str, Any]:
    """What result.json and sweep.json keep: the words as they are shown."""
    sections = [
        {
            "section": section["name"],
            "language": section["language"],
            "findings": section["sentences"],
            "interpretation": "\n".join(line.plain for line in section["interpretation"]),
        }
        for section in said["sections"]
    ]
    return {"sections": sections, "added": said["added"]}


def worded(sentence: Sentence, language: Language) -> str:
    template = f"reports/findings.{language}.j2"
    return " ".join(templating.render(template, kind=sentence.kind, **sentence.values).split())


def _lines(section: Section, evidence: Evidence, secrets: Secrets) -> Iterator[Line]:
    """The interpretation as lines of plain text: no markup of its own survives, nor does it hide a secret."""
    for line in text.clean(section.interpretation, secrets).splitlines():
        plain = line.replace("**", "").replace("`", "").strip().lstrip("#>").strip()
        is_item = plain.startswith(("- ", "* "))
        shown = text.clean(plain[2:] if is_item else plain, secrets)
        if pieces := tuple(_pieces(shown, section.language, evidence)):
            yield Line(is_item, pieces)


def _pieces(line: str, language: Language, evidence: Evidence) -> Iterator[Piece]:
    for number, part in enumerate(_CITATION.split(line)):
        fact = evidence.citable.get(part.strip()) if number % 2 else None
        if fact is not None:
            yield Piece(worded(Sentence("name", {"fact": fact}), language), "cited", fact.id)
            continue
        for at, words in enumerate(_ADDRESS.split(part)):
            if words:
                yield Piece(words, "address" if at % 2 else "text")
