"""A config indented with a tab."""

from pathlib import Path

import yaml

yaml.safe_load(Path("config.yaml").read_text())
