"""GPUs as their driver reports them: a module in the place of `pynvml` stands in for it."""

import threading

import pytest

from harness.machine.gpus import GpuError, read_gpus, usable
from monitors import resources
from tests.nvml import MIB, stand_in

THREE = (("GPU-aaa", 4), ("GPU-bbb", 4), ("GPU-bcc", 4))


def test_gpus_and_who_is_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, *THREE, ("GPU-ddd", 40000), users={77: "GPU-bbb"})
    found = usable({})
    assert [device.word for device in found] == ["0", "1", "2", "3"]
    assert [device.word for device in found if device.users] == ["1", "3"]
    assert "77" in found[1].users and "40000" in found[3].users
    assert read_gpus().driver == "550.54"
    assert resources.gpus()[3] == {
        "index": 3,
        "name": "NVIDIA H100 80GB HBM3",
        "busy_percent": 37.0,
        "memory_used_bytes": 40000 * MIB,
        "memory_total_bytes": 81559 * MIB,
    }


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
    monkeypatch: pytest.MonkeyPatch, given: str, expected: object
) -> None:
    stand_in(monkeypatch, *THREE)
    found = usable({"CUDA_VISIBLE_DEVICES": given})
    assert [(device.word, device.uuid) for device in found] == expected


def test_memory_that_is_not_reported_is_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, ("GPU-aaa", None), ("GPU-bbb", "GPU requires reset"))
    assert [device.users for device in usable({})] == ["", "its state cannot be read: GPU requires reset"]


def test_no_driver_is_no_gpu_and_silence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    assert usable({}) == ()
    fake = stand_in(monkeypatch, *THREE, fails="Driver/library version mismatch")
    with pytest.raises(GpuError, match="version mismatch"):
        read_gpus()
    assert resources.gpus() == ()
    never = threading.Event()
    monkeypatch.setattr(fake, "nvmlInit", never.wait, raising=False)
    with pytest.raises(GpuError, match="not answered"):
        read_gpus(limit_s=0.05)
    never.set()
