"""What the machine has to share out: cores and memory under a container's limits, free ports, idle GPUs."""

import os
import socket
from pathlib import Path

import psutil
import pytest

from harness.sweep.hosts import HostError, NeverFitsError, devices, machine
from harness.sweep.hosts.devices import Device, visible_devices
from harness.sweep.types import Needs
from tests.harness.sweep.gpu_machine import smi

ALLOWED = float(len(os.sched_getaffinity(0)))


def files(folder: Path, **content: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_cores_under_a_quota_of_version_2(tmp_path: Path) -> None:
    files(tmp_path / "fs", cpu__max="max 100000")
    files(tmp_path / "fs/user", cpu__max="50000 100000")
    files(tmp_path / "fs/user/job", cpu__max="max 100000")
    (tmp_path / "own").write_text("0::/user/job\n")
    assert machine.cores(tmp_path / "fs", tmp_path / "own") == 0.5, "a parent's quota holds too"
    (tmp_path / "own").write_text("0::/\n")
    assert machine.cores(tmp_path / "fs", tmp_path / "own") == ALLOWED


def test_cores_under_a_quota_of_version_1(tmp_path: Path) -> None:
    files(tmp_path / "fs/cpu,cpuacct", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    files(tmp_path / "fs/cpu,cpuacct/docker", cpu__cfs_quota_us="25000", cpu__cfs_period_us="100000")
    (tmp_path / "own").write_text("4:memory:/docker\n1:cpu,cpuacct:/docker\n0::/\n")
    assert machine.cores(tmp_path / "fs", tmp_path / "own") == 0.25


def test_memory_under_a_limit(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    (tmp_path / "own").write_text("4:memory:/docker\n0::/job\n")
    assert machine.memory_total(tmp_path / "fs", tmp_path / "own") == total
    files(tmp_path / "fs/memory", memory__limit_in_bytes=str(2**63 - 4096))
    assert machine.memory_total(tmp_path / "fs", tmp_path / "own") == total, "that number means no limit"
    files(tmp_path / "fs/job", memory__max=str(2**20))
    assert machine.memory_total(tmp_path / "fs", tmp_path / "own") == 2**20


def test_equal_shares_only_of_what_is_not_said() -> None:
    here = machine.Machine(8.0, 1000)
    shared = machine.equal_share(Needs(sharers=3), here)
    assert shared == Needs(cpus=8 / 3, memory_bytes=333, sharers=3)
    given = Needs(cpus=1.0, memory_bytes=5, sharers=3)
    assert machine.equal_share(given, here) == given


# --- ports --------------------------------------------------------------------------------------------


def test_ports_are_none_that_the_kernel_gives_to_connections(tmp_path: Path) -> None:
    limits = tmp_path / "range"
    limits.write_text("25000\t60999\n")
    assert machine.usable_ports(limits) == list(range(20_000, 25_000))
    limits.write_text("1024\t65535\n")
    assert machine.usable_ports(limits) == list(range(20_000, 30_000)), "better than none"
    assert machine.usable_ports(tmp_path / "none") == list(range(20_000, 30_000))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_bound_is_not_chosen(host: str) -> None:
    with socket.socket() as theirs:
        theirs.bind((host, 0))
        port = theirs.getsockname()[1]
        assert machine.choose_ports(["P"], "a", (), [port]) is None
    assert machine.choose_ports(["P"], "a", (), [port]) == {"P": port}


def test_ports_are_spread_and_one_for_each_name() -> None:
    usable = machine.usable_ports()
    first = machine.choose_ports(["A", "B"], "lease-1", (), usable)
    assert first is not None and first["A"] != first["B"]
    second = machine.choose_ports(["A", "B"], "lease-2", (), usable)
    assert second is not None and not set(first.values()) & set(second.values())
    again = machine.choose_ports(["A"], "lease-1", {first["A"]}, usable)
    assert again is not None and again["A"] != first["A"]


# --- GPUs ---------------------------------------------------------------------------------------------

THREE = [("0", "GPU-aaa", "4"), ("1", "GPU-bbb", "4"), ("2", "GPU-bcc", "4")]


def test_gpus_and_who_is_on_them(tmp_path: Path) -> None:
    path = smi(tmp_path, [*THREE, ("3", "GPU-ddd", "40000")], [("77", "GPU-bbb"), ("[N/A]", "GPU-bcc")])
    found = visible_devices({"PATH": path})
    assert [device.word for device in found] == ["0", "1", "2", "3"]
    assert [bool(device.users) for device in found] == [False, True, True, True]
    assert "77" in found[1].users and "40000" in found[3].users


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2,0", [("2", "GPU-bcc"), ("0", "GPU-aaa")]),
        ("", []),
        ("-1", []),
        ("1,9,0", [("1", "GPU-bbb")]),  # CUDA sees none after the first that is not there
        ("GPU-bbb, GPU-aaa", [("GPU-bbb", "GPU-bbb"), ("GPU-aaa", "GPU-aaa")]),
        ("GPU-a", [("GPU-a", "GPU-aaa")]),
        ("GPU-b", []),  # two begin so
        ("MIG-1/2,MIG-3", [("MIG-1/2", "MIG-1/2"), ("MIG-3", "MIG-3")]),
        ("0,GPU-aaa", [("0", "GPU-aaa")]),
    ],
)
def test_what_cuda_visible_devices_leaves(
    tmp_path: Path, given: str, expected: list[tuple[str, str]]
) -> None:
    found = visible_devices({"PATH": smi(tmp_path, THREE), "CUDA_VISIBLE_DEVICES": given})
    assert [(device.word, device.uuid) for device in found] == expected


def test_memory_that_nobody_tells_is_no_use_and_a_broken_gpu_is_left_alone(tmp_path: Path) -> None:
    path = smi(tmp_path, [("0", "GPU-aaa", "[N/A]"), ("1", "GPU-bbb", "[GPU requires reset]")])
    assert visible_devices({"PATH": path}) == (
        Device("0", "GPU-aaa"),
        Device("1", "GPU-bbb", "nvidia-smi says [GPU requires reset]"),
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo NVIDIA-SMI has failed because it could not talk to the driver; exit 9", "could not talk"),
        ("echo 0, something else", "not understood"),
        ('case "$1" in --query-gpu*) echo 0, GPU-a, 1, 2;; *) exit 3;; esac', "status 3"),
        ('case "$1" in --query-gpu*) echo 0, GPU-a, 1, 2;; *) echo 77;; esac', "not understood"),
        ("exec /bin/sleep 60", "not answered"),
    ],
)
def test_no_answer_is_never_an_idle_gpu(
    tmp_path: Path, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "LIMIT_S", 0.2)
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(HostError, match=words) as caught:
        visible_devices({"PATH": str(tmp_path)})
    assert not isinstance(caught.value, NeverFitsError)


def test_no_nvidia_smi_is_no_gpu(tmp_path: Path) -> None:
    with pytest.raises(NeverFitsError, match="gpus: 0"):
        visible_devices({"PATH": str(tmp_path)})
