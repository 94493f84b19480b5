"""Keys and values of a sweep: what may be a key, and what may be a value.

A key is a dotted config key, `arg:--flag` of the launch command, or `env:NAME`. A config's values are typed
as YAML 1.2 types them; those of `arg:` and `env:` are the exact text that was written.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from harness.templating import yaml_scalar
from monitors.launch import is_secret_name

Kind = Literal["config", "arg", "env"]
_CONFIG_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_ARGUMENT = re.compile(r"--?[A-Za-z][\w.-]*|\+{0,2}[A-Za-z_][\w./@-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_BY_HARNESS = (
    "ajet.experiment_dir",
    "ajet.trainer_common.val_print_to_markdown_file_path",
    "ajet.trainer_common.checkpoint_base_dir",
)


def kind_of(key: str) -> Kind:
    """Where the key stands: in the config, the command, or the environment."""
    return "arg" if key.startswith("arg:") else "env" if key.startswith("env:") else "config"


def bare(key: str) -> str:
    """A key without `arg:` or `env:`."""
    return key if kind_of(key) == "config" else key.partition(":")[2]


def checked_key(key: str) -> str:
    """The key. Raises ValueError where nothing can be set by it, with what to write instead."""
    kind, name, why = kind_of(key), bare(key), ""
    if kind == "arg":
        if not _ARGUMENT.fullmatch(name):
            why = f"{key!r} names no flag; write arg:--lr, arg:-n or arg:a.b"
    elif kind == "env":
        if not _VARIABLE.fullmatch(name):
            why = f"{key!r} names no environment variable; write env:NAME"
        elif name == "CUDA_VISIBLE_DEVICES":
            why = f"{key} is what keeps runs apart; say how many GPUs a run gets with each.gpus"
        elif is_secret_name(name):
            why = f"{key} looks like a secret, and its values would stand in every report; export it instead"
    elif ":" in key:
        why = f"{key!r}: there is no such kind of key; write arg:--flag, env:NAME or a config key"
    elif key.startswith(("-", "+")):
        why = f"{key!r} is no config key; a flag of the command is written arg:{key}"
    elif not _CONFIG_KEY.fullmatch(key):
        why = f"{key!r} is no config key; write it with dots, as ajet.trainer_common.optim.lr"
    elif key in _SET_BY_HARNESS:
        why = f"{key} is set anew for every launch, so that runs do not write into each other; leave it out"
    if why:
        raise ValueError(why)
    return key


def checked_value(value: Any) -> Any:
    """The value. Raises ValueError for what cannot be one."""
    why = ""
    if isinstance(value, list | dict):
        why = (
            f"{value!r} is a list or mapping, and only single values can be set: name a key inside it, or "
            "put quotes around it where it is a text"
        )
    elif not isinstance(value, str | int | float | None):
        why = f"{value} is read as a {type(value).__name__}; put quotes around it"
    elif isinstance(value, float) and not math.isfinite(value):
        why = f"{yaml_scalar(value)} is no finite number"
    elif isinstance(value, str) and not value.isprintable():
        why = f"{value!r} holds characters that cannot be seen"
    if why:
        raise ValueError(why)
    return value
