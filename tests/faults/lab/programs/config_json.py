"""A config with a comma too much."""

import json
from pathlib import Path


def load_config(path: Path) -> dict[str, float]:
    """The settings of the run."""
    return json.loads(path.read_text())


load_config(Path("config.json"))
