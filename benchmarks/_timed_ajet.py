"""The command `ajet`, with the seconds in verl's workers and in vLLM's loading added to its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from trainer_core.cli import app
from trainer_core.engine.verl import training
from trainer_core.engine.vllm.server import VllmServer
from trainer_core.tracking.metrics import MetricsLog

WORKERS, LOADING = "benchmark/workers", "benchmark/vllm_loads"
_seconds = {WORKERS: 0.0, LOADING: 0.0}
_write = MetricsLog.write


def _timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            _seconds[name] += time.perf_counter() - begin

    return call


def _with_seconds(log: MetricsLog, step: int, values: Mapping[str, float]) -> None:
    _write(log, step, {**values, **_seconds})
    _seconds.update(dict.fromkeys(_seconds, 0.0))


if __name__ == "__main__":
    places: Any = (training, VllmServer, MetricsLog)
    places[0]._call = _timed(WORKERS, training._call)
    places[1].command = _timed(LOADING, VllmServer.command)
    places[2].write = _with_seconds
    app()
