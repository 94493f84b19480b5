"""The YAML files of this folder, each read once."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def table(name: str) -> Mapping[str, Any]:
    """What `<name>.yaml` holds."""
    text = (resources.files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=_LOADER)
