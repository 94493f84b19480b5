"""The trainer's keys, asked of the trainer."""

import pytest

from harness.author.trainer_keys import MOST_SHOWN, NoKeysError, TrainerKeys


@pytest.fixture(scope="module")
def keys() -> TrainerKeys:
    return TrainerKeys.ask()


def test_keys_are_found_by_name_and_meaning(keys: TrainerKeys) -> None:
    assert "ajet.trainer_common.n_gpus_per_node: int > 0, default 8" in keys.search("GPU machine")
    assert "ajet.trainer_common.kl_loss_coef" in keys.search("kl_loss")
    assert keys.search("a").count("\n") == MOST_SHOWN


def test_what_does_not_exist_is_said(keys: TrainerKeys) -> None:
    with pytest.raises(NoKeysError, match="no key has 'zebra'"):
        keys.search("zebra")
    assert keys.knows("ajet.model") and keys.knows("ajet.model.*") and not keys.knows("ajet.modell")
