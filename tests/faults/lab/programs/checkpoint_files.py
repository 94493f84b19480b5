"""Loads a checkpoint folder without weights."""

import json
from pathlib import Path

from training import train
from transformers import AutoModelForCausalLM

folder = Path("global_step_40")
folder.mkdir()
(folder / "config.json").write_text(
    json.dumps({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]})
)
train(1)
AutoModelForCausalLM.from_pretrained(folder)
