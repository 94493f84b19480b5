"""The supervisor against real processes in a real tmux: endings known, logs whole, training unharmed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from monitors.files import AttemptFiles, is_alive
from monitors.launch import SUPERVISOR, kill_leftovers, launch, stop, write_script
from monitors.processes import members_of_attempt, process_table, read_process, uptime
from monitors.tmux import Session
from monitors.wait import Waiter, WakeReason
from tests.monitors.tmux_world import ending, log_shows, python, shell_is_back, spec_for, start, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "01"


def tmux(*arguments: str) -> None:
    subprocess.run(["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], *arguments], check=True)


@pytest.mark.parametrize(
    ("command", "reason", "status", "signum"),
    [
        ("true", "exited", 0, None),
        ("exit 7", "exited", 7, None),
        ("kill -KILL $$", "signalled", 137, 9),
        ("no-such-command-at-all", "exited", 127, None),
        ("echo one\necho two\nexit 5", "exited", 5, None),
    ],
)
async def test_exit_status_is_known(
    folder: Path, command: str, reason: str, status: int, signum: int | None
) -> None:
    files, session = start(folder, command)
    end = await ending(files, session)
    assert (end.reason, end.status, end.signal) == (reason, status, signum)
    assert end.leftovers == ()
    assert files.state() == "ended"


async def test_every_byte_of_a_large_output_is_in_the_log(folder: Path) -> None:
    files, session = start(folder, "seq 200000; exit 3")
    end = await ending(files, session)
    assert end.status == 3
    assert files.pane_log.read_bytes() == b"".join(b"%d\r\n" % n for n in range(1, 200_001))


async def test_traceback_that_scrolled_away_is_in_the_log(folder: Path) -> None:
    code = "import traceback\ntry:\n 1/0\nexcept ZeroDivisionError:\n traceback.print_exc()\n"
    code += "for n in range(9000): print(n)"
    files, session = start(folder, python(code))
    await ending(files, session)
    assert "ZeroDivisionError: division by zero" in files.pane_log.read_text()


async def test_deadline_kills_what_left_its_process_group(folder: Path) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.2; done"
    command = f'setsid bash -c "{stubborn}" & (setsid nohup bash -c "{stubborn}" &); echo up; {stubborn}'
    files, _ = start(folder, command, deadline_uptime=uptime() + 1.5, grace_s=0.3)
    end = await ending(files)
    assert (end.reason, end.status) == ("deadline", 137)
    await until(lambda: not members_of_attempt(end.attempt_id), "the end of everything that carries the id")
    assert "up" in files.pane_log.read_text()


async def test_stop_lets_the_training_say_goodbye(folder: Path) -> None:
    files, _ = start(folder, "trap 'echo saved; exit 9' TERM; echo ready; while :; do sleep 0.1; done")
    await log_shows(files, "ready")
    stop(files)
    end = await ending(files)
    assert (end.reason, end.status) == ("stopped", 9)
    assert "saved" in files.pane_log.read_text()


async def test_leftovers_are_ended_and_named(folder: Path) -> None:
    files, _ = start(folder, "setsid sleep 1000 & echo $! > left; sleep 0.3; exit 2")
    end = await ending(files)
    assert (end.reason, end.status) == ("exited", 2)
    assert end.leftovers == (int((folder.parent / "left").read_text()),)
    await until(lambda: not members_of_attempt(end.attempt_id), "the end of everything that carries the id")


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_tmux_server_that_a_watcher_started_outlives_it(
    folder: Path, private_surroundings: Path, is_killed: bool
) -> None:
    socket = f"{os.environ['AJET_TMUX_SOCKET']}-other"
    bare = f"env -i PATH={os.environ['PATH']} TMUX_TMPDIR={os.environ.get('TMUX_TMPDIR', '/tmp')}"
    command = f"{bare} tmux -L {socket} new-session -d -s mine sleep 600; setsid sleep 601 & echo up"
    try:
        files, _ = start(folder, f"{command}; sleep {600 * is_killed}", spare_daemons=True)
        await log_shows(files, "up")
        info = files.supervisor()
        assert info is not None
        if is_killed:
            os.kill(info.pid, signal.SIGKILL)
            await until(lambda: files.state() == "lost", "the supervisor's death")
            assert kill_leftovers(files, info.attempt_id)
        else:
            await ending(files)
        await until(lambda: not members_of_attempt(info.attempt_id), "the end of all that carries its id")
        await asyncio.to_thread(tmux, "-L", socket, "has-session", "-t", "mine")
    finally:
        await asyncio.to_thread(tmux, "-L", socket, "kill-server")


async def test_phases_share_the_terminal_and_keep_their_order(folder: Path) -> None:
    files, _ = start(
        folder, "echo command; exit 4", prepare="tty; echo prepare", cleanup="echo cleanup; exit 6"
    )
    end = await ending(files)
    assert (end.prepare_status, end.status, end.cleanup_status) == (0, 4, 6)
    assert files.pane_log.read_text().split()[1:] == ["prepare", "command", "cleanup"]
    assert files.pane_log.read_text().startswith("/dev/")


async def test_failed_prepare_skips_the_command_but_not_the_cleanup(folder: Path) -> None:
    files, _ = start(folder, "echo command", prepare="exit 8", cleanup="echo cleanup")
    end = await ending(files)
    assert (end.reason, end.status, end.prepare_status, end.cleanup_status) == ("prepare_failed", None, 8, 0)
    assert files.pane_log.read_text().split() == ["cleanup"]


async def test_the_evaluation_follows_a_training_that_ended_well_and_has_a_log_of_its_own(
    folder: Path,
) -> None:
    """What the training left behind is ended before, and what it put in the log's place is not written to."""
    trap = "touch trap; ln -s $PWD/trap 01/evaluation.log; setsid sleep 600 & echo $! > pid; echo command"
    evaluate = "kill -0 $(cat pid) 2>/dev/null || echo alone; tty; exit 5"
    files, session = start(folder, trap, evaluate=evaluate, cleanup="echo cleanup")
    end = await ending(files, session)
    assert (end.reason, end.status, end.evaluate_status, end.cleanup_status) == ("exited", 0, 5, 0)
    assert files.pane_log.read_text().split() == ["command", "cleanup"]
    assert files.evaluation_log.read_text().startswith("alone\n/dev/")
    assert (folder.parent / "trap").read_text() == ""
    await shell_is_back(files)
    assert "alone" in session.capture()


@pytest.mark.parametrize(
    ("command", "deadline_s", "reason", "status"),
    [("exit 3", None, "exited", 3), ("true", 1.0, "deadline", 0)],
    ids=["only after a training that ended well", "within the time limit"],
)
async def test_the_evaluation_is_bounded(
    folder: Path, command: str, deadline_s: float | None, reason: str, status: int
) -> None:
    until_uptime = None if deadline_s is None else uptime() + deadline_s
    files, session = start(folder, command, evaluate="echo begun; sleep 600", deadline_uptime=until_uptime)
    end = await ending(files, session)
    assert (end.reason, end.status, end.evaluate_status in (None, 143)) == (reason, status, True)
    assert files.evaluation_log.exists() == (deadline_s is not None)


async def test_missing_working_directory_is_named(folder: Path) -> None:
    files, _ = start(folder, "true", cwd=folder.parent)
    assert (await ending(files)).reason == "exited"
    spec = spec_for(folder.parent / "02", "true", cwd=folder.parent / "nowhere\udce9")
    launch(spec)
    end = await ending(AttemptFiles(spec.attempt_dir))
    assert end.reason == "could_not_start"
    assert "nowhere" in (end.error or "")


async def test_missing_interpreter_is_recorded(folder: Path) -> None:
    files, _ = start(folder, "true", supervisor_python="/no/such/python")
    end = await ending(files)
    assert end.reason == "could_not_start"
    assert "/no/such/python" in (end.error or "")


async def test_training_survives_the_death_of_front_and_tmux_server(
    folder: Path, private_surroundings: Path
) -> None:
    files, session = start(
        folder, "echo up; for n in 1 2 3 4 5 6 7 8; do sleep 0.2; echo tick $n; done; exit 11"
    )
    await log_shows(files, "up")
    info = files.supervisor()
    assert info is not None and info.front_pid is not None
    os.kill(info.front_pid, signal.SIGKILL)
    await log_shows(files, "tick 2")
    await asyncio.to_thread(tmux, "kill-server")
    waiter = Waiter(files, session)
    gone = await waiter.wait(timeout=30)
    assert gone.reason == WakeReason.SESSION_GONE
    over = await waiter.wait(timeout=30)
    assert over.reason == WakeReason.EXITED and over.exit is not None and over.exit.status == 11
    assert "tick 8" in files.pane_log.read_text()


async def test_training_survives_a_pane_that_does_not_read(folder: Path) -> None:
    files, _ = start(folder, "echo up; sleep 0.5; seq 100000; echo last; exit 1")
    await log_shows(files, "up")
    info = files.supervisor()
    assert info is not None and info.front_pid is not None
    os.kill(info.front_pid, signal.SIGSTOP)
    end = await ending(files)
    os.kill(info.front_pid, signal.SIGKILL)
    assert end.status == 1
    assert files.pane_log.read_bytes().endswith(b"100000\r\nlast\r\n")


async def test_typing_the_line_twice_launches_once(folder: Path) -> None:
    files, session = start(folder, "echo run >> runs; sleep 0.5")
    line = f"bash {files.script}"
    session.type_line(line)
    launch(spec_for(folder, "echo run >> runs; sleep 0.5"))
    await ending(files)
    await shell_is_back(files)
    session.type_line(f"{line}; echo typed > typed")
    await until(lambda: (folder.parent / "typed").exists(), "the second run of the script")
    assert (folder.parent / "runs").read_text() == "run\n"


async def test_ctrl_c_in_the_pane_reaches_the_training(folder: Path) -> None:
    code = "import time\ntry:\n print('ready', flush=True)\n time.sleep(60)\n"
    code += "except KeyboardInterrupt:\n print('interrupted')\n raise SystemExit(21)"
    files, session = start(folder, python(code))
    await log_shows(files, "ready")
    await asyncio.to_thread(tmux, "send-keys", "-t", f"={session.name}:", "C-c")
    end = await ending(files)
    assert end.status == 21
    assert "interrupted" in files.pane_log.read_text()


async def test_interrupt_sent_to_the_front_reaches_the_training(folder: Path) -> None:
    files, _ = start(folder, "trap 'exit 22' INT; echo ready; while :; do sleep 0.1; done")
    await log_shows(files, "ready")
    info = files.supervisor()
    assert info is not None and info.front_pid is not None
    os.kill(info.front_pid, signal.SIGINT)
    assert (await ending(files)).status == 22


async def test_a_person_can_answer_a_question(folder: Path) -> None:
    files, session = start(folder, "read -p 'really? ' x; echo; echo answer=$x")
    await until(lambda: files.pane_log.exists() and "really" in files.pane_log.read_text(), "the question")
    session.type_line("yes")
    await ending(files)
    assert "answer=yes" in files.pane_log.read_text()


async def test_full_disk_does_not_hurt_the_training(folder: Path) -> None:
    AttemptFiles(folder).trainer.mkdir(parents=True)
    AttemptFiles(folder).pane_log.symlink_to("/dev/full")
    files, _ = start(folder, "seq 1000; exit 12")
    end = await ending(files)
    assert end.status == 12
    assert end.log_lost_bytes == sum(len(f"{n}\r\n") for n in range(1, 1001))


async def test_a_folder_that_is_moved_is_followed(folder: Path) -> None:
    files, session = start(folder, "echo up; until [ -e go ]; do sleep 0.1; done; echo down; exit 3")
    await log_shows(files, "up")
    await until(lambda: (b := files.heartbeat()) and b.state == "command", "the command's heartbeat")
    files = AttemptFiles(Path(shutil.move(folder, folder.parent / "elsewhere")))
    before = files.heartbeat()
    await until(lambda: (b := files.heartbeat()) and before and b.time > before.time, "a heartbeat there")
    assert files.state() == "running"
    (folder.parent / "go").touch()
    end = await ending(files)
    assert (end.reason, end.status) == ("exited", 3) and "down" in files.pane_log.read_text()
    await until(lambda: "exited, status 3" in "".join(session.capture()), "the end in the pane")


@pytest.mark.parametrize("taken_away", ["started", "started/supervisor.json", "heartbeat"])
async def test_what_is_removed_of_its_records_is_made_again(folder: Path, taken_away: str) -> None:
    files, _ = start(folder, "echo up; until [ -e go ]; do sleep 0.1; done")
    await until(lambda: (b := files.heartbeat()) and b.state == "command", "the command's heartbeat")
    (folder / taken_away).rename(folder.parent / "away")
    await until(lambda: (folder / taken_away).exists() and files.state() == "running", "the record")
    info = files.supervisor()
    assert info is not None and info.command_pid is not None
    (folder.parent / "go").touch()
    assert (await ending(files)).status == 0


async def test_a_folder_that_is_removed_leaves_the_training_alone(folder: Path) -> None:
    files, _ = start(folder, "echo up; until [ -e go ]; do sleep 0.1; done; touch done; exec sleep 0.1")
    await log_shows(files, "up")
    info = files.supervisor()
    assert info is not None
    said = os.open(f"/proc/{info.pid}/fd/2", os.O_RDONLY)
    shutil.rmtree(folder)
    (folder.parent / "go").touch()
    await until(lambda: (folder.parent / "done").exists(), "the training's own end")
    done = uptime()
    await until(lambda: not is_alive(info), "the end of the supervisor")
    assert uptime() - done < 5
    assert os.read(said, 10_000) == b""
    os.close(said)


async def test_what_is_typed_is_not_in_the_log(folder: Path) -> None:
    files, session = start(folder, "echo up; read x; read y; echo $x, $y")
    await log_shows(files, "up")
    session.type_line("step=999 reward=9.9")
    await asyncio.to_thread(tmux, "send-keys", "-t", f"={session.name}:", "-l", "\x1b[1;1R\n")
    await ending(files)
    assert files.pane_log.read_text().splitlines() == ["up", "step=999 reward=9.9, \x1b[1;1R"]


def supervise_here(folder: Path, command: str, *options: str) -> AttemptFiles:
    """Run a command to its end without a terminal."""
    folder.mkdir()
    called = [sys.executable, "-I", "-S", str(SUPERVISOR), "--dir", str(folder), "--attempt-id", "here"]
    subprocess.run([*called, *options, "--", command], stdout=subprocess.DEVNULL, timeout=60, check=False)
    return AttemptFiles(folder)


def test_a_log_has_a_limit_and_its_end_is_kept(folder: Path) -> None:
    files = supervise_here(folder, "seq 1000000; echo 'ValueError: the reason'", "--log-limit", "100000")
    end = files.exit()
    assert end is not None and (end.status, end.log_lost_why) == (0, "log limit")
    text = files.pane_log.read_bytes()
    assert len(text) < 100_000 + (2 << 20) and text.endswith(b"1000000\r\nValueError: the reason\r\n")
    gap = f"\r\n[{end.log_lost_bytes} bytes of the log are missing here: log limit]\r\n".encode()
    whole = sum(len(f"{number}\r\n") for number in range(1, 1_000_001)) + len("ValueError: the reason\r\n")
    assert text.count(gap) == 1 and len(text) - len(gap) + end.log_lost_bytes == whole
    beat = files.heartbeat()
    assert beat is not None and (beat.log_lost_bytes, beat.log_lost_why) == (end.log_lost_bytes, "log limit")


def test_why_bytes_of_the_log_are_lost_is_said(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        end = supervise_here(folder, "seq 100000").exit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert end is not None and end.log_lost_bytes > 0 and end.log_lost_why == "file size limit"


CLOCK_IS_SET = """#!{python} -IS
import runpy, sys, time
machine_time, begun = time.time, time.monotonic()
time.time = lambda: machine_time() + ({jump_s} if time.monotonic() - begun > {after_s} else 0.0)
sys.argv = sys.argv[3:]  # after -I and -S of the launch
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def python_whose_clock_is_set(folder: Path, jump_s: float, after_s: float = 0.4) -> str:
    """An interpreter for the supervisor, on whose machine the clock is set so long after the start."""
    program = folder.parent / "python-whose-clock-is-set"
    program.write_text(CLOCK_IS_SET.format(python=sys.executable, jump_s=jump_s, after_s=after_s))
    program.chmod(0o700)
    return str(program)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
async def test_a_clock_that_is_set_ends_nothing_and_no_time_is_negative(folder: Path, jump_s: float) -> None:
    interpreter = python_whose_clock_is_set(folder, jump_s)
    files, _ = start(folder, "sleep 1", supervisor_python=interpreter, deadline_uptime=uptime() + 60)
    end = await ending(files)
    assert (end.reason, end.status) == ("exited", 0)
    assert end.started_at is not None and end.ended_at is not None
    assert 1 <= end.ended_at - end.started_at < 30


@pytest.mark.parametrize(("jump_s", "after_s"), [(-3600.0, 0.4), (18_000.0, -1.0), (-18_000.0, -1.0)])
async def test_a_clock_that_is_set_changes_no_deadline(folder: Path, jump_s: float, after_s: float) -> None:
    """Neither one set while the supervisor runs, nor one set between the decision to launch and its start."""
    interpreter = python_whose_clock_is_set(folder, jump_s, after_s)
    deadline = uptime() + 2.5
    files, _ = start(folder, "sleep 600", supervisor_python=interpreter, deadline_uptime=deadline)
    assert (await ending(files)).reason == "deadline"
    assert 0 <= uptime() - deadline < 5


async def test_cleanup_is_bounded_and_runs_after_a_deadline(folder: Path) -> None:
    files, _ = start(folder, "sleep 60", cleanup="echo cleaned", deadline_uptime=uptime() + 0.8)
    end = await ending(files)
    assert (end.reason, end.cleanup_status) == ("deadline", 0)
    assert "cleaned" in files.pane_log.read_text()


async def test_secrets_reach_the_training_and_no_file(folder: Path, private_surroundings: Path) -> None:
    env = {"PLAIN": "it's plain", "MY_API_KEY": "s3cret-one"}
    command = 'echo "$PLAIN|${#MY_API_KEY}|${#OTHER}|$AJET_ATTEMPT_ID"'
    files, _ = start(folder, command, env=env, secret_env={"OTHER": "s3cret-two"})
    end = await ending(files)
    assert f"it's plain|10|10|{end.attempt_id}" in files.pane_log.read_text()
    written = [path for top in (folder, private_surroundings) for path in top.rglob("*") if path.is_file()]
    assert not [path for path in written if b"s3cret" in path.read_bytes()]
    assert files.script.stat().st_mode & 0o777 == 0o700


def test_secrets_of_a_launch_that_never_began_are_deleted(folder: Path, private_surroundings: Path) -> None:
    spec = spec_for(folder, "true", secret_env={"OTHER": "s3cret"})
    write_script(spec)
    (whole,) = (path for path in private_surroundings.rglob("*.sh") if "s3cret" in path.read_text())
    whole.with_name(whole.name + ".tmp").write_text("export OTHER=s3c")  # a write that was killed
    kill_leftovers(AttemptFiles(folder), spec.attempt_id)
    written = [path for top in (folder, private_surroundings) for path in top.rglob("*") if path.is_file()]
    assert not [path for path in written if b"s3c" in path.read_bytes()]


async def test_heartbeat_and_identity(folder: Path) -> None:
    files, _ = start(folder, "echo hello; sleep 30", grace_s=0.1)
    await until(lambda: (b := files.heartbeat()) and b.command_pid, "the command's heartbeat")
    beat, info = files.heartbeat(), files.supervisor()
    assert beat is not None and info is not None
    assert (beat.state, beat.pid) == ("command", info.pid)
    assert files.alive() and files.state() == "running"
    entry = read_process(info.pid)
    assert entry is not None and entry.session == info.pid
    await until(lambda: (i := files.supervisor()) and i.command_pid, "the command's pid")
    forged = json.loads(files.supervisor_file.read_text()) | {"start_ticks": info.start_ticks + 1}  # type: ignore[operator]
    files.supervisor_file.write_text(json.dumps(forged))
    assert not files.alive() and files.state() == "lost"
    assert stop(files) and entry.pid in {e.pid for e in process_table()}, (
        "a recycled pid must not be signalled"
    )
    os.kill(info.pid, signal.SIGTERM)
    await until(lambda: files.exit(), "the end")


async def test_idle_supervisor_uses_next_to_no_cpu(folder: Path) -> None:
    files, _ = start(folder, "sleep 3")
    await until(lambda: (i := files.supervisor()) and i.command_pid, "the start")
    info = files.supervisor()
    assert info is not None
    before = read_process(info.pid)
    assert (await Waiter(files).wait(timeout=2.0)).reason == WakeReason.TICK
    after = read_process(info.pid)
    assert before is not None and after is not None
    assert sum(after.activity[2:4]) - sum(before.activity[2:4]) <= 2  # clock ticks of 10 ms
    await ending(files)


def test_script_refuses_names_a_shell_cannot_carry(folder: Path) -> None:
    with pytest.raises(ValueError, match="environment variable"):
        write_script(spec_for(folder, "true", env={"A B": "x"}))


@pytest.mark.parametrize("raised", [True, False])
async def test_the_limit_of_open_files_is_raised_where_asked(folder: Path, raised: bool) -> None:
    session = Session.create("ajet_test", folder.parent)
    session.type_line("ulimit -S -n 64")
    spec = spec_for(folder, "echo soft=$(ulimit -S -n) hard=$(ulimit -H -n)", most_open_files=raised)
    launch(spec)
    files = AttemptFiles(folder)
    await ending(files, session)
    soft, hard = (part.split("=")[1] for part in files.pane_log.read_text().split())
    assert hard != "64" and soft == (hard if raised else "64")
