"""Limits of the shell, really lowered in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.doctor import limits
from tests.harness.doctor.planning import bad, launch

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, resource, sys
from pathlib import Path
from harness.doctor import limits, machine
from tests.harness.doctor.planning import bad, examined, launch
given = launch(Path(sys.argv[1]), sys.argv[2])
name, value = sys.argv[3].split("=")
resource.setrlimit(getattr(resource, name), (int(value), resource.getrlimit(getattr(resource, name))[1]))
print(json.dumps(bad(examined(getattr(limits if name != "RLIMIT_AS" else machine, sys.argv[4]), given))))
"""


def under(folder: Path, limit: str, command: str = "python t.py", check: str = "of_shell") -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), command, limit, check],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: list[list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("limit", "family"),
    [
        ("RLIMIT_NOFILE=128", "os_limit"),
        ("RLIMIT_FSIZE=1048576", "disk_full"),
        ("RLIMIT_CPU=600", "time_limit"),
    ],
)
def test_a_low_limit(tmp_path: Path, limit: str, family: str) -> None:
    assert under(tmp_path, limit) == [["warning", family]]


def test_a_cluster_needs_more_files(tmp_path: Path) -> None:
    assert under(tmp_path, "RLIMIT_NOFILE=1024", "python -m verl.trainer.main_ppo") == [
        ["warning", "os_limit"]
    ]
    assert under(tmp_path, "RLIMIT_NOFILE=1024") == []


def test_a_limit_that_the_command_sets(tmp_path: Path) -> None:
    assert bad(limits.of_shell(launch(tmp_path, "ulimit -n 64; python t.py"))) == [("warning", "os_limit")]
    assert under(tmp_path, "RLIMIT_NOFILE=128", "ulimit -Sn 4096 && python t.py") == []


def test_address_space(tmp_path: Path) -> None:
    assert under(tmp_path, f"RLIMIT_AS={4 * 2**30}", check="memory") == [["warning", "host_oom"]]


@pytest.mark.parametrize(
    ("watches", "instances", "expected"),
    [(65536, 128, []), (1024, 128, [("warning", "os_limit")]), (65536, 8, [("warning", "os_limit")])],
)
def test_watchers(tmp_path: Path, watches: int, instances: int, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "max_user_watches").write_text(f"{watches}\n")
    (tmp_path / "max_user_instances").write_text(f"{instances}\n")
    assert bad(limits.inotify(launch(tmp_path), tmp_path)) == expected
