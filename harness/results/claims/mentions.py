"""What a sentence is about: the metrics, steps, attempts, points, levels and seeds that it names, and which
of its numbers each of them belongs to.

In: a sentence, the evidence's terms. Out: `Sentence`, with `Bound` numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from harness.results.claims.binding import bind, is_step
from harness.results.claims.quantities import quantities
from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.types import Evidence, Term
from harness.results.comparing.types import Key
from harness.results.facts import RECENT

UNKNOWN = "unknown"
_STEP = re.compile(
    r"\bsteps?\b[\s\-:=#_(]*(?P<list>\d+(?![\d.]*\.\d|\d|\s?%)(?:\s*(?:,|,?\s*and|to|–|-|through|or|→|/|vs\.?)\s*(?:step\s*)?"
    r"\d+(?![\d.]*\.\d|\d|\s?%))*)|\b(?P<before>\d+)(?:st|nd|rd|th)\s+step\b"
    r"|\bafter\s+(?P<after>\d+)\s+(?:\w+\s+)?(?:steps|updates|iterations)\b",
    re.IGNORECASE,
)
_ONE_STEP = re.compile(r"\bstep\b[\s\-:=#_(]*(?P<list>\d+)(?![\d.]*\.\d|\d)", re.IGNORECASE)
_RECENT = re.compile(
    rf"\b(?:last|final)\s+(?:{RECENT}|ten)\s+(?:\w+\s+)?(?:rows|steps|values)\b", re.IGNORECASE
)
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
    rf"\battempts?\s*#?(?P<number>\d+)\b|\b(?P<word>{'|'.join(_ORDINALS)}|last|final|only)\s+(?:attempt|launch|try)\b",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"""\b(?:
      (?P<first>initial(?:ly)?|before\s+(?:any\s+)?training|untrained|at\s+the\s+(?:very\s+)?(?:start|beginning|outset)|started|
        starts|starting|began|begins|beginning|first\s+(?:validation|row|step|value|evaluation)|baseline)
    | (?P<highest>best|peak(?:ed|s)?|highest|maximum|(?<!\d\s)max|maximal|at\s+most)
    | (?P<lowest>worst|lowest|minimum|(?<!\d\s)(?<!\d)min|minimal)
    | (?P<last>final(?:ly)?|last(?!\s+(?:third|half|quarter|two|three|four|\d))|end(?:ed|s|
      ing)?(?!\s+of\s+(?:the\s+)?(?:interval|95))|finished|finishes|
        finishing|after\s+training|closed|last\s+(?:validation|row|step|value|evaluation))
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
_LEVEL_BEFORE = re.compile(
    r"(?:[=:]|\b(?:of|at|for|with|using|under|vs\.?|versus|against|than|and|or|to|from|between|over|is|was|level|levels|coefficient|weight|,))"
    r"[\s(`'\"]*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.@#])[\-−]?\d+(?:\.\d+)?(?:[eE][+\-−]?\d+)?(?![\w%]|\.\d|\s?%)")


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
    mentions += _levels(text, evidence, mentions, before)
    mentions = _baselines(mentions, evidence)
    mentions += _unknown_metrics(text, mentions)
    mentions.sort(key=lambda mention: mention.start)
    taken = [(m.start, m.end) for m in mentions if m.ids and _takes_numbers(m)]
    found = quantities(text, evidence.names, taken)
    return Sentence(text, tuple(mentions), tuple(bind(text, found, mentions, evidence)))


def _takes_numbers(mention: Mention) -> bool:
    if mention.axis == "when":
        return is_step(mention) or mention.ids == {"recent"}
    return mention.axis in ("attempt", "metric", "point", "seed") or mention.axis.startswith("level")


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
            match.groupdict().get("list")
            or match.groupdict().get("before")
            or match.groupdict().get("after")
            or "",
        )
        ids = frozenset(f"step:{int(number)}" for number in numbers)
        found.append(Mention(match.start(), match.end(), "when", ids, match[0]))
    return found


def _attempts(text: str) -> list[Mention]:
    found = []
    for match in _ATTEMPT.finditer(text):
        word = (match["word"] or "").lower()
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
    for match in _LAST_FEW.finditer(text) if curve is not None else ():
        count = {"two": 2, "three": 3, "four": 4}.get(match[1].lower()) or int(match[1])
        steps = curve.steps[-count:] if curve is not None else ()
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
        rf"(?<![\w./@])(?:{'|'.join(flexible) or '(?!)'})(?![\w@]|\.\d)", re.IGNORECASE
    ), by_name


def _terms(text: str, terms: tuple[Term, ...]) -> list[Mention]:
    pattern, by_name = _pattern(terms)
    found = []
    for match in pattern.finditer(text):
        name = " ".join(re.split(r"[\s_\-/=:`]+", match[0].lower()))
        named = by_name.get(name) or by_name.get(match[0].lower()) or []
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


def _levels(
    text: str, evidence: Evidence, known: Sequence[Mention], before: Sentence | None
) -> list[Mention]:
    """Numbers that are levels of a key, where the sentence (or the one before) is about that key."""
    if evidence.comparison is None:
        return []
    found: list[Mention] = []
    busy = [(m.start, m.end) for m in known if _takes_numbers(m) and m.axis != "metric"]
    for key in evidence.comparison.study.keys:
        numeric = [
            level for level in key.levels if isinstance(level, int | float) and not isinstance(level, bool)
        ]
        if not numeric:
            continue
        for match in _NUMBER.finditer(text):
            level = next((x for x in numeric if _same(match[0], x)), None)
            if level is None or any(start < match.end() and match.start() < end for start, end in busy):
                continue
            if _is_level(text, match, key, evidence, known, before):
                name = f"{key.name}={level}"
                found.append(
                    Mention(match.start(), match.end(), f"level of {key.name}", frozenset({name}), match[0])
                )
    return found


def _baselines(mentions: list[Mention], evidence: Evidence) -> list[Mention]:
    """In a comparison no word means "at the start"; "baseline" is a level where levels are spoken of, and
    only says once more what stands beside it in "the baseline of 1e-6"."""
    if evidence.comparison is None:
        return mentions
    kept = [m for m in mentions if m.axis != "when" or is_step(m)]
    keys = {key.name: key for key in evidence.comparison.study.keys}
    spoken = {m.axis.removeprefix("level of ") for m in kept if m.axis.startswith("level of ")}
    named = spoken or (set(keys) if len(keys) == 1 else set())
    found = []
    for mention in kept:
        if mention.ids != {"baseline"} or len(named) != 1:
            found.append(mention)
            continue
        key = keys[next(iter(named))]
        level = f"{key.name}={key.baseline}"
        beside = [m for m in kept if level in m.ids and -60 < m.start - mention.end < 40]
        if not beside:
            found.append(replace(mention, axis=f"level of {key.name}", ids=frozenset({level})))
    return found


def _same(printed: str, level: float) -> bool:
    value = float(printed.replace("−", "-"))
    return abs(value - level) <= 1e-9 * max(abs(value), abs(level))


def _is_level(
    text: str,
    match: re.Match[str],
    key: Key,
    evidence: Evidence,
    known: Sequence[Mention],
    before: Sentence | None,
) -> bool:
    keys = [mention for mention in known if mention.axis == "key" and key.name in mention.ids]
    ahead = text[: match.start()]
    near = [
        m
        for m in keys
        if m.end <= match.start()
        and re.fullmatch(r"[\s=:`'\"(]*(?:of|at|to|from|is|was|value)?[\s`]*", text[m.end : match.start()])
    ]
    behind = [m for m in keys if m.start >= match.end() and not text[match.end() : m.start].strip(" `-")]
    is_odd = "e" in match[0].lower() or 0 < abs(float(match[0].replace("−", "-"))) < 0.005
    if near or behind or (is_odd and _value_is_unlikely(ahead)):
        return True
    if not _LEVEL_BEFORE.search(ahead) and ahead.strip(" `*("):
        return False
    is_known = bool(keys) or (before is not None and any(key.name in m.ids for m in before.of("key")))
    one_key = evidence.comparison is not None and len(evidence.comparison.study.keys) == 1
    spelled = re.search(
        r"\b(?:at|for|with|using|under|vs\.?|versus|against|than|level)[\s(`'\"]*$", ahead, re.IGNORECASE
    )
    return (is_known or bool(one_key and spelled)) and _value_is_unlikely(ahead)


def _value_is_unlikely(ahead: str) -> bool:
    return not re.search(
        r"(?:rate|reward|kl|loss|score|mean|average|value|p)\s+(?:of|was|is|=)\s*$", ahead, re.IGNORECASE
    )


# --- binding ------------------------------------------------------------------------------------------------
