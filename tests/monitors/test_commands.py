"""`python -m monitors.run` and `python -m monitors.wait`, as other agents use them."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from monitors.launch import find_attempt
from monitors.tmux import Session
from tests.monitors.tmux_world import shell_is_back, until


async def command(module: str, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"monitors.{module}", *arguments),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_run_then_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK", "from the caller's environment")
    go = tmp_path / "go"
    text = f'echo "$PWD: $MARK"; until [ -e {go} ]; do sleep 0.1; done; echo bye; exit 5'
    assert (await command("run", "ajet_r", "--cwd", str(tmp_path), "--", text))[0] == 0
    assert await command("wait", "ajet_r", "0.5") == (0, "ajet_r: still running\n")
    assert (await command("run", "ajet_r", "--", "true"))[0] == 2
    waiting = asyncio.ensure_future(command("wait", "ajet_r", "30"))
    go.touch()
    status, output = await waiting
    assert status == 1
    assert output.splitlines() == [
        "ajet_r: the command ended, exit status 5",
        f"{tmp_path}: from the caller's environment",
        "bye",
    ]
    session = Session.find("ajet_r")
    assert session is not None
    session.kill()
    status, output = await command("wait", "ajet_r", "30")
    assert (status, output.splitlines()[0]) == (1, "ajet_r: the command ended, exit status 5")


async def test_run_again_in_the_same_session_and_max_time(tmp_path: Path) -> None:
    await command("run", "ajet_m", "--", "exit 1")
    await command("wait", "ajet_m", "30")
    status, output = await command("run", "ajet_m", "--max-time", "3s", "--", "sleep", "60")
    assert status == 0 and "/02/pane.log" in output
    status, output = await command("wait", "ajet_m", "30")
    assert (status, output.splitlines()[0]) == (
        1,
        "ajet_m: the command was ended at its deadline, exit status 143",
    )


@pytest.mark.parametrize(
    "line",
    [
        "bash train.sh; touch done",
        "for i in 1 2 3 4 5 6; do bash -c 'sleep 0.3'; for j in $(seq 20000); do :; done; done; touch done",
        "{ bash train.sh; touch done; } | cat",
    ],
)
async def test_foreign_command_gives_no_false_exit(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.sh").write_text("sleep 0.6\nsleep 0.6\n")
    session = Session.create("foreign", tmp_path)
    session.type_line(line)
    status, output = await command("wait", "foreign", "30")
    assert (tmp_path / "done").exists(), "a false exit"
    assert (status, output.splitlines()[0]) == (1, "foreign: the command ended, exit status unknown")


async def test_foreign_command_still_running(tmp_path: Path) -> None:
    session = Session.create("foreign", tmp_path)
    session.type_line("bash -c 'sleep 30; true'")
    assert await command("wait", "foreign", "3") == (0, "foreign: still running\n")


async def test_something_typed_after_a_supervised_command(tmp_path: Path) -> None:
    await command("run", "ajet_s", "--cwd", str(tmp_path), "--", "true")
    await command("wait", "ajet_s", "30")
    session = Session.find("ajet_s")
    assert session is not None
    files = find_attempt(session.name, session.socket)
    assert files is not None
    await shell_is_back(files)
    session.type_line("sleep 30")
    assert (await command("wait", "ajet_s", "3"))[0] == 0


async def test_session_that_is_not_there_or_goes(tmp_path: Path) -> None:
    status, output = await command("wait", "nobody", "5")
    assert (status, "there is no tmux session of this name" in output) == (1, True)
    session = Session.create("going", tmp_path)
    session.type_line("touch here; sleep 60")
    await until(lambda: (tmp_path / "here").exists(), "the command")
    began = time.monotonic()
    waiting = asyncio.ensure_future(command("wait", "going", "30"))
    session.kill()
    status, output = await waiting  # killed before the command looked first, or after
    assert status == 1 and ("the session is gone" in output or "there is no tmux session" in output)
    assert time.monotonic() - began < 20


async def test_supervised_session_lost_while_running(tmp_path: Path) -> None:
    await command("run", "ajet_g", "--cwd", str(tmp_path), "--", "touch here; sleep 3; exit 4")
    await until(lambda: (tmp_path / "here").exists(), "the command")
    session = Session.find("ajet_g")
    assert session is not None
    session.kill()
    status, output = await command("wait", "ajet_g", "30")
    assert (status, output.splitlines()[0]) == (1, "ajet_g: the tmux session is gone; the command still runs")


async def test_training_survives_the_death_of_its_waiter(tmp_path: Path) -> None:
    await command("run", "ajet_w", "--cwd", str(tmp_path), "--", "touch here; sleep 2; exit 6")
    await until(lambda: (tmp_path / "here").exists(), "the command")
    waiter = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitors.wait", "ajet_w", "60"), cwd=Path(__file__).parents[2]
    )
    waiter.kill()
    await waiter.wait()
    status, output = await command("wait", "ajet_w", "30")
    assert (status, output.splitlines()[0]) == (1, "ajet_w: the command ended, exit status 6")
