"""What only a process of its own can show: signals, a disk that is full."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_core.backbone.local import train
from trainer_core.config.load import resolved_yaml
from trainer_core.config.schema import Config

TinyConfig = Callable[..., Config]


def start(config: Config, folder: Path, *, largest_file: int | None = None) -> "subprocess.Popen[str]":
    """Run the trainer; files cannot grow beyond `largest_file` bytes, as on a disk that is full."""
    path = folder / "config.yaml"
    path.write_text(resolved_yaml(config))

    def limit() -> None:
        if largest_file is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    return subprocess.Popen(
        [sys.executable, "-m", "trainer_core.cli", "--conf", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=limit,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(process: "subprocess.Popen[str]", beginning: str) -> None:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(beginning):
            return
    pytest.fail(f"no line beginning with {beginning!r} in:\n{''.join(seen)}")


def test_sigterm_leaves_a_checkpoint_of_the_last_step(tiny_config: TinyConfig, tmp_path: Path) -> None:
    process = start(tiny_config(total_training_steps=100_000, save_freq=-1, test_freq=-1), tmp_path)
    wait_for(process, "step:3 -")
    process.terminate()
    console, _ = process.communicate(timeout=60)
    assert process.returncode == 143, console
    assert "[ajet] stopped by SIGTERM" in console
    folder = tmp_path / "run"
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    assert (folder / "checkpoints" / "latest").read_text().strip() == f"step_{last:06d}"


def test_a_full_disk_is_named_and_the_earlier_checkpoint_stays(
    tiny_config: TinyConfig, tmp_path: Path
) -> None:
    assert train(tiny_config(total_training_steps=2)) == 0
    checkpoints = tmp_path / "run" / "checkpoints"
    before = {path: path.read_bytes() for path in checkpoints.rglob("*") if path.is_file()}

    process = start(tiny_config(total_training_steps=4), tmp_path, largest_file=30_000)
    console, _ = process.communicate(timeout=120)
    assert process.returncode == 1, console
    assert f"error: cannot write the checkpoint of step 4 to {checkpoints / 'step_000004'}" in console
    assert "Traceback" not in console
    assert {path: path.read_bytes() for path in checkpoints.rglob("*") if path.is_file()} == before
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["step"] == 4

    assert train(tiny_config(total_training_steps=4)) == 0
    assert (checkpoints / "latest").read_text().strip() == "step_000004"
