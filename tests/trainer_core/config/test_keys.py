"""Did you mean: an unknown key leads to the one that was meant."""

import pytest

from trainer_core.config.keys import all_keys, suggestion


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ajet.lr", "Did you mean `ajet.trainer_common.optim.lr`"),
        ("lr", "Did you mean `ajet.trainer_common.optim.lr`"),
        ("ajet.trainer_common.optim.learning_rate", "Did you mean `ajet.trainer_common.optim.lr`?"),
        ("ajet.trainer_common.total_epoch", "Did you mean `ajet.trainer_common.total_epochs`?"),
        ("ajet.data.max_respnse_length", "Did you mean `ajet.data.max_response_length`?"),
        ("ajet.data.num_repeat", "Did you mean `ajet.rollout.num_repeat`"),
        ("ajet.rollout.n", "Did you mean `ajet.rollout.num_repeat`?"),
        ("ajet.seed", "Did you mean `ajet.trainer_common.seed`"),
        ("ajet.use_kl_los", "Did you mean `ajet.trainer_common.use_kl_loss`?"),
        ("rollout", "Put it under `ajet:`: `ajet.rollout`."),
        ("actor_rollout_ref", "put it under `verl:`."),
        ("data", "put it under `verl:`, or under `ajet:` if `ajet.data` is meant."),
        ("ajt", "Did you mean `ajet`?"),
        ("qqqq", "under `ajet:`"),
        ("ajet.rollout.qqqq", "--explain 'ajet.rollout.*'"),
    ],
)
def test_suggestion(written: str, meant: str) -> None:
    assert meant in suggestion(written)


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("ajet.data.train_batch_size", "int > 0"),
        ("ajet.model.warmup.until_pass_rate", "number > 0, <= 1"),
        ("ajet.trainer_common.total_training_steps", "int > 0 | null"),
        ("ajet.backbone", "local | verl | trinity | debug"),
        ("ajet.trainer_common.use_kl_loss", "true | false"),
        ("ajet.trainer_common.optim.betas", "list of 2: number >= 0, < 1"),
        ("ajet.lora.target_modules", "text | list of text"),
        ("ajet.interchange_server.interchange_server_port", "int > 0 | auto"),
    ],
)
def test_what_may_stand_at_a_key_is_told_in_words(key: str, allowed: str) -> None:
    assert all_keys()[key].type == allowed
