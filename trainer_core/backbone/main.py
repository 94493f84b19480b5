"""From a config to an exit status: the one place where a training's errors become lines for a person."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import torch

from trainer_core.backbone import trinity
from trainer_core.backbone.checkpoint import Checkpoints
from trainer_core.backbone.closing import closing_line
from trainer_core.backbone.debug import debug
from trainer_core.backbone.loop import train as run_loop
from trainer_core.backbone.own_folder import own_folder
from trainer_core.backbone.run import Run
from trainer_core.backbone.stop import StopRequested, StopSignals
from trainer_core.config.schema import Config
from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def train(config: Config, *, ends_other: bool = False) -> int:
    """Train as the config says; the exit status of the process. `ends_other`: see `own_folder`.

    Returns:
        0 when all steps are done, 1 when training failed (the reason is on stderr, the traceback in
        `train.log`), 143 after SIGTERM and 130 after SIGINT, with a checkpoint of the last finished step.
    """
    if config.ajet.backbone == "debug":
        return debug(config)
    folder = Path(config.ajet.experiment_dir).absolute()
    logging.getLogger("trainer_core").addHandler(logging.NullHandler())  # until there is a train.log
    with StopSignals() as stop:
        try:
            with own_folder(folder, ends_other=ends_other):
                end = _train(config, stop)
        except StopRequested as request:
            _say(_stopped(config, folder, f"stopped by {request}"))
            return 128 + request.signal_number
        except KeyboardInterrupt:
            _say(_stopped(config, folder, "stopped at once"))
            return 128 + signal.SIGINT
        except TrainingError as error:
            return _failed(str(error))
        except OSError as error:
            if error.errno not in _NO_SPACE:
                return _failed(f"{error}. The traceback is in {folder / 'train.log'}")
            return _failed(
                f"cannot write below {folder}: {error.strerror}. Free some space there and start again: "
                "training goes on from the last checkpoint"
            )
        except torch.OutOfMemoryError as error:
            return _failed(
                f"the GPU has too little memory: {str(error).rstrip('.')}. Lower "
                "rollout.ppo_max_token_len_per_gpu, write enable_gradient_checkpointing: true, or lower "
                "rollout.gpu_memory_utilization where vLLM has a part of the same GPU; `ajet --dry-run` says "
                "what takes how much"
            )
        except Exception as error:  # noqa: BLE001  (whatever it is, a person gets one line)
            log = folder / "train.log"
            return _failed(f"unexpected {type(error).__name__}: {error}. The traceback is in {log}")
    _say(_closing(config, folder, end))
    return 0


def _train(config: Config, stop: StopSignals) -> str:
    """How it ended."""
    if config.ajet.backbone == "trinity":
        trinity.train(config, _say, stop.safe_point)
        return "done"
    with ExitStack() as closing:
        run = Run(config, closing, say=_say, safe_point=stop.safe_point)
        asyncio.run(run_loop(run, stop))
        if run.start_step >= run.total_steps > 0:
            return "nothing left to train"
        return "done" if run.total_steps > 0 else "validated"


def _closing(config: Config, folder: Path, end: str) -> str:
    if config.ajet.backbone == "trinity":  # it has rows and checkpoints of its own
        return f"{end}; results in {folder}"
    return closing_line(end, folder, _last_checkpoint(config))


def _stopped(config: Config, folder: Path, end: str) -> str:
    where = "starts from the beginning"
    if config.ajet.backbone == "trinity":
        where = "goes on from Trinity's last checkpoint, if there is one"
    elif checkpoint := _last_checkpoint(config):
        where = f"goes on from {checkpoint.name}"
    return f"{_closing(config, folder, end)}; the same command {where}"


def _last_checkpoint(config: Config) -> Path | None:
    return Checkpoints(Path(config.ajet.trainer_common.checkpoint_base_dir).absolute(), keep=None).last


def _failed(reason: str) -> int:
    _log.exception("training failed")
    print(f"error: {reason}", file=sys.stderr, flush=True)
    return 1


def _say(line: str) -> None:
    """Progress for a watcher; never shaped like a metric row."""
    print(f"[ajet] {line}", flush=True)
    _log.info(line)
