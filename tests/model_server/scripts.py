"""Scripted models: functions from what was seen to a step."""

import json
import re
from collections.abc import Callable, Iterator

from tests.model_server.prompt import NAME
from tests.model_server.seen import Seen
from tests.model_server.steps import Answer, Call, Step

Model = Callable[[Seen], Step]


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
