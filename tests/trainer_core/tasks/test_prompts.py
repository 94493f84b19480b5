"""Prompts: the chat template, the length limit."""

import pytest

from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.tasks.prompts import encode_prompts
from trainer_core.types import DataError, Task


def test_too_long_a_prompt_names_the_task() -> None:
    tasks = [Task("short", "1"), Task("long", "1" * 10)]
    assert set(encode_prompts(make_tokenizer(), tasks, max_prompt_length=13)) == {"1", "1" * 10}
    with pytest.raises(DataError, match=r"task 'long' has 13 tokens.*max_prompt_length = 12"):
        encode_prompts(make_tokenizer(), tasks, max_prompt_length=12)


def test_a_tokenizer_without_a_chat_template_is_explained() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(DataError, match="no chat template"):
        encode_prompts(tokenizer, [Task("a", "1")])
