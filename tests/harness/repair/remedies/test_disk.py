"""Room on the disk."""

from harness.repair.remedies import remedies_for
from tests.harness.repair.remedies.samples import HUGGINGFACE, PLAIN, QUICKSTART, VERL, edits, situation


def test_the_last_two_checkpoints_are_kept() -> None:
    assert edits("keep_fewer_checkpoints", PLAIN) == {"save_total_limit": 2}
    assert edits("keep_fewer_checkpoints", HUGGINGFACE) == {"save_total_limit": 2}
    assert edits("keep_fewer_checkpoints", VERL) == {"trainer.max_actor_ckpt_to_keep": 2}
    assert edits("keep_fewer_checkpoints", QUICKSTART) == {"ajet.trainer_common.max_checkpoints_to_keep": 2}


def test_one_who_keeps_as_few_is_left_alone() -> None:
    assert edits("keep_fewer_checkpoints", "save_total_limit: 1\n") == {}
    assert edits("keep_fewer_checkpoints", "save_total_limit: 2\n") == {}


def test_freeing_needs_something_of_our_own() -> None:
    names = ["free_leftovers", "free_own_checkpoints"]
    assert [each.name for each in remedies_for(names, situation())] == names
    nothing = {"leftovers": lambda: 0, "superseded_bytes": lambda: 0}
    assert remedies_for(names, situation(facts=nothing)) == []
