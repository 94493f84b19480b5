"""From the end of an attempt to its cause: exit record and log together."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.codec import decode, encode
from harness.diagnosis import Diagnosis, diagnose, diagnose_log
from monitors.files import AttemptFiles
from tests.harness.runs import end as as_end


def of(folder: Path, log: str) -> Diagnosis:
    files = AttemptFiles(folder)
    files.pane_log.write_text(log)
    found = diagnose(files, as_end({"reason": "exited", "status": 1}))
    lines = log.splitlines()
    for item in (*found.evidence, *found.last_lines):
        assert item.text in lines[item.line - 1]
    assert decode(Diagnosis, json.loads(json.dumps(encode(found)))) == found
    return found


TRACEBACK = """step:1 - actor/kl_loss:0.1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    fetch()
  File "train.py", line 9, in fetch
    raise {exception}
{exception}
"""


def test_a_bug_is_not_transient_and_its_exception_is_the_evidence(tmp_path: Path) -> None:
    found = of(tmp_path, TRACEBACK.format(exception="FrobError: 'reward_model'"))
    assert (found.family, found.signature, found.transient) == ("unknown", None, False)
    assert "FrobError: 'reward_model'" in found.cause
    assert {3, 5, 7} <= {item.line for item in found.evidence}
    said = {"type": "FrobError", "said": "FrobError: 'reward_model'"}
    assert found.captures.items() >= {**said, "place": "train.py, line 9"}.items()


def test_a_connection_error_is_the_cause_unless_it_was_got_over(tmp_path: Path) -> None:
    reset = "ConnectionResetError: [Errno 104] Connection reset by peer"
    found = of(tmp_path, TRACEBACK.format(exception=reset))
    assert (found.signature, found.transient) == ("connection_lost", True)
    assert reset in [item.text for item in found.evidence]
    log = f"WARNING {reset}, trying again\n" + TRACEBACK.format(exception="KeyError: 'x'")
    assert of(tmp_path, log).transient is False


def test_last_lines_are_those_that_tell_something(tmp_path: Path) -> None:
    rows = "".join(f"step:{step} - actor/kl_loss:0.1\n" for step in range(1, 100))
    found = of(tmp_path, f"loading the model\n{rows}\ncheckpoint written\n")
    texts = [item.text for item in found.last_lines]
    assert texts == ["loading the model", "step:99 - actor/kl_loss:0.1", "checkpoint written"]


def test_no_log_at_all(tmp_path: Path) -> None:
    found = diagnose(AttemptFiles(tmp_path), as_end({"reason": "exited", "status": 2}))
    assert found.last_lines == ()
    assert "status 2" in found.cause


def test_nan_in_rows_that_name_an_epoch_only_is_the_cause(tmp_path: Path) -> None:
    lines = [
        f"epoch {epoch}/20 | loss {'nan' if epoch > 2 else 1 / epoch} | acc 0.5" for epoch in range(1, 9)
    ]
    log = tmp_path / "train.log"
    log.write_text("\n".join([*lines, "done"]))
    found = diagnose_log(log, 0)
    assert (found.family, found.signature) == ("numerics_nan", "nan")
    assert "loss is NaN (line 3)" in found.cause


LATER = "step:{} - loss:0.4\n"
DIED = "(WorkerDict pid=7) ERROR: The actor died unexpectedly before finishing this task.\n"
CRASH = TRACEBACK.format(exception="RuntimeError: CUDA error: an illegal memory access was encountered")
DONE = "Training finished after 9 steps\n"


@pytest.mark.parametrize(
    ("log", "status", "family"),
    [
        (LATER.format(1) + DIED + LATER.format(2), 0, "nothing_failed"),
        (CRASH + "restarting the workers\n" + LATER.format(2), 0, "nothing_failed"),
        (LATER.format(1) + CRASH + LATER.format(2) + DONE, None, "nothing_failed"),
        (LATER.format(1) + "ERROR: could not upload the metrics\n", 0, "nothing_failed"),
        (LATER.format(1) + DONE, None, "nothing_failed"),
        (LATER.format(1), None, "unknown"),
        (LATER.format(1) + CRASH, 0, "cuda_runtime"),  # a pipe to `tee` returns 0 as well
        (LATER.format(1) + DONE, 1, "unknown"),
        (LATER.format(1) + "job finished with code 3\n", None, "unknown"),
        (
            'prompt: RuntimeError: CUDA error: an illegal memory access\n{"prompt": "Segmentation fault"}\n',
            0,
            "nothing_failed",
        ),
    ],
)
def test_nothing_failed_where_the_end_or_the_log_says_so_and_nothing_more_followed(
    log: str, status: int | None, family: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.log"
    file.write_text(log)
    found = diagnose_log(file, status)
    assert found.family == family, found
    assert ("Nothing in the log tells" in found.cause) == (family == "unknown" and status is None)


def test_a_success_does_not_get_over_numbers_that_are_lost(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("Epoch 1/10\nBatch 1: Invalid loss, terminating training\nexported final.keras\n")
    assert diagnose_log(log, 0).family == "numerics_nan"


def test_what_was_asked_for_tells_which_server_was_not_reached(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(NOT_REACHED.format("sklearn/datasets/_base.py"))
    assert diagnose_log(log, 1).family == "hub_offline"
    log.write_text(NOT_REACHED.format("mytracker/client.py"))
    assert diagnose_log(log, 1).family == "transient_io"


NOT_REACHED = """Traceback (most recent call last):
  File "/usr/lib/python3.11/socket.py", line 962, in getaddrinfo
    for res in _socket.getaddrinfo(host, port, family, type, proto, flags):
socket.gaierror: [Errno -2] Name or service not known

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 3, in <module>
    fetch()
  File "/venv/lib/python3.11/site-packages/{}", line 9, in fetch
    raise URLError(err)
urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>
"""


def test_errors_that_nobody_knows_are_not_called_nothing(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LATER.format(1) + "ERROR: frobnication went awry\n")
    assert "reports errors" in diagnose_log(log).cause


def test_what_is_known_by_its_kind_only_is_called_probable_and_never_sure(tmp_path: Path) -> None:
    found = of(tmp_path, TRACEBACK.format(exception="TypeError: 'NoneType' object is not subscriptable"))
    assert (found.family, found.only_nominated, found.is_sure) == ("code_error", True, False)
    assert found.cause.startswith("Probably: ") and "train.py, line 9" in found.cause
    assert not replace(found, confidence=1.0).is_sure


def test_a_crash_by_signal_gives_way_to_what_the_log_says_and_an_end_from_outside_does_not(
    tmp_path: Path,
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "[rank2]:[E602 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9321, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600074 milliseconds\n"
    )
    assert diagnose_log(log, -6).family == "collective_timeout"
    outside = diagnose_log(log, -15)
    assert outside.family == "worker_died_opaque" and outside.evidence[0].line == 1
    assert outside.is_open and not outside.is_sure
    log.write_text("step 3 loss 0.5\nwatchdog.sh: no new line in train.log for 7200 s, killing job\n")
    assert diagnose_log(log, -9).family == diagnose_log(log, 124).family == "hang_no_output"
    log.write_text(
        "step 3 loss 0.5\nslurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-05-12T18:20:31 ***\n"
    )
    assert diagnose_log(log, -15).family == "user_interrupt"


def test_an_error_far_above_the_end_is_a_hint_unless_the_command_is_known_to_have_failed(
    tmp_path: Path,
) -> None:
    log = tmp_path / "train.log"
    error = "ERROR: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB\n"
    went_on = [f"writing shard {number} of 40\n" for number in range(40)]
    log.write_text(f"starting\n{error}{''.join(went_on)}")
    hint, failed = diagnose_log(log), diagnose_log(log, 1)
    assert (hint.family, hint.only_nominated) == (failed.family, True) == ("gpu_oom", True)
    assert hint.confidence < 0.5 <= failed.confidence and not failed.only_nominated
    log.write_text(f"starting\n{error}{''.join(went_on[:2])}")
    assert not diagnose_log(log).only_nominated
