"""From tasks to prompt tokens, through the model's chat template."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from trainer_core.types import DataError, Task

_CHECKED = 10_000


class Prompts:
    """Encodes prompts when they are needed."""

    def __init__(self, tokenizer: Any, max_prompt_length: int | None = None) -> None:
        """`tokenizer`: a Hugging Face tokenizer with a chat template. `max_prompt_length`: in tokens; None
        does not check.

        Raises:
            DataError: the tokenizer has no chat template.
        """
        if getattr(tokenizer, "chat_template", None) is None:
            raise DataError(
                f"the tokenizer of {tokenizer.name_or_path!r} has no chat template, so a question "
                "cannot be put to the model; "
                "use an instruction-tuned model or add chat_template.jinja to its folder"
            )
        self._tokenizer = tokenizer
        self._longest = max_prompt_length

    def ids(self, tasks: Sequence[Task]) -> list[tuple[int, ...]]:
        """The prompt of each task.

        Raises:
            DataError: one is longer than allowed, or the chat template refuses its messages.
        """
        if not tasks:
            return []
        encoded = self._tokenizer([*map(self._text, tasks)], add_special_tokens=False)["input_ids"]
        for task, ids in zip(tasks, encoded, strict=True):
            if self._longest is not None and len(ids) > self._longest:
                raise DataError(
                    f"the prompt of task {task.task_id!r} has {len(ids)} tokens, more than "
                    f"data.max_prompt_length = {self._longest}; raise it or shorten the question"
                )
        return [*map(tuple, encoded)]

    def longest(self, tasks: Sequence[Task]) -> int:
        """Tokens of the longest prompt, to be known before any model is made. Of a large data set the
        10,000 tasks with the most characters are encoded; the others are checked when they are used.

        Raises:
            DataError: as `ids`.
        """
        likely = heapq.nlargest(_CHECKED, tasks, key=_characters) if len(tasks) > _CHECKED else tasks
        return max(map(len, self.ids(likely)), default=0)

    def _text(self, task: Task) -> str:
        tools = [dict(tool) for tool in task.tools] or None
        try:
            text: str = self._tokenizer.apply_chat_template(
                task.messages, tools=tools, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # templates are programs of their own and raise what they like
            raise DataError(
                f"the chat template cannot write the messages of task {task.task_id!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return text


def _characters(task: Task) -> int:
    return sum(len(str(message.get("content"))) for message in task.init_messages) or len(task.main_query)
