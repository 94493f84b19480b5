"""From a config to what a training writes about its episodes and validations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.records.recorder import Recorder
from trainer_core.validation.files import MarkdownTable, validation_columns

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet


def open_recorder(
    ajet: Ajet,
    tokenizer: Any,
    total_steps: int,
    done: int | None,
    validated: int | None,
    say: Callable[[str], None],
) -> Recorder:
    """The records in `{experiment_dir}/episodes`, up to the steps that are not done again."""
    return Recorder(
        Path(ajet.experiment_dir) / "episodes",
        tokenizer,
        keeps=partial(_keeps, ajet, total_steps),
        resume={"train": done, "validation": validated},
        say=say,
    )


def validation_table(ajet: Ajet, validated: int | None) -> MarkdownTable | None:
    """The table of validations, if the config names a file for it."""
    path = ajet.trainer_common.val_print_to_markdown_file_path
    if path is None:
        return None
    return MarkdownTable(
        Path(path), validation_columns(ajet.trainer_common.val_pass_n), resume_step=validated
    )


def _keeps(ajet: Ajet, total_steps: int, step: int) -> bool:
    """True if the episodes of a training step are recorded."""
    common = ajet.trainer_common
    is_validated = common.test_freq > 0 and step % common.test_freq == 0
    return common.save_trajectory_as_json_file or is_validated or step in (1, total_steps)
