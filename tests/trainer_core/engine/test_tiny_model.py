"""The tiny model and its tokenizer are ordinary Hugging Face objects."""

import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.trainer_core.engine.conftest import RECIPE
from trainer_core.engine.tiny_model import make_model
from trainer_core.types import TrainingError


def test_text_survives_the_tokenizer(tokenizer: Any) -> None:
    text = string.ascii_letters + string.digits + string.punctuation + " \n\t  two  spaces , and ' marks"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert (
        tokenizer.decode(tokenizer("größer 中文 🙂", add_special_tokens=False)["input_ids"])
        == "größer 中文 🙂"
    )


def test_chat_template(tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "sort"}, {"role": "user", "content": "52 "}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|system|>sort<|end|><|user|>52 <|end|><|assistant|>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == 1 + 4 + 1 + 1 + 3 + 1 + 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == "sort52 "


def test_saved_tokenizer_and_model_load_like_any_other(tokenizer: Any, tmp_path: Path) -> None:
    model = make_model(RECIPE, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    chat = [{"role": "user", "content": "1"}]
    assert again.apply_chat_template(chat, tokenize=False) == tokenizer.apply_chat_template(
        chat, tokenize=False
    )
    text = "<|user|> a  b1 ß\n<|end|>"
    assert again(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert again.decode(again(text)["input_ids"]) == text
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))


def test_the_seed_decides_the_weights_and_leaves_the_global_state_alone(tokenizer: Any) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    first, second = make_model(RECIPE, tokenizer), make_model(RECIPE, tokenizer)
    assert torch.equal(torch.rand(1), expected)
    other = make_model(replace(RECIPE, seed=1), tokenizer)
    assert torch.equal(first.model.embed_tokens.weight, second.model.embed_tokens.weight)
    assert not torch.equal(first.model.embed_tokens.weight, other.model.embed_tokens.weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 1024, "intermediate_size": 4096}, "parameters, more than the 1,000,000"),
        ({"architecture": "qwen99"}, "qwen2"),
    ],
)
def test_impossible_recipes_are_explained(tokenizer: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        make_model(replace(RECIPE, **change), tokenizer)
