"""Keys and values of a sweep: what may be a key, what may be a value, what points are called.

A key is a dotted config key, `arg:--flag` of the launch command, or `env:NAME`. A config's values are typed
as YAML 1.2 types them; those of `arg:` and `env:` are the exact text that was written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from harness.config import Scalar, as_text, same_value
from harness.templating import yaml_scalar
from monitors.launch import is_secret_name

Kind = Literal["config", "arg", "env"]
LONGEST_NAME = 60
LEAST_MEMORY = 1 << 20
_CONFIG_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_ARGUMENT = re.compile(r"--?[A-Za-z][\w.-]*|\+{0,2}[A-Za-z_][\w./@-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_BY_HARNESS = (
    "ajet.experiment_dir",
    "ajet.trainer_common.val_print_to_markdown_file_path",
    "ajet.trainer_common.checkpoint_base_dir",
)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def kind_of(key: str) -> Kind:
    """Where the key stands: in the config, the command, or the environment."""
    return "arg" if key.startswith("arg:") else "env" if key.startswith("env:") else "config"


def bare(key: str) -> str:
    """A key without `arg:` or `env:`."""
    return key if kind_of(key) == "config" else key.partition(":")[2]


def key_problem(key: str) -> str:
    """Why nothing can be set by this key, and what to write instead; "" where it can."""
    kind, name = kind_of(key), bare(key)
    if kind == "arg":
        return (
            "" if _ARGUMENT.fullmatch(name) else f"{key!r} names no flag; write arg:--lr, arg:-n or arg:a.b"
        )
    if kind == "env":
        if not _VARIABLE.fullmatch(name):
            return f"{key!r} names no environment variable; write env:NAME"
        if name == "CUDA_VISIBLE_DEVICES":
            return f"{key} is what keeps runs apart; say how many GPUs a run gets with each.gpus"
        is_secret = is_secret_name(name)
        why = f"{key} looks like a secret, and its values would stand in every report; export it instead"
        return why if is_secret else ""
    if ":" in key:
        return f"{key!r}: there is no such kind of key; write arg:--flag, env:NAME or a config key"
    if key.startswith(("-", "+")):
        return f"{key!r} is no config key; a flag of the command is written arg:{key}"
    if not _CONFIG_KEY.fullmatch(key):
        return f"{key!r} is no config key; write it with dots, as ajet.trainer_common.optim.lr"
    if key in _SET_BY_HARNESS:
        return f"{key} is set anew for every launch, so that runs do not write into each other; leave it out"
    return ""


def values_problem(values: Sequence[object]) -> str:
    """Why a key cannot be varied over these values; "" where it can."""
    if len(values) < 2:
        return f"{len(values)} value{'s' * (not values)}, so nothing is varied; give two or more"
    for number, value in enumerate(values):
        if problem := value_problem(value):
            return problem
        if any(same_value(value, other) for other in values[:number]):
            return f"the value {yaml_scalar(value)} stands there twice"
    return ""


def value_problem(value: object) -> str:
    """Why this cannot be a value; "" where it can."""
    if isinstance(value, list | dict):
        return (
            f"{value!r} is a list or mapping, and only single values can be set: name a key inside it, or "
            "put quotes around it where it is a text"
        )
    if not isinstance(value, str | int | float | None):
        return f"{value} is read as a {type(value).__name__}; put quotes around it"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{yaml_scalar(value)} is no finite number"
    if isinstance(value, str) and not value.isprintable():
        return f"{value!r} holds characters that cannot be seen"
    return ""


def memory_bytes(text: str) -> int | None:
    """`4 GB` or `512 MiB` in bytes; None for what is no such amount."""
    from harness.repair.remedies.sizes import gib

    found = gib(text)
    amount = int(found * 2**30) if found is not None else 0
    return amount if amount >= LEAST_MEMORY else None


def point_name(number: int, digits: int, parts: Sequence[tuple[str, Scalar]]) -> str:
    """`p03-kl_loss_coef-0.01-num_repeat-8`: safe as a folder's name; the number makes it unique."""
    words = [
        word for label, value in parts for word in (label, as_text(value).rstrip("/").rpartition("/")[2])
    ]
    tail = [_UNSAFE.sub("_", word).strip(".") for word in words]
    return "-".join([f"p{number:0{digits}d}", *filter(None, tail)])[:LONGEST_NAME].rstrip("-.")
