"""The cause of a failure, named by a language model where the program knows none, or only its kind.

In: a diagnosis, and the lines that it cites. Out: the same diagnosis with the model's family and cause,
marked as the model's wherever it is shown, and with the repairs that known failures of that family have in
common. What the model says is bound to those lines: an answer with a line, number or value that is not in
them is discarded.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from statistics import median

from harness import templating
from harness.actions import NameCause
from harness.attempt import UNKNOWN, Diagnosis, Evidence, OtherFinding, failure_of
from harness.diagnosis.signatures import families, load_usable
from harness.providers.chat import Request
from harness.providers.conversation import action_in, framed, request_of
from harness.providers.cost import Spending
from harness.providers.model import Model
from harness.providers.tools import CallError
from harness.wording import did_you_mean

MOST_LINES = 40
LONGEST_LINE = 240
LONGEST_LINES = 2_300
"""Bytes of all lines together, so that a request is of 2,000 tokens at most."""
PATIENCE_S = 10.0
SURE = 0.6
"""How sure a model's answer counts as: enough for a repair. Not measured: it depends on the model."""
VALUES = ("module", "key", "meant", "path", "model")
"""What a remedy may need of the lines."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")


class UnusableAnswerError(CallError):
    """The model's answer is discarded; the message says why."""


async def ask(found: Diagnosis, model: Model, spending: Spending, interrupted: asyncio.Event) -> Diagnosis:
    """What the model makes of an open diagnosis, in one call. Raises AskError and ProviderError where it
    does not answer, CallError where its answer cannot be used."""
    reply = await model.ask(request(found), spending, patience_s=PATIENCE_S, interrupted=interrupted)
    answer = action_in(reply.stop.value, reply.calls, (NameCause,), NameCause.kind)
    assert isinstance(answer, NameCause)
    return named(found, answer, model.name, shown(found))


def citable(found: Diagnosis) -> list[Evidence]:
    """The lines that a diagnosis has: its evidence, then the last lines of the log from the end."""
    return list({line.line: line for line in (*found.evidence, *found.last_lines[::-1])}.values())


def short_families() -> Mapping[str, str]:
    """The families with what belongs to each, without examples."""
    return {name: meaning.partition(" (")[0] for name, meaning in families().items()}


def named(found: Diagnosis, answer: NameCause, model: str, seen: Sequence[Evidence]) -> Diagnosis:
    """The diagnosis with the cause that a model names, which saw these lines. Raises UnusableAnswerError."""
    if answer.family not in families():
        raise UnusableAnswerError(f"no family is {answer.family!r}{did_you_mean(answer.family, families())}")
    if answer.family == UNKNOWN:
        raise UnusableAnswerError("the model finds no cause in the lines either")
    lines = {line.line: line for line in seen}
    if foreign := [number for number in answer.lines if number not in lines]:
        raise UnusableAnswerError(f"it cites lines that it was not shown: {', '.join(map(str, foreign))}")
    cited = tuple(lines[number] for number in sorted(set(answer.lines)))
    _check_words(answer, cited)
    shared, wait_s = _shared(answer.family)
    own = found.remedies if answer.family == found.family else ()
    return replace(
        found,
        family=answer.family,
        signature=None,
        cause=f"By {model}: {answer.cause}",
        transient=wait_s is not None,
        wait_s=wait_s or 0.0,
        captures={**found.captures, **answer.values},
        remedies=tuple(dict.fromkeys((*own, *shared))),
        evidence=cited,
        confidence=SURE,
        also=(*_guess(found), *found.also),
        repairs=(),
        what_to_do=(),
        only_nominated=False,
        by=model,
        failure=failure_of(found),
    )


def request(found: Diagnosis) -> Request:
    """The question about an open diagnosis."""
    guess = "none" if found.family == UNKNOWN else f"{found.family}, by its kind only"
    lines = [_worded(line) for line in sorted(shown(found), key=lambda line: line.line)]
    opening = templating.render("prompts/cause_lines.md.j2", guess=guess, lines=lines)
    system = templating.render("prompts/cause.md.j2", families=short_families())
    return request_of(system, (NameCause,), opening, ())


def shown(found: Diagnosis) -> list[Evidence]:
    """As many of its lines, from the first on, as a request may have."""
    lines = citable(found)
    fits = accumulate(len(_worded(line).encode()) for line in lines)
    return [line for line, size in zip(lines, fits, strict=True) if size <= LONGEST_LINES][:MOST_LINES]


def _worded(line: Evidence) -> str:
    return framed(f"{line.line}: {line.text}"[:LONGEST_LINE])


def _guess(found: Diagnosis) -> tuple[OtherFinding, ...]:
    """What the program had taken it for."""
    if found.signature is None or found.by or not found.evidence:
        return ()
    return (OtherFinding(found.family, found.signature, found.cause, found.evidence[0].line),)


def _check_words(answer: NameCause, cited: tuple[Evidence, ...]) -> None:
    text = "\n".join(line.text for line in cited)
    numbers = {*_NUMBER.findall(text), *(str(line.line) for line in cited)}
    if invented := [number for number in _NUMBER.findall(answer.cause) if number not in numbers]:
        raise UnusableAnswerError(f"the lines that it cites do not hold {', '.join(invented)}")
    for name, value in answer.values.items():
        if name not in VALUES or not value.strip() or value not in text:
            raise UnusableAnswerError(f"the lines that it cites name no {name} {value!r}")


def _shared(family: str) -> tuple[list[str], float | None]:
    """The repairs that at least half of the known failures of a family have, and how long to wait before a
    restart without a change; None where most of them do not pass by themselves."""
    known = [each for each in load_usable()[0].signatures if each.family == family]
    names = Counter(name for each in known for name in each.remedies if not name.startswith("advise"))
    waits = [each.wait_s for each in known if each.transient]
    shared = [name for name, count in names.items() if 2 * count >= len(known)]
    return shared, median(waits) if known and 2 * len(waits) >= len(known) else None
