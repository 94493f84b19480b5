"""What a sentence is about: the metrics, steps, attempts, points, levels and seeds that it names, and which
of its numbers each of them belongs to.

In: a sentence, the evidence's terms. Out: `Sentence`, with `Bound` numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from harness.results.claims.binding import bind
from harness.results.claims.levels import baselines, levels, takes_numbers
from harness.results.claims.number_words import count
from harness.results.claims.quantities import quantities
from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.types import UNKNOWN, Evidence, Term
from harness.results.facts import RECENT

_TENS = "ten|twenty|thirty|forty|fifty|sixty|eighty|hundred"
_STEP = re.compile(
    r"\bsteps?\b[\s\-:=#_(]*(?P<list>\d+(?![\d.]*\.\d|\d|\s?%)(?:\s*(?:,|,?\s*and|to|–|-|through|or|→|/|vs\.?)\s*(?:step\s*)?"
    r"\d+(?![\d.]*\.\d|\d|\s?%))*)|\b(?P<before>\d+)(?:st|nd|rd|th)\s+step\b"
    rf"|\b(?:after|first|within)\s+(?:the\s+first\s+)?(?P<after>\d+|{_TENS})\s+(?:\w+\s+)?(?:steps|updates|iterations)\b"
    rf"|\b(?P<into>\d+|{_TENS})\s+(?:steps|updates|iterations)\s+in(?:to)?\b",
    re.IGNORECASE,
)
_ONE_STEP = re.compile(r"\bstep\b[\s\-:=#_(]*(?P<list>\d+)(?![\d.]*\.\d|\d)", re.IGNORECASE)
_RECENT = re.compile(
    rf"\b(?:last|final)\s+(?:{RECENT}|ten)\s+(?:\w+\s+)?(?:rows|steps|values)\b", re.IGNORECASE
)
_SPAN = re.compile(
    rf"\b(?:last|next|remaining|final|following|another|other|additional|further|every|each\s+block\s+of|block\s+of|blocks\s+of)\s+(?:\d+|{_TENS})\s+steps\b",
    re.IGNORECASE,
)
_NO_METRIC = re.compile(r"\bno\s+$", re.IGNORECASE)  # "no detectable difference" names no number
_LAST_FEW = re.compile(r"\blast\s+(two|three|four|\d+)\s+(?:validations|evaluations)\b", re.IGNORECASE)
_ORDINALS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "fifth": 5,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
}
_ATTEMPT = re.compile(
    rf"\battempts?\s*#?(?P<number>\d+)\b|\b(?P<word>{'|'.join(_ORDINALS)}|last|final|only)\s+(?:attempt|launch|try)\b"
    r"|\bthe\s+(?P<one>first|second|third|fourth)(?=,|\s+(?:one|took|ran|made|finished|completed|lasted|did|was|went|ended|trained|failed|crashed)\b)",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"""\b(?:
      (?P<first>initial(?:ly)?|before\s+(?:it|that)\b|before\s+(?:any\s+)?training|untrained|at\s+the\s+(?:very\s+)?(?:start|beginning|outset)|started|
        starts|starting|began|begins|beginning|first\s+(?:validation|row|step|value|evaluation)|baseline)
    | (?P<best>best)
    | (?P<worst>worst)
    | (?P<highest>peak(?:ed|s)?|highest|maximum|(?<!\d\s)max|maximal|at\s+most)
    | (?P<lowest>lowest|minimum|(?<!\d\s)(?<!\d)min|minimal)
    | (?P<last>final(?:ly)?|last(?!\s+(?:third|half|quarter|two|three|four|\d))|end(?:ed|s|
      ing)?(?!\s+of\s+(?:the\s+)?(?:interval|95))|finished|finishes|
        finishing|after\s+(?:it|training)|closed|last\s+(?:validation|row|step|value|evaluation))
    | (?P<between>later|by\s+then|at\s+that\s+(?:point|time|step)|until\s+then|half-?way|mid-?way|mid-?point|
        in\s+between|at\s+first|temporarily|
        intermediate|in\s+the\s+middle|middle\s+(?:validation|evaluation)|before\s+(?:dropping|falling|declining|collapsing|settling|dipping|
        ending|losing|crashing)|up\s+to\s+that\s+point)
    | (?P<moved>rose|risen|rises|rising|increas\w+|climb\w*|fell|fallen|falls|falling|drop\w*|
      decreas\w+|declin\w+|grew|grown|grows|
        improv\w+|reach\w*|went|goes|gain\w*|moved|moves|changed?|shrank|dip\w*|stood|solved|passed|got|obtained|achiev\w*|settl\w*|averag\w+|mean\b)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_KNOWN_METRICS = re.compile(
    r"\b(?:perplexity|bleu|rouge|f1(?:[\s-]score)?|auc|recall|precision|accuracy|win[\s-]rate|exact[\s-]match|entropy|"
    r"kl(?:\s+(?:divergence|loss|penalty))?|grad(?:ient)?[\s_-]norm|(?:policy\s+|training\s+|validation\s+)?loss|rewards?|"
    r"pass[\s-]rate|pass@\d+|success[\s-]rate|throughput|latency|response[\s-]length|clip[\s-]fraction|advantage|mmlu|gsm8k|"
    r"memory(?:\s+usage)?|gpu\s+utili[sz]ation|learning\s+rate)\b",
    re.IGNORECASE,
)


def take_apart(text: str, evidence: Evidence, before: Sentence | None = None) -> Sentence:
    """The sentence with its mentions and numbers; `before` is the sentence before it, which may name what
    this one goes on about."""
    mentions = [
        *_steps(text),
        *_attempts(text),
        *_whens(text),
        *_last_validations(text, evidence),
        *_terms(text, evidence.terms),
    ]
    mentions += levels(text, evidence, mentions, before)
    mentions = baselines(mentions, evidence)
    mentions += _unknown_metrics(text, mentions)
    mentions.sort(key=lambda mention: mention.start)
    taken = [(m.start, m.end) for m in mentions if m.ids and takes_numbers(m)]
    found = quantities(text, evidence.names, taken)
    return Sentence(text, tuple(mentions), tuple(bind(text, found, mentions, evidence)))


# --- finding ------------------------------------------------------------------------------------------------


def _steps(text: str) -> list[Mention]:
    found = []
    for match in _STEP.finditer(text):
        if match[0].lower().startswith("step") and not match[0].lower().startswith("steps"):
            match = _ONE_STEP.match(text, match.start()) or match
            if re.match(r"\s*(?:to|–|-|→|and|vs\.?)\s*(?:step\s*)?\d+(?!\.?\d|\s?%)", text[match.end() :]):
                match = _STEP.match(text, match.start()) or match
        numbers = re.findall(
            r"\d+",
            match.groupdict().get("list") or match.groupdict().get("before") or "",
        )
        if spelled := match.groupdict().get("after") or match.groupdict().get("into"):
            numbers = [f"{count(spelled) or 0:.0f}"]
        ids = frozenset(f"step:{int(number)}" for number in numbers)
        found.append(Mention(match.start(), match.end(), "when", ids, match[0]))
    return found


def _attempts(text: str) -> list[Mention]:
    found = []
    for match in _ATTEMPT.finditer(text):
        word = (match["word"] or match["one"] or "").lower()
        number = match["number"] or str(_ORDINALS.get(word, word))
        found.append(Mention(match.start(), match.end(), "attempt", frozenset({number}), match[0]))
    return found


def _whens(text: str) -> list[Mention]:
    return [
        Mention(match.start(), match.end(), "when", frozenset({match.lastgroup or ""}), match[0])
        for match in _WHEN.finditer(text)
    ]


def _last_validations(text: str, evidence: Evidence) -> list[Mention]:
    """ "the last two validations" are named by their steps."""
    curve = evidence.curves.get(evidence.main)
    found = [
        Mention(match.start(), match.end(), "when", frozenset({"recent"}), match[0])
        for match in _RECENT.finditer(text)  # the rows whose mean the report has
    ]
    found += [
        Mention(match.start(), match.end(), "when", frozenset({"between"}), match[0])
        for match in _SPAN.finditer(text)
    ]
    for match in _LAST_FEW.finditer(text) if curve is not None else ():
        steps = curve.steps[-int(count(match[1]) or 1) :] if curve is not None else ()
        found.append(
            Mention(match.start(), match.end(), "when", frozenset(f"step:{step}" for step in steps), match[0])
        )
    return found


@lru_cache(maxsize=8)
def _pattern(terms: tuple[Term, ...]) -> tuple[re.Pattern[str], dict[str, list[Term]]]:
    by_name: dict[str, list[Term]] = {}
    for term in terms:
        for name in term.names:
            by_name.setdefault(name, []).append(term)
    names = sorted(by_name, key=len, reverse=True)
    flexible = [r"[\s_\-/=:`]+".join(re.escape(part) for part in name.split()) for name in names]
    return re.compile(
        rf"(?<![\w./@])(?:{'|'.join(flexible) or '(?!)'})s?(?![\w@]|\.\d)", re.IGNORECASE
    ), by_name


def _terms(text: str, terms: tuple[Term, ...]) -> list[Mention]:
    pattern, by_name = _pattern(terms)
    found = []
    for match in pattern.finditer(text):
        if match[0].lower() == "best" and re.match(r"\s+(?:seed|run)\b", text[match.end() :]):
            continue  # of a point, not the best point
        if _NO_METRIC.search(text[: match.start()]) and match[0].lower().startswith("detectable"):
            continue
        name = " ".join(re.split(r"[\s_\-/=:`]+", match[0].lower()))
        named = (
            by_name.get(name) or by_name.get(match[0].lower()) or by_name.get(name.removesuffix("s")) or []
        )
        for axis in dict.fromkeys(term.axis for term in named):
            ids = frozenset().union(*(term.ids for term in named if term.axis == axis))
            found.append(Mention(match.start(), match.end(), axis, ids, match[0]))
    return found


def _unknown_metrics(text: str, known: Iterable[Mention]) -> list[Mention]:
    spans = [
        (mention.start, mention.end)
        for mention in known
        if mention.axis in ("metric", "key", "setting") or mention.axis.startswith("level")
    ]
    return [
        Mention(match.start(), match.end(), "metric", frozenset({UNKNOWN}), match[0])
        for match in _KNOWN_METRICS.finditer(text)
        if not any(start < match.end() and match.start() < end for start, end in spans)
    ]
