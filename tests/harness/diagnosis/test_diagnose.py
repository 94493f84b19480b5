"""From the end of an attempt to its cause: exit record and log together."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.codec import decode, encode
from harness.diagnosis import Diagnosis, diagnose
from monitors.files import AttemptFiles
from tests.harness.runs import end as as_end


def of(folder: Path, log: str, stop_reason: str | None = None, **ended: Any) -> Diagnosis:
    files = AttemptFiles(folder)
    files.pane_log.write_text(log)
    found = diagnose(files, as_end({"reason": "exited", "status": 1, **ended}), stop_reason)
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


@pytest.mark.parametrize(
    ("exception", "signature"),
    [
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "connection_lost"),
        ("HTTPError: 503 Server Error: Service Unavailable for url: x", "service_unavailable"),
        ("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: x", "rate_limit"),
        ("requests.exceptions.ReadTimeout: Pool(host='x', port=443): Read timed out.", "read_timeout"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "name_resolution"),
    ],
)  # fmt: skip
def test_known_transient_failures(tmp_path: Path, exception: str, signature: str) -> None:
    found = of(tmp_path, TRACEBACK.format(exception=exception))
    assert (found.signature, found.transient) == (signature, True)
    assert exception in [item.text for item in found.evidence]


def test_a_bug_is_not_transient_and_its_exception_is_the_evidence(tmp_path: Path) -> None:
    found = of(tmp_path, TRACEBACK.format(exception="FrobError: 'reward_model'"))
    assert (found.family, found.signature, found.transient) == ("unknown", None, False)
    assert "FrobError: 'reward_model'" in found.cause
    assert {3, 5, 7} <= {item.line for item in found.evidence}
    assert found.captures == {"type": "FrobError", "said": "FrobError: 'reward_model'"}


def test_a_retried_connection_error_before_a_bug_is_not_the_cause(tmp_path: Path) -> None:
    log = "WARNING ConnectionResetError, trying again\n" + TRACEBACK.format(exception="KeyError: 'x'")
    assert of(tmp_path, log).transient is False


@pytest.mark.parametrize(
    ("ended", "transient", "says"),
    [
        ({"reason": "lost", "status": None, "detail": "the machine was restarted"}, True, "restarted"),
        ({"reason": "signalled", "status": 143, "signal": 15}, True, "from outside"),
        ({"reason": "signalled", "status": 137, "signal": 9}, True, "SIGKILL"),
        ({"reason": "signalled", "status": 139, "signal": 11}, False, "SIGSEGV"),
        ({"status": 0, "shortfall": "it exited with no rows"}, False, "no rows"),
        ({"reason": "deadline", "status": 143, "signal": 15}, False, "time limit"),
        ({"reason": "prepare_failed", "status": None, "prepare_status": 3}, False, "status 3"),
    ],
)
def test_ends_that_the_log_cannot_tell(tmp_path: Path, ended: dict, transient: bool, says: str) -> None:
    found = of(tmp_path, "all is well\n", **ended)
    assert found.transient is transient
    assert says in found.cause


def test_last_lines_are_those_that_tell_something(tmp_path: Path) -> None:
    rows = "".join(f"step:{step} - actor/kl_loss:0.1\n" for step in range(1, 100))
    found = of(tmp_path, f"loading the model\n{rows}\ncheckpoint written\n")
    texts = [item.text for item in found.last_lines]
    assert texts == ["loading the model", "step:99 - actor/kl_loss:0.1", "checkpoint written"]


def test_no_log_at_all(tmp_path: Path) -> None:
    found = diagnose(AttemptFiles(tmp_path), as_end({"reason": "exited", "status": 2}))
    assert found.last_lines == ()
    assert "status 2" in found.cause
