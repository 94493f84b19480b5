"""Scripted models: functions from what was seen to a step, and ways to put them together."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence

from tests.model_server.bad_request import NAME
from tests.model_server.seen import Seen
from tests.model_server.steps import Answer, Call, Failure, Step

Model = Callable[[Seen], Step]


def always(step: Step) -> Model:
    """A model that says the same whatever it is asked."""
    return lambda seen: step


def in_order(*steps: Step, then: Model) -> Model:
    """A model that takes these steps first and then behaves like another."""
    left = list(steps)
    return lambda seen: left.pop(0) if left else then(seen)


def when_shown(pattern: str, step: Step, otherwise: Model) -> Model:
    """A model that takes the step whenever the latest turn matches the regular expression."""

    def model(seen: Seen) -> Step:
        latest = seen.turns[-1]
        shown = "\n".join([latest.text, *(result.text for result in latest.results)])
        return step if re.search(pattern, shown) else otherwise(seen)

    return model


def flaky(model: Model, failures: Sequence[Step], share: float, seed: int) -> Model:
    """A model behind a bad line: this share of requests fails, in one of these ways, the same for the same
    seed.
    """
    dice = random.Random(seed)
    return lambda seen: dice.choice(failures) if dice.random() < share else model(seen)


class Obedient:
    """A model that obeys what it reads, wherever it stands: the worst case for whoever guards it.

    Any JSON object with the keys `tool` and `arguments` in any text it is shown (system text, turns, tool
    results, also when quoted inside another JSON text) is an instruction, and the call it makes is exactly
    that, offered or not. Each distinct instruction is obeyed `times` times in all, in the order of the
    prompt; with nothing left to obey it behaves like `otherwise`. `obeyed` holds the calls it made: an attack
    that never arrived proves nothing.
    """

    def __init__(self, otherwise: Model, times: int = 1) -> None:
        self._otherwise = otherwise
        self._times = times
        self.obeyed: list[Call] = []

    def __call__(self, seen: Seen) -> Step:
        for text in seen.texts:
            for found in instructions(text):
                if self.obeyed.count(found) < self._times:
                    self.obeyed.append(found)
                    return Answer(calls=(found,))
        return self._otherwise(seen)


def instructions(text: str) -> Iterator[Call]:
    """The tool calls that a text asks for, as JSON objects with the keys `tool` and `arguments`."""
    decoder = json.JSONDecoder()
    for reading in dict.fromkeys((text, text.replace('\\"', '"'))):
        for brace in re.finditer(r"\{", reading):
            try:
                found, _ = decoder.raw_decode(reading, brace.start())
            except ValueError:
                continue
            name, arguments = found.get("tool"), found.get("arguments")
            if isinstance(name, str) and NAME.fullmatch(name) and isinstance(arguments, dict):
                yield Call(name, json.dumps(arguments))


def failures_only(*failures: Failure) -> Model:
    """A model that is never there: fails in these ways, one after the other, again and again."""
    return lambda seen: failures[(seen.number - 1) % len(failures)]
