"""The config of the trainer: schema, layers, checks.

`load_config` reads a file into a frozen `Config`, or raises `ConfigError` with every problem and its line;
`resolved_yaml` writes it out again in full. Nothing here imports torch.
"""

from trainer_core.config.load import Loaded, load_config, resolved_yaml
from trainer_core.config.problems import ConfigError, Problem
from trainer_core.config.schema import Ajet, Config

__all__ = ["Ajet", "Config", "ConfigError", "Loaded", "Problem", "load_config", "resolved_yaml"]
