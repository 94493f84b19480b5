"""Metric rows to an outside service, when the config asks for one.

A service is a convenience: if it cannot be reached the user is told at once, and training goes on with
console and file.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)


class Service(Protocol):
    """What a service has to take."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Take the row of a step."""

    def finish(self) -> None:
        """Send what is left."""


class SwanLab:
    """SwanLab; `SWANLAB_MODE` = cloud, local, offline or disabled decides where rows go."""

    def __init__(self, project: str, experiment: str, config: Mapping[str, Any], folder: Path) -> None:
        self._swanlab = _import("swanlab")
        self._swanlab.init(
            project=project, experiment_name=experiment, config=dict(config), logdir=str(folder / "swanlog")
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._swanlab.log(dict(values), step=step)

    def finish(self) -> None:
        self._swanlab.finish()


class WeightsAndBiases:
    """Weights & Biases; `WANDB_MODE` = online, offline or disabled decides where rows go."""

    def __init__(self, project: str, experiment: str, config: Mapping[str, Any], folder: Path) -> None:
        wandb = _import("wandb")
        self._run = wandb.init(project=project, name=experiment, config=dict(config), dir=str(folder))

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def finish(self) -> None:
        self._run.finish()


SERVICES: dict[str, Callable[[str, str, Mapping[str, Any], Path], Service]] = {
    "swanlab": SwanLab,
    "wandb": WeightsAndBiases,
}


class Outside:
    """Passes rows to a service until that fails; then says so once and stays silent."""

    def __init__(self, name: str, start: Callable[[], Service], say: Callable[[str], None]) -> None:
        """`start` connects to the service called `name`."""
        self._name = name
        self._say = say
        self._service: Service | None = None
        self._service = self._attempt(start)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Pass a row on."""
        if (service := self._service) is not None:
            self._attempt(lambda: service.log(values, step))

    def finish(self) -> None:
        """Let the service send what is left."""
        if (service := self._service) is not None:
            self._attempt(service.finish)

    def _attempt(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except TrainingError:
            raise
        except Exception as error:  # noqa: BLE001  (services raise anything; none may stop a training)
            self._service = None
            _log.exception("%s failed", self._name)
            self._say(
                f"warning: {self._name} failed and gets no more rows ({type(error).__name__}: {error}); "
                "training goes on, every row is in metrics.jsonl"
            )
            return None


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TrainingError(
            f"trainer_common.logger: {name} is not installed ({error}); pip install {name}, or "
            "logger: console"
        ) from error
