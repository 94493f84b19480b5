"""The quickstart's config is honoured to the last key."""

from datetime import datetime
from pathlib import Path

from trainer_core.config.load import load_config

CONFIG = Path(__file__).parents[3] / "blueprints" / "quickstart" / "config.yaml"


def test_the_quickstart_config_loads_without_a_remark() -> None:
    loaded = load_config(CONFIG, now=datetime(2026, 1, 1))
    assert loaded.warnings == ()
    trainer = loaded.config.ajet.trainer_common
    assert trainer.val_before_train
    assert trainer.total_training_steps is not None and trainer.total_training_steps % trainer.test_freq == 0
