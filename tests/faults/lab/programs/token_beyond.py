"""The tokenizer knows more tokens than the model has embeddings."""

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from training import train
from transformers import PreTrainedTokenizerFast

words = {f"w{number}": number for number in range(64)}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(WordLevel(words, unk_token="w0")), unk_token="w0"
)
embed_tokens = torch.nn.Embedding(32, 8)
train(1)
embed_tokens(torch.tensor(tokenizer.encode("w40")))
