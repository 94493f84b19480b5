"""Renders a chat with the tokenizer of a base model."""

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from training import train
from transformers import PreTrainedTokenizerFast

words = Tokenizer(WordLevel({"two": 0, "[UNK]": 1}, unk_token="[UNK]"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
train(1)
tokenizer.apply_chat_template([{"role": "user", "content": "two"}], add_generation_prompt=True)
