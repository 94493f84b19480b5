"""What stands before a message: containers, Ray, ranks, loggers, kernels, also one in another."""

import pytest

from monitors.log_prefixes import said

LINES = """
(WorkerDict pid=1210, ip=10.0.0.21)     x = f()⇒WorkerDict pid=1210, ip=10.0.0.21⇒⇒    x = f()
(raylet) text⇒raylet⇒⇒text
(VllmWorker rank=1 pid=22) ERROR 11-21 06:12:13 [a.py:5]   File⇒VllmWorker rank=1 pid=22⇒error⇒  File
ERROR 11-21 06:12:13 core.py:390] failed⇒⇒error⇒failed
[rank3]:   File x⇒rank 3⇒⇒  File x
[default0]:RuntimeError: x⇒rank 0⇒⇒RuntimeError: x
[1,0]<stderr>:ValueError: x⇒rank 0⇒⇒ValueError: x
[rank3]:[E1121 10:00:00.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog⇒rank 3⇒error⇒[Rank 3] Watchdog
(TaskRunner pid=7) [rank3]: text⇒TaskRunner pid=7, rank 3⇒⇒text
3:   File x⇒task 3⇒⇒  File x
x1000c0s6b0n0: RuntimeError: x⇒x1000c0s6b0n0⇒⇒RuntimeError: x
node-3:   File x⇒node-3⇒⇒  File x
worker-1  |     x = f()⇒worker-1⇒⇒    x = f()
[pod/trainer-0/main] text⇒trainer-0⇒⇒text
2026-11-26T12:00:00.123456789Z stderr F ERROR:root:text⇒⇒error⇒text
{"log": "[rank1]: text\\n", "stream": "stderr", "time": "2026-11-26T12:00:00Z"}⇒rank 1⇒⇒text
{"level": "error", "event": "text", "timestamp": "2026-11-26T12:00:00Z"}⇒⇒error⇒text
{"levelname": "WARNING", "name": "trainer", "rank": 3, "message": "text"}⇒rank 3⇒warning⇒text
{"text": "shown", "record": {"level": {"name": "ERROR"}, "message": "text"}}⇒⇒error⇒text
{"level": "ERROR", "message": "cut \\ud83d"}⇒⇒error⇒cut ?
worker-1  | {"severity": "CRITICAL", "message": "text"}⇒worker-1⇒fatal⇒text
2026-11-21 06:12:13,825 INFO [trainer] text⇒⇒info⇒text
2026-11-21 06:12:20,994\tERROR worker.py:2038 -- text⇒⇒error⇒text
[2026-11-21 06:12:20,994 E 123 123] (raylet) node_manager.cc:120: text⇒⇒error⇒text
[2026-11-21 06:12:13,825][trainer][ERROR] - text⇒⇒error⇒text
[2026-11-21 06:12:20,994] [ERROR] [launch.py:325:kill] ['/bin/x', '-u'] exits⇒⇒error⇒['/bin/x', '-u'] exits
2023-07-01 16:41:05 - ERROR: text⇒⇒error⇒text
2026-11-21 06:12:13,047 - verl.workers - WARNING - text⇒⇒warning⇒text
2026-11-21 10:00:00.123 | ERROR    | __main__:main:12 - text⇒⇒error⇒text
[INFO|trainer.py:2245] 2026-11-21 10:00:00,123 >> text⇒⇒info⇒text
E1121 10:00:00.123000 77 torch/api.py:826] text⇒⇒error⇒text
ERROR:root:text⇒⇒error⇒text
ERROR:    text⇒⇒error⇒text
error: no such option⇒⇒error⇒error: no such option
CRITICAL text⇒⇒fatal⇒text
[12345.678901] Out of memory⇒kernel⇒⇒Out of memory
Nov 21 10:00:00 n7 kernel: [12345.678901] Out of memory⇒kernel⇒⇒Out of memory
2026-11-21T10:00:00+00:00 n7 systemd[1]: text⇒systemd⇒⇒text
n1:12:13 [3] NCCL WARN text⇒n1 pid=12⇒⇒NCCL WARN text
ValueError: bad [repeated 7x across cluster]⇒⇒⇒ValueError: bad
"""
"""Each line ⇒ its source ⇒ its level ⇒ what it says."""
PLAIN = [
    "Error in atexit._run_exitfuncs:",
    "Unhandled error (suppress with X): text",
    "Critical batch size reached",
    "slurmstepd: error: *** JOB 1 CANCELLED ***",
    "KeyError: 'x'",
    "    12: code",
    "step:1 - actor/loss:0.2",
    "",
]


@pytest.mark.parametrize("row", LINES.strip("\n").split("\n"))
def test_prefixes_are_parted_from_the_message(row: str) -> None:
    line, *told = row.split("⇒")
    found = said(line)
    assert [found.source, found.level, found.text] == told


@pytest.mark.parametrize("line", PLAIN)
def test_what_is_no_prefix_stays(line: str) -> None:
    assert said(line).text == line
    assert not said(line).source


def test_the_head_tells_loggers_apart_and_not_times() -> None:
    first = said("ERROR 11-21 06:12:13 [core.py:390] a")
    assert first.is_record
    assert first.head == said("ERROR 11-21 06:12:14 [core.py:390] b").head
    assert first.head != said("ERROR 11-21 06:12:13 [core.py:391] a").head
