"""What follows from varying a key, said before anything runs."""

from pathlib import Path
from typing import Any

from harness.sweep import reach
from harness.sweep.points import Base, config_text
from tests.harness.sweep.varied import experiment, plan


def warned(home: Path, command: str, vary: dict[str, list[Any]]) -> tuple[str, ...]:
    base = experiment(home, command)
    return reach.warnings(plan(vary), Base(base, config_text(base), base.codebase_dir))


def test_what_follows_from_varying_a_key_is_said_once_per_key(tmp_path: Path) -> None:
    command = "python train.py --config conf/run.yaml --lr 1 --output_dir out --epochs 3"
    vary: dict[str, list[Any]] = {"batch_size": [8, 16], "arg:--epochs": ["3", "6"], "arg:--lr": ["1", "2"]}
    said = warned(tmp_path, command, vary)
    assert [sentence.split()[0] for sentence in said] == ["batch_size", "arg:--epochs", "output_dir"]
    assert "samples" in said[0] and "compute" in said[1] and "HARNESS_ATTEMPT_DIR" in said[2]
    command = 'python train.py conf/run.yaml --output_dir "$HARNESS_ATTEMPT_DIR/out"'
    assert warned(tmp_path, command, {"optim.lr": [1e-4, 1e-3]}) == ()
