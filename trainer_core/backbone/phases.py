"""How long each phase of a step took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Phases:
    """Times named phases of one step: `with phases("gen"): …`."""

    def __init__(self, clock: Callable[[], float], begins: Callable[[str], None] = lambda name: None) -> None:
        """`clock` returns seconds; the step begins now. `begins` is told of each phase."""
        self._begins = begins
        self._clock = clock
        self._begin = clock()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._begins(name)
        begin = self._clock()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + self._clock() - begin

    def metrics(self, tokens: float) -> dict[str, float]:
        """`timing_s/<phase>`, `timing_s/step` (all), `perf/throughput` (tokens per second of the step)."""
        total = self._clock() - self._begin
        timing = {f"timing_s/{name}": seconds for name, seconds in self._seconds.items()}
        return timing | {"timing_s/step": total, "perf/throughput": tokens / total if total > 0 else 0.0}
