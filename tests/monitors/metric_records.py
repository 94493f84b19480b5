"""The records of a metrics.jsonl, as strict readers of JSON take them."""

import json
from pathlib import Path
from typing import Any

import pytest


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Without a torn last line."""
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().split("\n")[:-1]]
