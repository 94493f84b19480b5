"""From tasks to prompt tokens, through the model's chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer_core.types import DataError, Task


def encode_prompts(
    tokenizer: Any, tasks: Sequence[Task], *, max_prompt_length: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Token ids of every task's prompt, by question (ids may occur in two splits).

    Args:
        tokenizer: a Hugging Face tokenizer with a chat template.
        max_prompt_length: tokens; None does not check.

    Raises:
        DataError: a prompt is longer than that, or the tokenizer has no chat template.
    """
    if not tasks:
        return {}
    if getattr(tokenizer, "chat_template", None) is None:
        raise DataError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template, so a question "
            "cannot be put to the model; "
            "use an instruction-tuned model or add chat_template.jinja to its folder"
        )
    conversations = [[{"role": "user", "content": task.main_query}] for task in tasks]
    texts = tokenizer.apply_chat_template(conversations, tokenize=False, add_generation_prompt=True)
    encoded: dict[str, tuple[int, ...]] = {}
    for task, ids in zip(tasks, tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True):
        if max_prompt_length is not None and len(ids) > max_prompt_length:
            raise DataError(
                f"the prompt of task {task.task_id!r} has {len(ids)} tokens, more than "
                "data.max_prompt_length = "
                f"{max_prompt_length}; raise it or shorten the question"
            )
        encoded[task.main_query] = tuple(ids)
    return encoded
