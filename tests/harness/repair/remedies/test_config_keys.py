"""A misspelt key is put right where it only concerns how the training runs."""

import pytest

from harness.config.keys import nearest_own_key
from tests.harness.repair.remedies.samples import remedy, situation

AJET = "ajet:\n  rollout:\n    max_num_sqs: 8\n  trainer_common: {save_frq: 5, sed: 1}\n"


def test_of_the_bundled_trainer_by_the_keys_it_knows() -> None:
    found = remedy(
        "correct_key", situation(AJET, captures={"key": "max_num_sqs"}, facts={"known_key": nearest_own_key})
    )
    assert found is not None
    assert found.edits == {"ajet.rollout.max_num_seqs": 8} and found.remove == ("ajet.rollout.max_num_sqs",)


def test_what_is_studied_is_left_to_a_person() -> None:
    for key in ("ajet.trainer_common.sed", "sed"):
        now = situation(AJET, captures={"key": key}, facts={"known_key": nearest_own_key})
        assert remedy("correct_key", now) is None


def test_of_another_trainer_by_what_the_log_says() -> None:
    config = "train: {num_wokers: 3, lr: 0.1}\n"
    for meant in ("num_workers", "'num_workers'", "no such key. Did you mean `train.num_workers`?"):
        told = {"key": "num_wokers", "meant": meant}
        found = remedy("correct_key", situation(config, captures=told))
        assert found is not None
        assert (found.edits, found.remove) == ({"train.num_workers": 3}, ("train.num_wokers",))


def test_a_key_that_the_log_misses_may_stand_there_misspelt() -> None:
    config = "train: {num_wokers: 3, lr: 0.1}\n"
    for captures in ({"wanted": "'num_workers'"}, {"key": "train.num_workers"}):
        found = remedy("correct_key", situation(config, captures=captures))
        assert found is not None
        assert (found.edits, found.remove) == ({"train.num_workers": 3}, ("train.num_wokers",))


@pytest.mark.parametrize(
    ("config", "captures"),
    [
        ("a: {num_wokers: 3}\nb: {num_wokers: 3}\n", {"key": "num_wokers", "meant": "num_workers"}),
        ("a: {num_wokers: 3, num_workers: 1}\n", {"key": "num_wokers", "meant": "num_workers"}),
        ("a: {num_wokers: 3}\n", {"key": "num_wokers", "meant": "steps"}),
        ("a: {num_wokers: 3}\n", {"key": "num_wokers"}),
        ("a: {num_wokers: 3}\n", {"key": "num_wokers", "meant": "nobody knows what"}),
        ("a: {num_wokers: 3}\n", {"key": "other", "meant": "num_workers"}),
        ("a: {num_wokers: 3, num_worker: 2}\n", {"wanted": "num_workers"}),
        ("a: {num_wokers: 3}\nb: {num_workers: 2}\n", {"wanted": "num_workers"}),
        ("a: {learning_rat: 3}\n", {"key": "learning_rat", "meant": "learning_rate"}),
        ("a: {}\n", {}),
    ],
)
def test_not_where_it_is_not_clear(config: str, captures: dict[str, str]) -> None:
    assert remedy("correct_key", situation(config, captures=captures)) is None
