"""The words by which lines are picked, against the expressions that judge the picked lines."""

from __future__ import annotations

import pytest

from monitors.metrics import Row
from monitors.rules import ERROR_WORDS, WatchRules, is_error, is_validation, proves_first_step

ERRORS = [
    "Traceback (most recent call last):",
    "(Task pid=7) torch.OutOfMemoryError: CUDA out of memory",
    "KeyError",
    "my.module.ToolException: x",
    "KeyboardInterrupt",
    "SystemExit: 3",
    "[rank0] FATAL: no",
    "CRITICAL the end",
    "Segmentation fault (core dumped)",
    "Killed",
    "Fatal Python error: Aborted",
    "terminate called after throwing an instance of 'c10::Error'",
    "worker: CUDA out of memory, 3 GB asked",
    "write: No space left on device",
    "gpu7:1:2 [0] NCCL WARN timeout",
    "x NCCL error: unhandled",
]


@pytest.mark.parametrize("text", ERRORS)
def test_every_error_holds_a_word_that_picks_it(text: str) -> None:
    assert is_error(text)
    assert any(word in text.encode() for word in ERROR_WORDS)


def test_a_validation_with_its_timing_is_no_training_step() -> None:
    before_training = Row(0, {"val/task_pass_rate@1": 0.2, "timing_s/validation": 41.2, "epoch": 0.0})
    assert is_validation(before_training)
    assert not proves_first_step(before_training, WatchRules())
    assert not is_validation(Row(1, {"val/acc": 0.2, "loss": 0.5}))
    assert not is_validation(Row(1, {"timing_s/step": 0.5}))
