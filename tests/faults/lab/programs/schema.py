"""A config whose values are checked."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Optim(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lr: float
    warmup_steps: int = 0


Optim.model_validate(json.loads(Path("config.json").read_text()))
