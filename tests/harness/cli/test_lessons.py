"""`harness lessons`: what a person is told where something cannot be read."""

from harness.lessons import knowledge, proposals
from tests.harness.cli.typed import typed
from tests.harness.runs import found

UNKNOWN = found({"captures": {"type": "FooError", "said": "FooError: the shard is cut off"}})


def test_none_yet_and_a_file_that_cannot_be_read() -> None:
    status, out, _ = typed("lessons")
    assert status == 0 and "no lessons yet" in out
    knowledge.path().mkdir(parents=True)
    status, _, err = typed("lessons")
    assert status == 2 and "lessons.jsonl" in err


def test_a_proposal_that_was_damaged_by_hand_is_named() -> None:
    file = proposals.propose(UNKNOWN, ["a change"], "attempt 1 of x")
    assert file is not None
    file.write_text("- id: [a\n")
    status, _, err = typed("lessons", "accept", file.stem, "--family", "dataset_error")
    assert status == 2 and file.name in err and file.exists()
