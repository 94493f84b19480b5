"""Where each value of a new experiment came from, for the person who has to trust it.

In: the draft and the person's words. Out: rows. A value counts as said by the person only if the model says
so and the words contain it, or if it was given with `--set`.
"""

from dataclasses import dataclass
from typing import Any, Literal

from harness.author.draft import Brief, Draft, dotted
from harness.author.request_text import states
from harness.blueprint.scaffold import DEFAULTS, Composed, sort_answers
from harness.config.edit import get, load
from harness.config.keys import short_names
from harness.config.values import as_text

Source = Literal["said by you", "assumed", "default"]

_READERS = "ajet.task_reader."
_MAIN = (
    *("ajet.backbone", "ajet.trainer_common.n_gpus_per_node", "ajet.model.path"),
    *(f"{_READERS}type", f"{_READERS}builtin.name", f"{_READERS}huggingface_dat_repo.dataset_path"),
    *(f"{_READERS}jsonl_dataset_file.{split}.file_path" for split in ("training", "validation")),
    *(short_names()[key] for key in ("total_training_steps", "train_batch_size", "num_repeat", "lr")),
    *(short_names()[key] for key in ("kl_loss_coef", "temperature", "max_prompt_length")),
    *(short_names()[key] for key in ("max_response_length", "val_pass_n", "test_freq", "seed")),
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
        value = given.get(name) or str(getattr(blueprint, name))
        source = _source(value, name in given, name in blueprint.said, brief) if value else "default"
        rows.append(Row(label, value or defaults[name], source))
    return rows


def config_rows(texts: Composed, draft: Draft, brief: Brief) -> list[Row]:
    """The main values of the config, and all that were set in it."""
    if texts.config is None or draft.blueprint is None:
        return []
    data, missing = load(texts.config), object()
    given = dotted(sort_answers(brief.given, draft.blueprint.template)[1])
    made = dotted(draft.config.settings) if draft.config else {}
    said = {short_names().get(key, key) for key in draft.config.said} if draft.config else set()
    rows = []
    for key in dict.fromkeys((*_MAIN, *made, *given)):
        value = get(data, key, missing)
        if value is missing:
            continue
        is_set = key in given or key in made
        source = _source(made.get(key), key in given, key in said, brief) if is_set else "default"
        rows.append(Row(key, as_text(value), source))
    return rows


def _source(value: Any, is_given: bool, is_claimed: bool, brief: Brief) -> Source:
    return "said by you" if is_given or (is_claimed and states(brief.words, value)) else "assumed"
