"""Samples of a process tree and the disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from monitors.resources import ResourceSampler, append_sample


def test_sample_counts_children_and_cpu(tmp_path: Path) -> None:
    times = iter([100.0, 110.0])
    sampler = ResourceSampler(os.getpid(), tmp_path, clock=lambda: next(times))
    before = sampler.sample()
    burn = "import sys, time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        after = sampler.sample()
        child.stdin.close()
    assert before.cpu_percent == 0.0
    assert 4.0 <= after.cpu_percent <= 100.0  # at least half a second of CPU in ten seconds
    assert after.rss_bytes > before.rss_bytes
    assert abs(after.disk_free_bytes - shutil.disk_usage(tmp_path).free) < 1 << 30
    append_sample(tmp_path / "resources.jsonl", before)
    append_sample(tmp_path / "resources.jsonl", after)
    records = [json.loads(line) for line in (tmp_path / "resources.jsonl").read_text().splitlines()]
    assert [record["time"] for record in records] == [100.0, 110.0]
    assert set(records[0]) == {
        "time",
        "cpu_percent",
        "rss_bytes",
        "mem_available_bytes",
        "disk_free_bytes",
        "gpus",
    }


def test_process_that_is_gone_uses_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert ResourceSampler(child.pid, tmp_path).sample().rss_bytes == 0
