"""Trainer of transformers: is a text good or bad? By a BERT of two layers."""

import random

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

words = Tokenizer(models.WordLevel({"[PAD]": 0, "good": 1, "bad": 2, "film": 3}, unk_token="[PAD]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
random.seed(0)
texts = [random.choices(["good", "bad", "film"], k=9) for _ in range(600)]
labels = [int(text.count("good") > text.count("bad")) for text in texts]
data = Dataset.from_dict({"text": [" ".join(text) for text in texts], "label": labels})
split = data.map(lambda rows: tokenizer(rows["text"]), batched=True).train_test_split(test_size=0.2, seed=0)
size = {"vocab_size": 4, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
steps = {"num_train_epochs": 4, "logging_steps": 5, "eval_strategy": "epoch", "report_to": "none"}
Trainer(
    BertForSequenceClassification(BertConfig(**size, num_labels=2)),
    TrainingArguments("out", learning_rate=2e-3, **steps),
    train_dataset=split["train"],
    eval_dataset=split["test"],
    compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
).train()
