"""Claims about how a run and its attempts ended, and at which step.

In: a sentence taken apart, the evidence of the run. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.results.claims import wording
from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.types import Claim, Evidence

_SUCCEEDED = re.compile(
    r"\b(?:(?:the\s+|this\s+)?(?:run|experiment|training|job|script|process)\s+(?:\w+\s+){0,2}?(?:succeeded|completed|finished(?!\s+with\s+an)|exited\s+(?:cleanly|normally|successfully)|ended\s+(?:successfully|normally|as\s+planned)|ran\s+to\s+(?:its\s+end|completion)|was\s+(?:a\s+)?success\w*)"
    r"|(?:completed|finished|ran)\s+(?:successfully|without\s+(?:any\s+)?(?:errors?|problems?|failures?|incidents?|issues?|interruptions?))|to\s+completion|without\s+(?:any\s+)?(?:failures?|restarts?|repairs?|crashes|interruptions?))\b",
    re.IGNORECASE,
)


_FAILED = re.compile(
    r"\b(?:(?:the\s+|this\s+)(?:run|experiment|training|job|script|process)|(?<!\w\s)training)\s+(?:\w+\s+){0,2}?(?:"
    r"(?:ended|exited|stopped|finished|terminated)\s+(?:with|in|on)\s+(?:an?\s+)?(?:error|exception|failure|crash|non-?zero)|failed|crashed|was\s+aborted|died|timed\s+out|was\s+cancelled|was\s+stopped)\b|\btimed\s+out\b|\bhit\s+(?:its|the)\s+time\s+limit\b",
    re.IGNORECASE,
)


_TRY_ENDED = re.compile(
    r"\b(?P<bad>failed|crashed|died|aborted|ran\s+out\s+of\s+memory|was\s+killed)\b|\b(?P<good>succeeded|completed|finished|ran\s+to\s+its\s+end|worked)\b",
    re.IGNORECASE,
)


_DIED_AT = re.compile(
    r"\b(?:crash|fail|died|out[\s-]of[\s-]memory|oom|killed|aborted|time\s*limit|timed\s+out|deadline)\w*(?:\s+\w+){0,3}?\s+"
    r"(?:at|in|after|on|during)\s+step\s+(?P<step>\d+)\b",
    re.IGNORECASE,
)


def outcomes(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    text = sentence.text
    attempts = sentence.of("attempt")
    if not attempts:
        is_failed = evidence.outcome in ("failed", "cannot_run", "cancelled")
        for match in _SUCCEEDED.finditer(text):
            is_denied = wording.is_denied(text, match.start()) or " never " in match[0] or " not " in match[0]
            if wording.is_considered(text, match.start()):
                continue
            clean = "without" in match[0].lower() or "to completion" in match[0].lower()
            holds = evidence.outcome in ("succeeded", "running") and not (
                "without" in match[0].lower() and "failed" in evidence.attempts.values()
            )
            holds = holds or (
                evidence.outcome == "timed_out"
                and not clean
                and "success" not in match[0].lower()
                and "succeed" not in match[0].lower()
                and "complet" not in match[0].lower()
            )
            yield Claim(
                match[0],
                "outcome",
                "ok" if holds != is_denied else "wrong",
                "" if holds != is_denied else _outcome(evidence),
            )
        for match in _FAILED.finditer(text):
            if wording.is_considered(text, match.start()):
                continue
            word = match[0].lower()
            timed = "time" in word
            holds = (
                evidence.outcome == "timed_out"
                if timed
                else is_failed or ("stopped" in word and evidence.outcome in ("stopped_early", "timed_out"))
            )
            is_denied = wording.is_denied(text, match.start()) or " never " in match[0] or " not " in match[0]
            yield Claim(
                match[0],
                "outcome",
                "ok" if holds != is_denied else "wrong",
                "" if holds != is_denied else _outcome(evidence),
            )
        return
    for mention in attempts:
        yield from _attempt(mention, text, evidence.attempts)


def _outcome(evidence: Evidence) -> str:
    failed = [str(number) for number, end in evidence.attempts.items() if end == "failed"]
    more = f"; failed attempts: {', '.join(failed)}" if failed else ""
    return f"the run's outcome is: {evidence.outcome.replace('_', ' ')}{more}"


def _attempt(mention: Mention, text: str, attempts: Mapping[int, str]) -> Iterator[Claim]:
    """How an attempt ended, and whether it was there at all."""
    word = next(iter(mention.ids))
    number = int(word) if word.isdigit() else max(attempts, default=1)
    if number not in attempts:
        yield Claim(mention.text, "outcome", "wrong", f"there were {len(attempts)} attempts")
        return
    behind = re.match(r"[^.;,]{0,40}", text[mention.end :])
    ended = _TRY_ENDED.search(behind[0]) if behind else None
    if ended is None or wording.is_denied(text, mention.end + ended.start()):
        return
    real = attempts[number]
    holds = (real == "failed") == bool(ended["bad"])
    yield Claim(
        f"{mention.text} {ended[0]}",
        "outcome",
        "ok" if holds else "wrong",
        "" if holds else f"attempt {number} {'failed' if real == 'failed' else 'ran to its end'}",
    )


def steps_there(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    for mention in sentence.of("when"):
        for name in sorted(mention.ids):
            if (
                name.startswith("step:")
                and evidence.last_step is not None
                and int(name[5:]) > evidence.last_step
            ):
                yield Claim(mention.text, "number", "wrong", f"the last step is {evidence.last_step}")


def ended_at(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """Where a failure is said to have come at a step: the last one of an attempt, or the one after it."""
    ends = {number.value for number in evidence.numbers if number.label.endswith(": last step")}
    for match in _DIED_AT.finditer(sentence.text):
        step = int(match["step"])
        if ends and not {step, step - 1} & ends and not wording.is_considered(sentence.text, match.start()):
            told = ", ".join(f"{end:.0f}" for end in sorted(ends))
            yield Claim(match[0], "outcome", "wrong", f"the last steps of the attempts are {told}")
