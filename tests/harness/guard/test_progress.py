"""Failures that come back, and what was tried in between."""

from harness.guard.progress import alike, in_vain, tried
from harness.pending_changes import Change, PendingChanges
from harness.state import AttemptState
from tests.harness.runs import end, found


def attempt(number: int, signature: str | None, step: int = 0, *remedies: str) -> AttemptState:
    changes = tuple(Change("config", "a", 1, 2, "w", remedy) for remedy in remedies)
    draft = PendingChanges(config={"a": number}, changes=changes) if remedies else PendingChanges()
    diagnosis = found({"signature": signature, "cause": f"died at step {step}"})
    return AttemptState(
        number, "s", "i", "w", 1.0, ended=end({"last_step": step}), diagnosis=diagnosis, draft=draft
    )


def test_failures_are_alike_by_their_signature_or_their_words() -> None:
    assert len(alike([attempt(1, None, 3), attempt(2, None, 17)])) == 2
    assert len(alike([attempt(1, "oom", 3), attempt(2, None, 3)])) == 1
    attempts = [attempt(1, "oom"), attempt(2, "port"), attempt(3, "oom")]
    assert [each.number for each in alike(attempts)] == [1, 3]
    assert in_vain(attempts) == 1 and in_vain(attempts[:2]) == 0


def test_progress_starts_the_count_anew() -> None:
    attempts = [attempt(number, "oom", step) for number, step in enumerate((3, 3, 2, 9, 9), start=1)]
    counts = [in_vain(attempts[:upto]) for upto in range(1, 6)]
    assert counts == [0, 1, 2, 0, 1]


def test_what_was_tried_is_what_followed_the_same_failure() -> None:
    attempts = [attempt(1, "oom"), attempt(2, "port", 0, "lower"), attempt(3, "oom", 0, "free_port")]
    assert tried(attempts) == ("lower",)
    assert tried([*attempts, attempt(4, "oom")]) == ("lower", "wait_and_retry")
    assert tried(attempts[:2]) == ()
