"""A rank that is stopped in the middle of a training, and one that the others have lost."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

if importlib.util.find_spec("verl") is None:
    pytest.skip("needs verl; `make test-stack` brings it", allow_module_level=True)

from tests.trainer_core.stack.conftest import config_of, random_batch
from trainer_core.backbone.verl import make_engines
from trainer_core.types import Loss, TaskSplits, TrainingError

NO_TASKS = TaskSplits((), (), ())


def test_a_stopped_rank_ends_the_call_with_its_cause(model: str) -> None:
    config = config_of(model, trainer_common={"n_gpus_per_node": 2, "use_kl_loss": False})
    log = Path(config.ajet.experiment_dir, "verl.log")
    log.unlink(missing_ok=True)
    with ExitStack() as closing:
        training = make_engines(
            config, NO_TASKS, closing, say=lambda _: None, safe_point=lambda: None
        ).training
        training.forward_backward(random_batch(), Loss())
        training._policy._limit_s = 8.0  # type: ignore[attr-defined]
        places = training._policy._places  # type: ignore[attr-defined]
        os.kill(places[1].pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(TrainingError, match=r"forward_backward for \d+ s.*rank 1 is stopped") as raised:
            training.forward_backward(random_batch(), Loss())
        assert "rank 0 waits in forward_backward" in str(raised.value) and str(log) in str(raised.value)
        assert time.monotonic() - began < 60.0
        stacks = log.read_text()
        assert "forward_backward" in stacks.split("rank 0, process")[1].split("rank 1, process")[0]
        assert "it writes no stacks" in stacks.split("rank 1, process")[1]
    assert not psutil.wait_procs(
        [psutil.Process(each.pid) for each in places if psutil.pid_exists(each.pid)], 30
    )[1]
