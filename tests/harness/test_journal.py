"""The journal survives torn writes, notices damage, and has one owner at a time."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import journal
from harness.journal import Journal, JournalDamagedError, JournalOwnedError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


def write(path: Path, *kinds: str) -> None:
    with Journal(path, clock=lambda: 1.5) as opened:
        for kind in kinds:
            opened.append(kind, note=f"about {kind}")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    data=st.lists(
        st.dictionaries(st.text(min_size=1).filter(lambda k: k != "kind"), JSON, max_size=3), max_size=5
    )
)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, data: list[dict]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    with Journal(path, clock=lambda: 7.0) as opened:
        for item in data:
            opened.append("event", item=item)
        in_memory = list(opened.entries)
    entries = journal.read(path)
    assert [entry.data["item"] for entry in entries] == data
    assert entries == in_memory


def test_every_cut_of_the_last_line_is_survived_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, "one", "two", "three")
    content = path.read_bytes()
    start_of_last = content.rindex(b"\n", 0, -1) + 1
    for cut in range(start_of_last + 1, len(content)):
        path.write_bytes(content[:cut])
        assert [entry.kind for entry in journal.read(path)] == ["one", "two"]
    with Journal(path, clock=lambda: 2.0) as opened:
        opened.append("four")
    assert [entry.kind for entry in journal.read(path)] == ["one", "two", "journal_repaired", "four"]


@pytest.mark.parametrize("line", [0, 1])
def test_damage_before_the_end_is_an_error_that_names_the_line(tmp_path: Path, line: int) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, "one", "two", "three")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"about", b"abuot")
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalDamagedError, match=f"journal.jsonl:{line + 1}:"):
        journal.read(path)


def test_a_removed_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, "one", "two", "three")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(JournalDamagedError):
        journal.read(path)


def test_second_owner_is_refused_and_told_who_owns_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, clock=lambda: 1.0) as opened:
        opened.append("owner", **journal.owner_data())
        assert journal.is_owned(path)
        with pytest.raises(JournalOwnedError, match=str(journal.owner_data()["pid"])):
            Journal(path, clock=lambda: 2.0)
    assert not journal.is_owned(path)


def test_who_took_over_a_moment_ago_is_waited_for_and_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import sys, pathlib, time; from harness import journal\n"
        "j = journal.Journal(pathlib.Path(sys.argv[1]), clock=lambda: 1.0); print('locked', flush=True)\n"
        "time.sleep(0.3); j.append('owner', **journal.owner_data()); sys.stdin.read()"
    )
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with Journal(path, clock=lambda: 1.0) as opened:
        opened.append("owner", pid=dead.pid, host=journal.owner_data()["host"])
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as winner:
        assert winner.stdout is not None and winner.stdout.readline() == "locked\n"
        with pytest.raises(JournalOwnedError, match=f"by process {winner.pid} "):
            Journal(path, clock=lambda: 2.0)


def test_a_look_at_the_journal_does_not_keep_its_next_owner_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, "one")
    code = (
        "import sys, fcntl, time; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH)\n"
        "print('looking', flush=True); time.sleep(0.3)"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as looking:
        assert looking.stdout is not None and looking.stdout.readline() == "looking\n"
        write(path, "two")


def test_lock_dies_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import sys, os, signal, pathlib; from harness.journal import Journal\n"
        "j = Journal(pathlib.Path(sys.argv[1]), clock=lambda: 1.0); j.append('one')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert killed.returncode == -9
    with Journal(path, clock=lambda: 2.0) as opened:
        assert [entry.kind for entry in opened.entries] == ["one"]


def test_a_full_disk_leaves_what_was_written_and_an_entry_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import sys, signal, resource, pathlib; from harness.journal import Journal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "j = Journal(pathlib.Path(sys.argv[1]), clock=lambda: 1.0); j.append('one')\n"
        "size = j.path.stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, size + 40))\n"
        "try: j.append('two', text='x' * 200)\n"
        "except OSError: print(j.path.stat().st_size == size, [e.kind for e in j.entries])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "True ['one']\n"
    write(path, "two")
    assert [entry.kind for entry in journal.read(path)] == ["one", "two"]
