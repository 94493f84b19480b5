"""Loads a model that is younger than the library."""

import json
from pathlib import Path

from training import train
from transformers import AutoConfig

folder = Path("model")
folder.mkdir()
(folder / "config.json").write_text(
    json.dumps({"model_type": "qwen9", "architectures": ["Qwen9ForCausalLM"]})
)
train(1)
AutoConfig.from_pretrained(folder)
