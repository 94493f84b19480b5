"""Where each value of a new experiment came from, for the person who has to trust it.

In: the draft and the person's words. Out: rows. A value counts as said only if the model says so and the
words contain it, or if it was given with `--set`.
"""

from dataclasses import dataclass
from typing import Any, Literal

from harness.author import words
from harness.author.draft import Brief, Draft, dotted
from harness.blueprint.scaffold import DEFAULTS, Composed, sort_answers
from harness.config import edit as config_edit
from harness.config.keys import short_names

Source = Literal["said by you", "assumed", "default"]

_MAIN = (
    "ajet.backbone",
    "ajet.trainer_common.n_gpus_per_node",
    "ajet.model.path",
    "ajet.task_reader.type",
    "ajet.task_reader.builtin.name",
    "ajet.task_reader.huggingface_dat_repo.dataset_path",
    "ajet.task_reader.jsonl_dataset_file.training.file_path",
    "ajet.task_reader.jsonl_dataset_file.validation.file_path",
    *(short_names()[key] for key in ("total_training_steps", "train_batch_size", "num_repeat", "lr")),
    *(
        short_names()[key]
        for key in ("kl_loss_coef", "temperature", "max_prompt_length", "max_response_length")
    ),
    *(short_names()[key] for key in ("val_pass_n", "test_freq", "seed")),
)
"""Shown whenever the config has them; what was set besides follows."""

_PLAN = {
    "launch_command": "command",
    "codebase_dir": "in",
    "max_time": "at most",
    "first_step": "first step within",
}


@dataclass(frozen=True)
class Row:
    """One value and where it came from."""

    name: str
    value: str
    source: Source


def plan_rows(draft: Draft, brief: Brief) -> list[Row]:
    """The values of the blueprint that decide what runs."""
    blueprint = draft.blueprint
    assert blueprint is not None
    given = sort_answers(brief.given, blueprint.template)[0]
    defaults = {
        **DEFAULTS,
        "launch_command": "the bundled trainer with config.yaml",
        "codebase_dir": f"{brief.cwd} (the current directory)",
    }
    rows = []
    for name, label in _PLAN.items():
        made = str(getattr(blueprint, name))
        if name in given:
            rows.append(Row(label, given[name], "said by you"))
        elif made:
            rows.append(Row(label, made, _source(name in blueprint.said, made, brief)))
        else:
            rows.append(Row(label, defaults[name], "default"))
    return rows


def config_rows(texts: Composed, draft: Draft, brief: Brief) -> list[Row]:
    """The main values of the config, and all that were set in it."""
    if texts.config is None or draft.blueprint is None:
        return []
    data = config_edit.load(texts.config)
    given = dotted(sort_answers(brief.given, draft.blueprint.template)[1])
    made = dotted(draft.config.settings) if draft.config else {}
    said = {short_names().get(key, key) for key in draft.config.said} if draft.config else set()
    missing = object()
    rows = []
    for key in dict.fromkeys((*_MAIN, *made, *given)):
        value = config_edit.get(data, key, missing)
        if value is missing:
            continue
        if key in given:
            source: Source = "said by you"
        else:
            source = _source(key in said, made[key], brief) if key in made else "default"
        rows.append(Row(key, _shown(value), source))
    return rows


def _source(claimed: bool, value: Any, brief: Brief) -> Source:
    return "said by you" if claimed and words.states(brief.words, value) else "assumed"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
