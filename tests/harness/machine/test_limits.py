"""Cores and memory under a container's limits; ports."""

import os
import socket
from pathlib import Path

import psutil
import pytest

from harness.machine import disk, memory, ports

ALLOWED = float(len(os.sched_getaffinity(0)))


def files(folder: Path, **content: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_cores_under_a_quota(tmp_path: Path) -> None:
    files(tmp_path / "fs", cpu__max="max 100000")
    files(tmp_path / "fs/user", cpu__max="50000 100000")
    files(tmp_path / "fs/user/job", cpu__max="max 100000")
    (tmp_path / "own").write_text("0::/user/job\n")
    assert memory.cores(tmp_path / "fs", tmp_path / "own") == 0.5, "a parent's quota holds too"
    (tmp_path / "own").write_text("0::/\n")
    assert memory.cores(tmp_path / "fs", tmp_path / "own") == ALLOWED
    files(tmp_path / "fs/cpu,cpuacct", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    files(tmp_path / "fs/cpu,cpuacct/docker", cpu__cfs_quota_us="25000", cpu__cfs_period_us="100000")
    (tmp_path / "own").write_text("4:memory:/docker\n1:cpu,cpuacct:/docker\n0::/\n")
    assert memory.cores(tmp_path / "fs", tmp_path / "own") == 0.25, "version 1"


def test_memory_under_a_limit(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    fs, own = tmp_path / "fs", tmp_path / "own"
    own.write_text("4:memory:/docker\n0::/job\n")
    assert memory.memory_total(fs, own) == total
    files(fs / "memory", memory__limit_in_bytes=str(2**63 - 4096))
    assert memory.memory_total(fs, own) == total, "that number means no limit"
    files(fs / "job", memory__max=str(300 * 2**20), memory__current=str(200 * 2**20))
    files(fs / "job", memory__stat=f"anon 1\ninactive_file {50 * 2**20}")
    assert memory.memory_total(fs, own) == 300 * 2**20
    assert memory.memory_available(fs, own) == 150 * 2**20, "file cache is given up before anything is killed"


def test_ports_are_none_that_the_kernel_gives_to_connections(tmp_path: Path) -> None:
    limits = tmp_path / "range"
    limits.write_text("25000\t60999\n")
    assert ports.usable_ports(limits) == list(range(20_000, 25_000))
    limits.write_text("1024\t65535\n")
    assert ports.usable_ports(limits) == list(range(20_000, 30_000)), "better than none"
    assert ports.usable_ports(tmp_path / "none") == list(range(20_000, 30_000))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_holds_is_taken(host: str) -> None:
    with socket.socket() as theirs:
        theirs.bind((host, 0))
        port = theirs.getsockname()[1]
        assert not ports.is_free(port)
        theirs.listen()
        assert ports.is_taken(port) and str(os.getpid()) in ports.holder(port)
    assert not ports.is_taken(port)
    assert not ports.is_taken(ports.a_free_port())


def test_room_is_that_of_the_nearest_folder(tmp_path: Path) -> None:
    assert disk.existing(tmp_path / "a/b") == tmp_path
    assert disk.free_bytes(tmp_path / "a") > 0
    assert disk.in_words(1536 << 20) == "1.5 GiB"
