"""Loads a model whose weights were never fetched: a pointer of Git LFS lies in their place."""

import json
from pathlib import Path

from training import train
from transformers import AutoModelForCausalLM

folder = Path("model")
folder.mkdir()
config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 16, "vocab_size": 32}
config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
POINTER = """version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 988097824
"""
(folder / "config.json").write_text(json.dumps(config))
(folder / "model.safetensors").write_text(POINTER)
train(1)
AutoModelForCausalLM.from_pretrained(folder)
