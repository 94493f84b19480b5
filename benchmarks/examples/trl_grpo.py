"""GRPOTrainer of TRL: a GPT-2 of one layer is rewarded for the letter a."""

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

letters = {letter: at for at, letter in enumerate(["<pad>", "<end>", *"abcdefgh"])}
words = Tokenizer(models.WordLevel(letters, unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")
special = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
config = GPT2Config(vocab_size=10, n_layer=1, n_head=2, n_embd=32, n_positions=32, **special)
steps = {"max_steps": 25, "logging_steps": 1, "per_device_train_batch_size": 8, "num_generations": 4}
on_cpu = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none"}
GRPOTrainer(
    GPT2LMHeadModel(config),
    reward_funcs=lambda completions, **_: [text.count("a") / 8 for text in completions],
    args=GRPOConfig("out", learning_rate=1e-2, max_completion_length=8, **steps, **on_cpu),
    train_dataset=Dataset.from_dict({"prompt": ["a b", "c d", "e f", "g h"] * 16}),
    processing_class=tokenizer,
).train()
