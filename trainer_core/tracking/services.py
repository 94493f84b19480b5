"""Metric rows to an outside service, when the config asks for one.

A service is a convenience: if it cannot be reached the user is told at once, and training goes on with
console and file.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)


def connect(name: str, project: str, experiment: str, config: Mapping[str, Any], folder: Path) -> Any:
    """The module `swanlab` or `wandb`, with a run begun that its `log` and `finish` speak to. `SWANLAB_MODE`
    (cloud, local, offline, disabled) and `WANDB_MODE` (online, offline, disabled) decide where rows go.

    Raises:
        TrainingError: it is not installed.
    """
    try:
        service = importlib.import_module(name)
    except ImportError as error:
        raise TrainingError(
            f"trainer_common.logger: {name} is not installed ({error}); pip install {name}, or "
            "logger: console"
        ) from error
    if name == "swanlab":
        where = {"experiment_name": experiment, "logdir": str(folder / "swanlog")}
    else:
        where = {"name": experiment, "dir": str(folder)}
    service.init(project=project, config=dict(config), **where)
    return service


class Outside:
    """Passes rows to a service until that fails; then says so once and stays silent."""

    def __init__(self, name: str, start: Callable[[], Any], say: Callable[[str], None]) -> None:
        """`start` connects to the service called `name`."""
        self._name = name
        self._say = say
        self._service: Any = None
        with self._until_it_fails():
            self._service = start()

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Pass a row on."""
        with self._until_it_fails():
            if self._service is not None:
                self._service.log(dict(values), step=step)

    def finish(self) -> None:
        """Let the service send what is left."""
        with self._until_it_fails():
            if self._service is not None:
                self._service.finish()

    @contextmanager
    def _until_it_fails(self) -> Iterator[None]:
        try:
            yield
        except TrainingError:
            raise
        except Exception as error:  # noqa: BLE001  (services raise anything; none may stop a training)
            self._service = None
            _log.exception("%s failed", self._name)
            self._say(
                f"warning: {self._name} failed and gets no more rows ({type(error).__name__}: {error}); "
                "training goes on, every row is in metrics.jsonl"
            )
