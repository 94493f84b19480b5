"""What the harness reads out of a config, and how an attempt's copy differs from the original."""

from pathlib import Path

import pytest

from harness.config import edit as config_edit
from harness.config import training as training_config
from harness.config.training import TrainingConfig


def config(tmp_path: Path, text: str) -> TrainingConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return TrainingConfig.read(path)


@pytest.mark.parametrize(
    ("settings", "last_step", "steps"),
    [
        ("val_before_train: true, test_freq: 40", 240, {0, 40, 80, 120, 160, 200, 240}),
        ("val_before_train: true, test_freq: 40", 79, {0, 40}),
        ("test_freq: 10", 10, {10}),
        ("test_freq: -1", 100, set()),
        ("val_before_train: true, test_freq: 0", 100, {0}),
    ],
)
def test_owed_validations(tmp_path: Path, settings: str, last_step: int, steps: set[int]) -> None:
    found = config(tmp_path, f"ajet: {{trainer_common: {{{settings}}}}}")
    assert found.expected_validations(last_step) == steps


def test_kl_loss_is_expected_of_our_trainer_unless_switched_off_and_nothing_of_others(tmp_path: Path) -> None:
    assert config(tmp_path, "ajet: {}").expects_kl_loss
    assert not config(tmp_path, "ajet: {trainer_common: {use_kl_loss: false}}").expects_kl_loss
    foreign = config(tmp_path, "lr: 1e-4\nuse_kl_loss: true\ntest_freq: 2\n")
    assert not foreign.is_ajet and not foreign.expects_kl_loss
    assert foreign.expected_validations(100) == set()


def test_an_attempts_copy_writes_into_its_own_folder_and_keeps_the_rest(tmp_path: Path) -> None:
    text = "ajet:\n  trainer_common:\n    test_freq: 5 # often\n"
    data = config_edit.load(copy := training_config.for_attempt(text, tmp_path / "attempts" / "02"))
    assert data["ajet"]["experiment_dir"] == str(tmp_path / "attempts" / "02" / "trainer")
    assert "# often" in copy
    shared = "ajet: {trainer_common: {checkpoint_base_dir: ./saved_checkpoints}}\n"
    data = config_edit.load(training_config.for_attempt(shared, tmp_path))
    assert data["ajet"]["trainer_common"]["checkpoint_base_dir"] == "auto"
    foreign = "a:   1\n"
    assert training_config.for_attempt(foreign, tmp_path) == foreign


def test_of_an_attempt_s_config_that_cannot_be_read_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("ajet: &a {again: *a}\n")
    assert not TrainingConfig.of_attempt(tmp_path / "config.yaml").is_ajet
