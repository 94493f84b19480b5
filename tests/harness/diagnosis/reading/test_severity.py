"""Failures that no Python traceback tells, and lines that only look like failures."""

from pathlib import Path

import pytest

from harness.diagnosis.reading import severity
from tests.harness.diagnosis.reading.reading_text import faults_of, only_fault


def test_what_only_informs_is_no_failure_whatever_it_quotes(tmp_path: Path) -> None:
    line = "2026-11-27 03:38:00,163 INFO [tickets] sample: Segmentation fault (core dumped)"
    (fault,) = faults_of(tmp_path, line, ["segmentation fault"])
    assert fault.level == "info"


def test_an_error_that_the_next_line_says_is_over_is_handled(tmp_path: Path) -> None:
    error, over = "wandb: ERROR 503 Service Unavailable", "wandb: Network error resolved after 0:01:12."
    words = ["service unavailable"]
    assert not only_fault(tmp_path, error, words).handled
    assert only_fault(tmp_path, f"{error}\n{over}", words).handled


FATAL = [
    "Killed",
    "Segmentation fault (core dumped)",
    "./run.sh: line 3: 1234 Killed                  python train.py",
    "[12345.678901] Out of memory: Killed process 123 (python) total-vm:1234kB",
    "[12345.678901] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)",
    "slurmstepd: error: *** JOB 123 ON n7 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***",
    "Nov 21 10:00:00 gpu7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python",
    "python: ../csrc/a.cc:12: void f(): Assertion `x > 0' failed.",
    '*** Aborted at 1732183200 (unix time) try "date -d @1732183200" ***',
    "terminate called without an active exception",
]
ERRORS = [
    "train.py: error: unrecognized arguments: --foo",
    "srun: error: node7: task 3: Out Of Memory",
    "bash: nvcc: command not found",
    "python: can't open file '/home/u/train.py': [Errno 2] No such file or directory",
    "sh: 1: cc: not found",
    "/usr/bin/ld: cannot find -lcuda",
    "n1:12:13 [3] misc/socket.cc:484 NCCL WARN Connection closed by remote peer",
    "trainer-1 exited with code 1",
    "Could not override 'actor.lr'.",
    "2026-11-21 06:12:13,825 ERROR [judge] request failed",
]
HARMLESS = [
    "2026-11-21 06:12:17,900 INFO [trainer] 0 requests failed, error_rate=0.0",
    "2026-11-21 06:12:13,825 INFO [t] Failed requests: 0",
    "nccl_timeout: 600",
    "loaded without errors",
    "step:3 - val/error:0.2 - actor/loss:0.1",
    "{'loss': 0.2, 'eval_error': 0.1, 'epoch': 1.0}",
    "process exited with code 0",
    "  'ignore_errors': False,",
    "KILL_SIGNAL=15",
    "  45%|████▌     | 9/20 [00:03<00:04,  2.7it/s, failed=0]",
    "UserWarning: this will raise an error in the future",
]


@pytest.mark.parametrize("line", [*FATAL, *ERRORS])
def test_ends_by_the_system_are_fatal_and_errors_need_no_traceback(tmp_path: Path, line: str) -> None:
    fault = only_fault(tmp_path, f"before\n{line}\n")
    level = "fatal" if line in FATAL else "error"
    assert (fault.level, fault.line, fault.before[0].text) == (level, 2, "before")


@pytest.mark.parametrize("line", HARMLESS)
def test_lines_with_a_bad_word_that_say_nothing_bad(tmp_path: Path, line: str) -> None:
    assert faults_of(tmp_path, f"{line}\n") == ()


def test_a_word_of_a_signature_makes_a_fault_whatever_the_level(tmp_path: Path) -> None:
    line = "2026-11-21 06:12:13,825 WARNING [vllm] No available memory for the cache blocks"
    assert faults_of(tmp_path, line) == ()
    fault = only_fault(tmp_path, line, ["no available memory"])
    assert (fault.level, fault.message) == ("warning", "No available memory for the cache blocks")


@pytest.mark.parametrize(
    ("text", "handled"),
    [
        ("request failed, retrying in 2 s", True),
        ("attempt 1/3 failed", True),
        ("attempt 3/3 failed", False),
        ("attempt 2/3 failed, giving up", False),
        ("falling back to eager attention", True),
        ("Max retries exceeded with url: /x", False),
        ("could not connect", False),
    ],
)
def test_what_says_that_it_was_got_over(text: str, handled: bool) -> None:
    assert severity.is_handled(text) is handled


def test_an_abort_in_native_code_keeps_what_it_said_and_its_stack(tmp_path: Path) -> None:
    text = """\
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call.

Exception raised from check at ../c10/cuda/CUDAException.cpp:44 (most recent call first):
frame #0: c10::Error::Error() + 0x57 (0x7f in /opt/libc10.so)

Training ended
"""
    fault = only_fault(tmp_path, text)
    assert [line.number for line in fault.lines] == [1, 2, 3, 5, 6]
    assert fault.after[-1].text == "Training ended"


def test_a_dump_of_the_interpreter_gives_the_frames_of_the_thread_that_crashed(tmp_path: Path) -> None:
    text = """\
Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x00007f1 (most recent call first):
  File "/opt/torch/autograd.py", line 200 in backward
  File "/opt/train.py", line 12 in <module>
"""
    fault = only_fault(tmp_path, text)
    assert [frame.function for frame in fault.frames] == ["<module>", "backward"]


def test_lines_below_belong_to_a_message_until_another_begins(tmp_path: Path) -> None:
    text = """\
Could not override 'actor.lr'.
To append to your config use +actor.lr=1
    full_key: actor.lr
2026-11-21 06:12:13,825 INFO [trainer] model
"""
    assert len(only_fault(tmp_path, text).said) == 3
