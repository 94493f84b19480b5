"""Launches that a name, a value or a tmux server makes difficult."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from monitors.files import AttemptFiles
from monitors.launch import PAUSES_S, kill_leftovers, launch, write_script
from monitors.tmux import TmuxError
from tests.monitors.tmux_world import ending, spec_for, start


@pytest.mark.parametrize("name", ["#(touch pwned)", "a\nb;", "é 数", "\udce9", "it's !here\\", '"$HOME" `x`'])
async def test_any_bytes_reach_the_training_in_any_folder(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cwd = tmp_path / name
    cwd.mkdir()
    env = {"LC_ALL": "C", "PLAIN": f"{name}\udcff"}
    command = "printf '%s|' \"$PLAIN\" \"$SOME\" '\udce9' > out"
    files, _ = start(cwd / "r" / "01", command, env=env, secret_env={"SOME": "\udce9\n;"}, cwd=cwd)
    assert (await ending(files)).status == 0
    assert (cwd / "out").read_bytes() == os.fsencode(f"{name}\udcff|\udce9\n;|\udce9|")
    assert not (tmp_path / "pwned").exists()


def test_a_proxy_with_its_password_is_kept_out_of_the_script(tmp_path: Path) -> None:
    env = {"https_proxy": "http://me:hunter2@proxy:3128", "no_proxy": "localhost,::1"}
    text = write_script(spec_for(tmp_path / "01", "true", env=env)).read_text()
    assert "hunter2" not in text and "export no_proxy=localhost,::1" in text


@pytest.mark.parametrize("state", ["/dev/null", "/proc/state"])
async def test_a_launch_without_secrets_needs_no_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state)
    files, _ = start(tmp_path / "01", "exit 3", env={"A": "1"})
    assert (await ending(files)).status == 3
    kill_leftovers(files, "attempt")


REFUSES = """#!/bin/sh
case "$*" in
*new-session*)
    echo x >> {refused}
    [ "$(wc -l < {refused})" -gt {times} ] || {{ echo 'server exited unexpectedly' >&2; exit 1; }}
esac
exec {tmux} "$@"
"""


@pytest.mark.parametrize("times", [len(PAUSES_S), 99])
async def test_a_server_that_is_just_leaving_is_asked_again(
    tmp_path: Path, private_surroundings: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    refused, program = tmp_path / "refused", tmp_path / "bin" / "tmux"
    program.parent.mkdir()
    program.write_text(REFUSES.format(refused=refused, times=times, tmux=shutil.which("tmux")))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    spec = spec_for(tmp_path / "01", "exit 3", secret_env={"SOME": "s3cret"})
    if times == 99:
        with pytest.raises(TmuxError, match="server exited"):
            launch(spec)
        assert len(refused.read_text().split()) == 1 + len(PAUSES_S)
    else:
        launch(spec)
        assert (await ending(AttemptFiles(spec.attempt_dir))).status == 3
    assert not list((private_surroundings / "state" / "harness" / "env").iterdir())
