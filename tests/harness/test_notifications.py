"""What a person is told, where it is sent, and what it may cost: nothing."""

from pathlib import Path
from typing import Any

import pytest

from harness import notifications
from harness.attempt import Diagnosis, Remedy
from harness.errors import UserError
from harness.journal import Entry, Event
from harness.journal.events import ActionFailed, ApprovalAsked, Diagnosed, Finish, Held, Launched, Reported
from harness.notifications import MessageSender
from harness.outcome import Outcome
from harness.state import AttemptState, ExperimentState
from harness.sweep.state import SweepReported, SweepState

TOKEN = "T0PSECRETT0KEN99"
Sent = tuple[tuple[str, ...], str, str, str]


def told(folder: Path, state: Any, event: Event) -> list[Sent]:
    sent: list[Sent] = []
    MessageSender(folder, "1", ["json://x"], lambda *what: sent.append(what))(state, Entry(9, 0.0, event))  # type: ignore[arg-type]
    return sent


RUN = ExperimentState(name="lr-study", attempts=(AttemptState(2, "ajet_x", "id", "first"),))
REPAIR = Remedy("smaller_batch", "config", "a: 8 → 4", "too large")


@pytest.mark.parametrize(
    ("event", "title", "words", "kind"),
    [
        (
            ApprovalAsked("stop", {"why": "flat"}),
            "lr-study waits for your answer",
            "harness approve",
            "warning",
        ),
        (
            Diagnosed(Diagnosis("oom", None, "no memory")),
            "lr-study: attempt 2 failed",
            "no memory",
            "failure",
        ),
        (
            Diagnosed(Diagnosis("oom", None, "no memory", repairs=(REPAIR,))),
            "lr-study: attempt 2 failed",
            "A repair may follow",
            "failure",
        ),
        (Held("/disk: full; make room there"), "lr-study is held", "make room there", "warning"),
        (ActionFailed("report", "disk full"), "lr-study cannot go on", "harness resume", "failure"),
        (Finish(Outcome.TIMED_OUT, "the time was up"), "lr-study: timed out", "the time was up", "failure"),
    ],
)
def test_what_is_told(tmp_path: Path, event: Event, title: str, words: str, kind: str) -> None:
    ((addresses, said, body, how),) = told(tmp_path, RUN, event)
    assert (addresses, said, how) == (("json://x",), title, kind)
    assert words in body and "Host: " in body


def test_the_end_comes_with_the_headline_of_a_run_and_of_a_sweep(tmp_path: Path) -> None:
    end = Finish(Outcome.SUCCEEDED, "3 of 3")
    headline = ("val/accuracy 0.91, was 0.22",)
    for state in (
        ExperimentState(name="a", reported=Reported(headline)),
        SweepState(name="a", reported=SweepReported(headline)),
    ):
        ((_, title, body, kind),) = told(tmp_path, state, end)
        assert (title, kind) == ("a: succeeded", "success")
        assert headline[0] in body and str(tmp_path) in body


def test_nothing_else_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, RUN, Launched(1.0)) == []


def test_no_secret_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "plain-words-1")
    secrets = "hf_abcdefghijklmnopqrstuvwx, plain-words-1, json://x"
    ((_, title, body, _),) = told(tmp_path, RUN, ActionFailed("report", secrets))
    assert "[redacted], [redacted], [redacted]" in body
    assert not any(secret in title + body for secret in secrets.split(", "))


def test_the_diff_of_a_question_is_told_whole_or_said_to_be_cut(tmp_path: Path) -> None:
    added = '+token = "abcdefgh"; os.system("steal")'
    asks = ApprovalAsked("patch_code", {"why": "a typo"}, f"--- before/t.py\n+++ after/t.py\n{added}")
    ((_, _, body, _),) = told(tmp_path, RUN, asks)
    assert added in body and "the model's words: a typo" in body
    ((_, _, body, _),) = told(tmp_path, RUN, ApprovalAsked("patch_code", {"why": "w"}, "+x\n" * 2000))
    assert body.index("harness approve") < body.index("+x") and "cut here: `harness show`" in body


def test_a_message_that_cannot_be_made_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*what: object) -> None:
        raise OSError(f"no process for {TOKEN}")

    MessageSender(tmp_path, "1", ["json://x"], broken)(RUN, Entry(1, 0.0, ActionFailed("report", "x")))
    assert "OSError" in caplog.text and TOKEN not in caplog.text


@pytest.mark.parametrize("address", [f"jsn://host/{TOKEN}", TOKEN, "", f"slack://{TOKEN}"])
def test_what_is_no_address_is_refused_without_its_token(address: str) -> None:
    with pytest.raises(UserError, match="apprise") as refused:
        notifications.check([address])
    assert TOKEN not in str(refused.value)


def test_addresses_are_kept_for_a_harness_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    notifications.keep("7f3a", [f"json://x/{TOKEN}"])
    assert notifications.kept("7f3a") == (f"json://x/{TOKEN}",)
    (file,) = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert file.stat().st_mode & 0o077 == 0
    MessageSender(tmp_path, "7f3a", [], lambda *_: None)(RUN, Entry(1, 0.0, Finish(Outcome.SUCCEEDED, "")))
    assert notifications.kept("7f3a") == ()
    for nowhere in ("/dev/null", "/proc/state"):
        monkeypatch.setenv("XDG_STATE_HOME", nowhere)
        notifications.keep("7f3a", [f"json://x/{TOKEN}"])
        assert notifications.kept("7f3a") == () and "no notification" in caplog.text
