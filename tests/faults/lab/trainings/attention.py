"""Builds a small model with the attention of the config."""

import torch
from settled import config, go_on
from transformers import AutoModelForCausalLM, Qwen2Config

settings = config()
sizes = Qwen2Config(
    hidden_size=16,
    vocab_size=32,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
)
model = AutoModelForCausalLM.from_config(sizes, attn_implementation=settings["attn_implementation"])
for _ in go_on(settings["max_steps"]):
    model(torch.ones(1, 4, dtype=torch.long))
