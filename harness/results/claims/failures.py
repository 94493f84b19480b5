"""Claims about what failed and why: the kind of failure, which runs never started, which setting was changed.

In: a sentence taken apart, the evidence. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.results.claims import wording
from harness.results.claims.counts_of_comparison import never_started
from harness.results.claims.number_words import SPELLED, count
from harness.results.claims.reading import Sentence
from harness.results.claims.types import Claim, Evidence, Verdict
from harness.results.comparing.types import Comparison, RunResult

_KINDS = (
    (
        re.compile(
            r"\b(?:ran|run|runs|running|went)\s+out\s+of\s+(?:\w+\s+){0,2}?memory\b|\bout-of-memory\b|\bOOM\b",
            re.I,
        ),
        re.compile(r"memory|\boom\b", re.I),
    ),
    (
        re.compile(
            r"\bdisk\s+(?:\w+\s+)?full\b|\bfull\s+disk\b|\bout\s+of\s+(?:disk|space)\b|\bno\s+space\s+left\b",
            re.I,
        ),
        re.compile(r"\bdisk\b|\bspace\b", re.I),
    ),
    (
        re.compile(
            r"\blos(?:t|ing)\s+(?:\w+\s+){0,2}?connection\b|\bconnection\s+(?:\w+\s+){0,5}?(?:lost|reset|refused|dropped)\b|"
            r"\bnetwork\s+(?:error|failure|problem|outage)\b",
            re.I,
        ),
        re.compile(r"connection|network|unreachable|refused|socket|server", re.I),
    ),
)
"""How a text says what kind of failure there was, and how a diagnosis does."""
_NEVER = re.compile(
    r"\b(?:never\s+(?:start|ran|run|began)\w*|(?:not|n't)\s+(?:be\s+)?start\w*|unstarted)\b", re.I
)
_CRASHED = re.compile(
    r"\b(?:crash\w*|died|(?:out[\s-]of|cuda|gpu)(?:\s+\w+)?[\s-]memory|oom|out\s+of\s+memory|diverged|aborted)\b",
    re.I,
)
_LOST = re.compile(r"\b(?:failed|missing|lost)\b", re.I)
_SEEDS = r"(?:seeds?\s|s)(?P<{}>\d+(?:(?:\s*,\s*|\s*,?\s+and\s+|\s*&\s*)\d+\b)*)"
_RUN = re.compile(
    rf"\b(?P<one>p\d+)\b[\w.\-]*?\W{{0,3}}\b{_SEEDS.format('of_one')}|\b{_SEEDS.format('of_other')}\s+(?:of|in|from|at|for)\s+(?:point\s+)?(?P<other>p\d+)\b",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[\s,`]*(?:and\s+|as\s+well\s+as\s+)?[`(]*", re.IGNORECASE)
_VALUE = rf"(?:[\-−]?\d[\d.]*(?:e[+\-−]?\d+)?|{SPELLED})"
_EXCHANGED = re.compile(
    rf"\b(?P<new>{_VALUE})\s+(?:[a-z]\w*\s+){{0,3}}?(?:instead\s+of|rather\s+than)\s+(?:the\s+)?(?P<old>{_VALUE})\b"
    rf"|\bfrom\s+(?P<first>{_VALUE})\s+(?:[a-z]\w*\s+){{0,2}}?to\s+(?P<last>{_VALUE})\b",
    re.IGNORECASE,
)


def failures(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """What the sentence says of failures."""
    yield from _kinds(sentence, evidence)
    yield from _exchanged(sentence, evidence)
    if evidence.comparison is not None:
        yield from _fates(sentence, evidence.comparison)


def _kinds(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """Whether any diagnosis, log or reason speaks of a failure of this kind."""
    text = sentence.text
    told = " ".join((*evidence.causes, *evidence.quoted))
    is_known = any(evidence.causes) or "failed" not in evidence.attempts.values()
    for said, known in _KINDS:
        for match in said.finditer(text):
            if (
                known.search(told)
                or wording.is_denied(text, match.start())
                or wording.is_considered(text, match.start())
            ):
                continue
            verdict: Verdict = "wrong" if is_known else "not checkable"
            yield Claim(match[0], "cause", verdict, "no diagnosis or log says so")


def _exchanged(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """ "Two engines instead of four", "raised from 30 to 120": which way a repair changed a setting."""
    changes = set(evidence.exchanged)
    for match in _EXCHANGED.finditer(sentence.text):
        old, new = (
            _value(match[name] or match[other] or "") for name, other in (("old", "first"), ("new", "last"))
        )
        if old is not None and new is not None and (old, new) not in changes and (new, old) in changes:
            yield Claim(match[0], "difference", "wrong", f"it was changed from {new:g} to {old:g}")


def _value(said: str) -> float | None:
    said = said.rstrip(".").replace("−", "-")
    try:
        return float(said)
    except ValueError:
        return count(said)


def _fates(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    """Of runs named by point and seed: whether they crashed, never started, or count."""
    text = sentence.text
    results = {(run.run.point.partition("-")[0].lower(), run.run.seed): run for run in comparison.runs}
    matches = list(_RUN.finditer(text))
    for index, match in enumerate(matches):
        point = (match["one"] or match["other"]).lower()
        seeds = [int(seed) for seed in re.findall(r"\d+", match["of_one"] or match["of_other"])]
        words = _said_of(text, matches, index)
        for seed in seeds:
            run = results.get((point, seed))
            if run is not None and (why := _contradicts(words, run)):
                yield Claim(match[0], "outcome", "wrong", why)
                break


def _said_of(text: str, matches: Sequence[re.Match[str]], index: int) -> str:
    """What is said behind a run and those joined to it, else right before them."""
    last = index
    while last + 1 < len(matches) and _JOINED.fullmatch(
        text[matches[last].end() : matches[last + 1].start()]
    ):
        last += 1
    end = matches[last + 1].start() if last + 1 < len(matches) else len(text)
    behind = re.split(r"[;,]|\b(?:and|but|while|so)\b", text[matches[last].end() : end])[0]
    if _NEVER.search(behind) or _CRASHED.search(behind) or _LOST.search(behind):
        return behind
    ahead = re.split(r"[;,:]|\b(?:and|but|while)\b", text[: matches[index].start()])[-1]
    return ahead if ahead.rstrip().endswith("(") else ""


def _contradicts(words: str, run: RunResult) -> str:
    never, crashed = _NEVER.search(words), _CRASHED.search(words)
    found = never or crashed or _LOST.search(words)
    if found is None or wording.is_denied(words, found.start()):
        return ""
    if run.value is not None:
        return f"{run.run.name} counts"
    if (never is not None) != (crashed is not None) and (crashed is not None) == never_started(run):
        return f"{run.run.name}: {run.why_not}"
    return ""
