"""What only a process of its own can show: signals, a disk that is full, how it allocates."""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.backbone.test_local import numbers, same_weights
from trainer_core.backbone.main import train
from trainer_core.config.load import resolved_yaml
from trainer_core.config.schema import Config

AHEAD = {
    "one_step_off_policy": True,
    "old_logprobs": "recompute",
    "algorithm": {"rollout_is": "token"},
}
KILLS = [(2, 0, {}), (2, 1, AHEAD)]
KILLS += [pytest.param(40, 2, {}, marks=pytest.mark.soak), pytest.param(40, 3, AHEAD, marks=pytest.mark.soak)]
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
    folder = tmp_path / "run"
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    closing = console.splitlines()[-1]
    assert closing.startswith(f"[ajet] stopped by SIGTERM after step {last}: val/")
    assert closing.endswith(f"the same command goes on from step_{last:06d}")
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


MAPPED = """
import ctypes, gc, sys
import torch
from trainer_core.backbone.process import tune_process

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]

def mapped():
    read = ctypes.CDLL(None).mallinfo2
    read.restype = Info
    return read().hblkhd

if sys.argv[1] == "tuned":
    tune_process()
before = mapped()
block = torch.empty(16 * 2**20, dtype=torch.uint8)
print(mapped() - before >= block.nbytes, gc.get_freeze_count() > 0)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33 or later")
@pytest.mark.parametrize(("how", "expected"), [("plain", "True False"), ("tuned", "False True")])
def test_a_tuned_process_keeps_the_memory_of_middling_tensors(how: str, expected: str) -> None:
    done = subprocess.run([sys.executable, "-c", MAPPED, how], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


@pytest.mark.parametrize(("kills", "seed", "common"), KILLS)
def test_a_training_killed_anywhere_gives_the_digits_of_one_that_was_not(
    tiny_config: TinyConfig, tmp_path: Path, kills: int, seed: int, common: dict[str, Any]
) -> None:
    steps = {"total_training_steps": 10 * kills, "max_checkpoints_to_keep": 2, **common}
    assert train(tiny_config("whole", **steps)) == 0
    path = tmp_path / "config.yaml"
    path.write_text(resolved_yaml(tiny_config("killed", **steps)))
    command = [sys.executable, "-m", "tests.trainer_core.backbone.killer", str(path), str(kills), str(seed)]
    killer = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert killer.returncode == 0, killer.stdout + killer.stderr
    assert kills // 2 <= killer.stdout.count("killed after:") <= kills
    killed, whole, last = tmp_path / "killed", tmp_path / "whole", f"checkpoints/step_{10 * kills:06d}"
    assert numbers(killed) == numbers(whole)
    assert same_weights(killed / last, whole / last)
    for name in ("validation.jsonl", "validation.md"):
        assert (killed / name).read_text() == (whole / name).read_text()


def test_hundreds_of_agents_may_have_their_files_open() -> None:
    code = (
        "import resource as r; from trainer_core.backbone.process import tune_process; "
        "hard = min(9000, r.getrlimit(r.RLIMIT_NOFILE)[1] % 2**32); "
        "r.setrlimit(r.RLIMIT_NOFILE, (256, hard)); tune_process(); "
        "print(r.getrlimit(r.RLIMIT_NOFILE) == (hard, hard))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
