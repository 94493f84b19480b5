"""Two values of one metric at one place: told where a result is replaced, and by no ordinary log."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitors.files import AttemptFiles
from monitors.watch import Watch

STEPS = [f"step={step} loss={1 / step:.3f} val/accuracy=0.{step}" for step in (10, 20, 30, 40)]
FOLD = [f"Epoch {epoch}/3 loss {1 / epoch:.3f} val_acc 0.{epoch}" for epoch in (1, 2, 3)]


def told(folder: Path, *lines: str) -> list[str]:
    """What a watch tells of it, read in two pieces and then once more from the start by another one."""
    log = folder / "pane.log"
    texts = []
    for half in (lines[: len(lines) // 2], lines):
        log.write_text("".join(f"{line}\n" for line in half))
        texts = [event.text for event in Watch(AttemptFiles(folder)).poll(True) if event.kind == "two_values"]
    return texts


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [*STEPS, "step=40 val/accuracy=0.99"],
            "val/accuracy at step 40 was first 0.4 (line 4), then 0.99 (line 5)",
        ),
        (
            [*STEPS, "step=20 val/accuracy=0.99"],
            "val/accuracy at step 20 was first 0.2 (line 2), then 0.99 (line 5)",
        ),
        (["step=1 reward=0.1", "step=2 reward=0.2", "step=2 reward=0.9"], "reward at step 2 was first 0.2"),
    ],
    ids=["the last validation", "an earlier one", "a training metric at the end"],
)
def test_a_second_value_is_told_once_with_both_lines(tmp_path: Path, lines: list[str], said: str) -> None:
    (text,) = told(tmp_path, *lines)
    assert text.startswith(said)


@pytest.mark.parametrize(
    "lines",
    [
        [*STEPS, STEPS[-1]],
        [*STEPS, "step=40 val/loss=0.9", "Test set: accuracy 0.9", "final val/accuracy=0.9"],
        [*STEPS[:3], "resumed", "step=30 loss=0.5", STEPS[3]],
        [f"step={step} loss=0.{batch}" for step in (1, 2, 3) for batch in (5, 6, 7)],
        [*FOLD, *(line.replace("val_acc 0", "val_acc 0.1") for line in FOLD)],
        [f"{{'loss': {1 / n:.3f}, 'epoch': 0.0{n // 3}}}" for n in range(1, 9)],
    ],
    ids=["the same again", "other metrics", "after a restart", "every batch", "folds", "rounded epochs"],
)
def test_ordinary_logs_tell_nothing(tmp_path: Path, lines: list[str]) -> None:
    assert told(tmp_path, *lines) == []


def test_however_many_there_are_few_are_told(tmp_path: Path) -> None:
    lines = [f"step={n // 2} val/accuracy=0.{n + 10}" for n in range(2, 60)]
    assert len(told(tmp_path, *lines)) == 5
