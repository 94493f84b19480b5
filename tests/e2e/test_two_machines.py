"""Two machines that share a result folder: here two namespaces with host names and processes of their own.
What a network file system adds (cached attributes, locks that the server carries) is not in it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bench import until
from tests.e2e.short_run import ShortRun

NAMESPACES = ["unshare", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
SHELL = 'hostname "$1"; shift; "$@" & wait $!'
HARNESS = [sys.executable, "-c", "from harness.cli.app import main; main()"]
TRAIN = """case $HARNESS_ATTEMPT_DIR in *01) n=2000;; *) n=5;; esac; exec python train.py $n 0.1"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ShortRun]:
    probe = subprocess.run([*NAMESPACES, "hostname", "alpha"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no namespaces can be made here: {probe.stderr.strip()}")
    with ShortRun(tmp_path / "run", TRAIN) as run:
        yield run


def on(host: str, run: ShortRun, *arguments: str) -> subprocess.Popen[str]:
    """`harness …` on a machine of this name; when the process dies, the machine does."""
    socket = {"AJET_TMUX_SOCKET": f"{run.socket}-{host}", "PYTHONUNBUFFERED": "1"}
    command = [*NAMESPACES, "sh", "-c", SHELL, "sh", host, *HARNESS, *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, **run.env, **socket},
        cwd=run.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def said(host: str, run: ShortRun, *arguments: str) -> str:
    return " ".join(on(host, run, *arguments).communicate(timeout=150)[0].split())


def test_the_other_machine_is_left_its_run_until_it_is_gone(run: ShortRun) -> None:
    alpha = on("alpha", run, "run", str(run.blueprint))
    until(lambda: "step=3 " in run.log(), "step 3")
    assert "still works in" in said("beta", run, "resume", "trial")
    assert "on alpha: stop it there" in said("beta", run, "stop", "trial")
    os.killpg(alpha.pid, signal.SIGKILL)
    alpha.wait()
    beat = run.files().heartbeat_file
    beat.write_text(json.dumps(json.loads(beat.read_text()) | {"time": time.time() - 7200.0}))
    assert "its machine alpha has given no sign of life for 2h" in said("beta", run, "ls")
    taken_over = said("beta", run, "resume", "trial")
    assert "alpha has given no sign of life" in taken_over and "cannot be ended from here" in taken_over
    assert run.flag["outcome"] == "succeeded", taken_over
    assert run.starts() == {"01": 1, "02": 1}
    assert "alpha gave no sign of life any more" in (run.result_dir / "trial_and_error.md").read_text()
