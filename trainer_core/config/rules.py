"""Rules that tie several keys together. In: the validated `ajet` section. Out: what is broken, by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet


@dataclass(frozen=True)
class Violation:
    """One broken rule: the key to blame, what is wrong with it, and what to do."""

    key: str
    message: str
    fix: str


def violations(ajet: Ajet) -> tuple[Violation, ...]:
    """Every broken rule, in the order of the config."""
    return (*_names(ajet), *_tiny_model(ajet), *_lengths(ajet), *_tasks(ajet), *_batches(ajet))


def _names(ajet: Ajet) -> Iterator[Violation]:
    name = ajet.experiment_name
    if "/" in name or "\0" in name or name in (".", ".."):
        yield Violation(
            "ajet.experiment_name",
            "cannot be used as a folder's name.",
            "Leave out `/`; the place of the output is `ajet.experiment_dir`.",
        )


def _tiny_model(ajet: Ajet) -> Iterator[Violation]:
    if ajet.model.path != "tiny":
        return
    tiny = ajet.model.tiny
    heads, key_value_heads = tiny.num_attention_heads, tiny.num_key_value_heads or tiny.num_attention_heads
    nearest = 2 * heads * max(1, tiny.hidden_size // (2 * heads))
    if tiny.hidden_size % (2 * heads):
        yield Violation(
            "ajet.model.tiny.hidden_size",
            f"must be a multiple of 2 x num_attention_heads (= {2 * heads}), for rotary positions.",
            f"Write a multiple of {2 * heads}, such as {nearest}.",
        )
    if heads % key_value_heads:
        yield Violation(
            "ajet.model.tiny.num_key_value_heads",
            f"must divide num_attention_heads (= {heads}).",
            "Leave it out, or write a divisor.",
        )


def _lengths(ajet: Ajet) -> Iterator[Violation]:
    data, rollout = ajet.data, ajet.rollout
    longest = data.max_prompt_length + data.max_response_length
    if longest > rollout.max_model_len:
        yield Violation(
            "ajet.rollout.max_model_len",
            f"is less than ajet.data.max_prompt_length + ajet.data.max_response_length (= {longest}).",
            f"Raise it to {longest} or leave it out, or lower one of the two.",
        )
    if rollout.max_response_length_in_one_turn > data.max_response_length:
        yield Violation(
            "ajet.rollout.max_response_length_in_one_turn",
            f"is more than ajet.data.max_response_length (= {data.max_response_length}).",
            f"Lower it to {data.max_response_length} or leave it out.",
        )
    if rollout.gamma != 1.0:
        yield Violation("ajet.rollout.gamma", "has one legal value, 1.0.", "Write 1.0 or leave it out.")


def _tasks(ajet: Ajet) -> Iterator[Violation]:
    reader, trainer = ajet.task_reader, ajet.trainer_common
    if reader.type != "jsonl_dataset_file":
        return
    files = reader.jsonl_dataset_file
    validates = trainer.val_only or trainer.val_before_train or trainer.test_freq > 0
    if files.training.file_path is None and not trainer.val_only:
        yield Violation(
            "ajet.task_reader.jsonl_dataset_file.training.file_path",
            "has to name the file of training questions when ajet.task_reader.type is jsonl_dataset_file.",
            "Write its path, seen from the working directory.",
        )
    if files.validation.file_path is None and validates:
        yield Violation(
            "ajet.task_reader.jsonl_dataset_file.validation.file_path",
            "has to name the file of validation questions, because validation is on.",
            "Write its path, or set ajet.trainer_common.test_freq: -1 and val_before_train: false.",
        )


def _batches(ajet: Ajet) -> Iterator[Violation]:
    trainer, repeats = ajet.trainer_common, ajet.rollout.num_repeat
    samples = ajet.data.train_batch_size * repeats
    if samples % trainer.mini_batch_num:
        yield Violation(
            "ajet.trainer_common.mini_batch_num",
            f"does not divide ajet.data.train_batch_size x ajet.rollout.num_repeat (= {samples}).",
            f"Write a divisor of {samples}.",
        )
