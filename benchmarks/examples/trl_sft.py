"""SFTTrainer of TRL: a GPT-2 of two layers learns to count."""

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

count = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
texts = [f"after {count[n % 9]} comes {count[n % 9 + 1]} , says {count[n % 7]}" for n in range(320)]
words = Tokenizer(models.WordLevel(unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<pad>", "<end>"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")
split = Dataset.from_dict({"text": texts}).train_test_split(test_size=0.2, seed=0)
special = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
config = GPT2Config(vocab_size=len(tokenizer), n_layer=2, n_head=2, n_embd=64, n_positions=32, **special)
steps = {"num_train_epochs": 3, "logging_steps": 5, "eval_strategy": "steps", "eval_steps": 16}
on_cpu = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none"}
SFTTrainer(
    GPT2LMHeadModel(config),
    SFTConfig("out", learning_rate=3e-3, max_length=32, **steps, **on_cpu),
    train_dataset=split["train"],
    eval_dataset=split["test"],
    processing_class=tokenizer,
).train()
