"""Whole logs: any bytes, in bounded pieces; real failures, alone and hidden among ordinary lines."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.diagnosis.reading import read
from harness.diagnosis.types import Fault
from monitors.logs import LogReader
from tests.harness.diagnosis.reading.reading_text import log_of

PIECES = (
    b"Traceback (most recent call last):", b'  File "a.py", line 3, in f', b"KeyError: 'x'", b"    x()",
    b"\n", b"\n", b"\r", b"(W pid=3) ", b"[rank1]: ", b"ERROR 11-21 06:12:13 [a.py:3] ", b"\x1b[36m",
    b"\xff\xfe", b"\x00", b"  | ", b"  +-+---------------- 1 ----------------",
    b"  + Exception Group Traceback (most recent call last):",
    b"    +------------------------------------", b'"""',
    b"During handling of the above exception, another exception occurred:",
    b"ray.exceptions.RayTaskError(KeyError): ray::f() (pid=1)",
    b"\xe2\x95\xad\xe2\x94\x80 Traceback (most recent call last)", b"\xe2\x94\x82 ",
    b'{"message": {"message": 3}}', b'{"log": "KeyError: 3", "stream": "stderr"}',
    b'{"level": "error", "msg": "m", "exc": "Traceback (most recent call last):'
    b'\\n  File \\"a.py\\", line 3, in f\\nKeyError: 1"}',
    b"2026-11-26T12:00:00.123456789Z stderr F ", b"Fatal Python error: Aborted",
    b"Current thread 0x0 (most recent call first):", b"step:1 - loss:nan", b"Call stack:", b"{", b"}",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join), block_bytes=st.integers(1, 200))
def test_nothing_breaks_it_and_each_line_is_what_an_editor_shows(data: bytes, block_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(data)
        log = read(path, ["keyerror"], block_bytes)
        texts = {line.number: line.text for line in LogReader(path).read(final=True)}
    assert (log.size, log.line_count) == (len(data), len(texts))
    lines = [line for fault in log.faults for line in (*fault.lines, *fault.before, *fault.after)]
    for line in [*lines, *log.last, *(seen.line for seen in log.rows)]:
        assert texts[line.number] == line.text
    for fault in log.faults:
        assert len(fault.lines) == len(fault.said)
        assert all(frame.path in texts[frame.line] for frame in fault.frames)


def test_a_traceback_in_a_record_of_json_is_read_as_if_it_were_printed(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "t.py", line 8, in <module>\n    f(x)\n'
        "KeyError: 'weight'\n"
    )
    records = [
        {"level": "info", "msg": "sample: CUDA out of memory"},
        {"level": "error", "msg": "training loop failed", "rank": 1, "exc_info": trace},
        {"level": "info", "msg": "bye"},
    ]
    text = "\n".join(map(json.dumps, records))
    quoted, fault = log_of(tmp_path, text, ["out of memory"]).faults
    assert (quoted.level, quoted.said) == ("info", ("sample: CUDA out of memory",))
    assert (fault.type, fault.said, fault.source) == ("KeyError", ("KeyError: 'weight'",), "rank 1")
    assert fault.uncaught and not fault.handled
    assert fault.lines[0].text == text.split("\n")[1]
    assert [(frame.line, frame.function, frame.code) for frame in fault.frames] == [(2, "<module>", "f(x)")]
    records[1] |= {"level": "warning"}
    assert log_of(tmp_path, "\n".join(map(json.dumps, records))).faults[-1].handled


def test_lines_in_the_wrappings_of_containers_are_read_as_the_program_printed_them(tmp_path: Path) -> None:
    printed = (
        "Traceback (most recent call last):",
        '  File "t.py", line 8, in <module>',
        "    f(x)",
        "KeyError: 1",
    )
    docker = "\n".join(json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "x"}) for line in printed)
    kubernetes = "\n".join(f"2026-11-26T12:00:00.123456789Z stderr F {line}" for line in printed)
    for text in (docker, kubernetes):
        (fault,) = log_of(tmp_path, text).faults
        assert (fault.type, fault.uncaught, [frame.line for frame in fault.frames]) == ("KeyError", True, [2])


def test_an_empty_file_and_one_that_is_not_there(tmp_path: Path) -> None:
    log = log_of(tmp_path, b"")
    assert (log.faults, log.rows, log.last, log.line_count, log.size) == ((), (), (), 0, 0)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing", [])
    with pytest.raises(OSError):
        read(tmp_path, [])


def test_the_last_lines_that_say_something(tmp_path: Path) -> None:
    bar = "45%|████▌     | 9/20 [00:03<00:04,  2.7it/s]"
    text = f"INFO a\nstep:1 - loss:0.5\nstep:2 - loss:0.4\n\n{bar}\nsame\nsame\nend"
    assert [(line.number, line.text) for line in log_of(tmp_path, text).last] == [
        (1, "INFO a"),
        (3, "step:2 - loss:0.4"),
        (7, "same"),
        (8, "end"),
    ]


ENDS = {
    "rank by rank": """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "/opt/train.py", line 10, in <module>
[rank1]:   File "/opt/train.py", line 10, in <module>
[rank1]:     main()
[rank0]:     main()
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank0]: StopIteration
""",
    "a chain": """\
Traceback (most recent call last):
  File "/opt/client.py", line 833, in create_connection
    sock.connect(sa)
ConnectionRefusedError: [Errno 111] Connection refused

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/train.py", line 3, in <module>
    urlopen(url)
urllib.error.URLError: <urlopen error [Errno 111] Connection refused>
""",
    "a config": """\
Could not override 'actor.optim.learning_rate'.
To append to your config use +actor.optim.learning_rate=3e-6
Key 'learning_rate' is not in struct
    full_key: actor.optim.learning_rate
""",
    "a kill": "./run.sh: line 3: 1234 Killed                  python train.py\n",
}
NOISE = (
    "\x1b[36m(WorkerDict pid={0})\x1b[0m INFO 11-21 10:00:00 [loggers.py:118] Avg throughput: {0} tokens/s\r",
    "step:{0} - actor/loss:0.{0} - val/error_rate:0.1 - actor/lr:1e-6",
    "2026-11-21 10:00:00,123 - verl.workers - WARNING - queue {0} is slow",
    "rollout: 45%|████▌     | {0}/9000 [00:03<00:04,  2.7it/s]\r",
    'INFO:     127.0.0.1:{0} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
)


def heart(fault: Fault) -> tuple[object, ...]:
    frames = [(frame.function, frame.code) for frame in fault.frames]
    return fault.type, fault.said, frames, fault.source, fault.level, fault.chain, fault.depth, fault.uncaught


@pytest.mark.parametrize("name", ENDS)
def test_a_failure_among_ordinary_lines_is_read_as_when_alone(tmp_path: Path, name: str) -> None:
    words = ["is not in struct"]
    alone = log_of(tmp_path, ENDS[name], words).faults
    noise = [f"{NOISE[index % len(NOISE)].format(index)}\n" for index in range(6000)]
    hidden = log_of(tmp_path, "".join([*noise[:3000], ENDS[name], *noise[3000:]]), words, block_bytes=1 << 16)
    assert alone
    assert [heart(fault) for fault in hidden.faults] == [heart(fault) for fault in alone]
    assert [fault.line - 3000 for fault in hidden.faults] == [fault.line for fault in alone]
    assert all(len(fault.before) == 8 and len(fault.after) == 8 for fault in hidden.faults)
    assert len(hidden.rows) == 1200
