"""Prompts: the chat template and the length limit."""

from typing import Any

import pytest

from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.tasks import prompts as prompts_module
from trainer_core.tasks.prompts import Prompts
from trainer_core.types import DataError, Task


class Counting:
    """A tokenizer that notes how many texts it was given."""

    def __init__(self, chat_template: str | None = None) -> None:
        self._tokenizer = make_tokenizer()
        if chat_template is not None:
            self._tokenizer.chat_template = chat_template
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, texts: list[str], **options: Any) -> Any:
        self.texts += texts
        return self._tokenizer(texts, **options)


def test_prompts_come_in_the_order_of_the_tasks() -> None:
    tokenizer = make_tokenizer()
    prompts = Prompts(tokenizer).ids([Task("2", "345"), Task("1", "12")])
    assert [tokenizer.decode(ids) for ids in prompts] == [
        "<|user|>345<|end|><|assistant|>",
        "<|user|>12<|end|><|assistant|>",
    ]


def test_messages_and_tools_reach_the_template() -> None:
    template = (
        "{% for tool in tools or [] %}{{ tool.name }};{% endfor %}"
        "{% for message in messages %}{{ message.role[0] }}{{ message.content }}{% endfor %}"
    )
    tokenizer = Counting(template)
    messages = ({"role": "system", "content": "1"}, {"role": "user", "content": "2"})
    prompts = Prompts(tokenizer)
    prompts.ids([Task("a", "9", init_messages=messages, tools=({"name": "7"},)), Task("b", "3")])
    assert tokenizer.texts == ["7;s1u2", "u3"]


def test_too_long_a_prompt_names_the_task() -> None:
    tasks = [Task("short", "1"), Task("long", "1" * 10)]
    assert Prompts(make_tokenizer(), 13).longest(tasks) == 13
    with pytest.raises(DataError, match=r"task 'long' has 13 tokens.*max_prompt_length = 12"):
        Prompts(make_tokenizer(), 12).longest(tasks)


def test_of_many_tasks_those_with_the_most_characters_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts_module, "_CHECKED", 2)
    tokenizer = Counting()
    long = Task("long", "", init_messages=({"role": "user", "content": "1" * 9},))
    prompts = Prompts(tokenizer, 12)
    assert prompts.longest([Task("a", "1"), long, Task("b", "1111"), Task("c", "11")]) == 12
    assert len(tokenizer.texts) == 2
    assert prompts.longest([]) == 0


def test_a_tokenizer_without_a_chat_template_is_explained() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(DataError, match="no chat template"):
        Prompts(tokenizer)


def test_messages_that_the_template_refuses_name_the_task() -> None:
    tokenizer = Counting("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(DataError, match=r"task 'a'.*roles must alternate"):
        Prompts(tokenizer).ids([Task("a", "1")])
