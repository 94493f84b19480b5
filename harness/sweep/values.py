"""Keys and values of a sweep: what may be a key, when two values are one, what they are called in tables.

A key is a dotted config key, `arg:--flag` of the launch command, or `env:NAME`. A config's values are typed
as YAML 1.2 types them; those of `arg:` and `env:` are the exact text that was written.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Literal

from harness.config import Scalar, as_text, same_meaning, same_value
from harness.templating import yaml_scalar

Kind = Literal["config", "arg", "env"]


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET = Unset.UNSET
"""What a blueprint has for a key that it does not name."""

LONGEST_NAME = 60
_CONFIG_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_ARGUMENT = re.compile(r"--?[A-Za-z][\w.-]*|\+{0,2}[A-Za-z_][\w./@-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_BY_HARNESS = (
    "ajet.experiment_dir",
    "ajet.trainer_common.val_print_to_markdown_file_path",
    "ajet.trainer_common.checkpoint_base_dir",
)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


# --- keys ---------------------------------------------------------------------------------------------------


def kind_of(key: str) -> Kind:
    """Where the key stands: in the config, the command, or the environment."""
    prefix, colon, _ = key.partition(":")
    return "arg" if colon and prefix == "arg" else "env" if colon and prefix == "env" else "config"


def bare(key: str) -> str:
    """A key without `arg:` or `env:`."""
    return key if kind_of(key) == "config" else key.partition(":")[2]


def key_problem(key: str) -> str:
    """Why nothing can be set by this key, and what to write instead; "" where it can."""
    prefix, colon, name = key.partition(":")
    if colon and prefix not in ("arg", "env"):
        return f"{key!r}: there is no kind of key {prefix!r}; write arg:--flag, env:NAME or a config key"
    if prefix == "arg" and colon:
        is_flag = _ARGUMENT.fullmatch(name) is not None
        return "" if is_flag else f"{key!r} names no flag; write arg:--lr, arg:-n or arg:a.b"
    if prefix == "env" and colon:
        return _variable_problem(key, name)
    if key.startswith(("-", "+")):
        return f"{key!r} is no config key; a flag of the command is written arg:{key}"
    if not _CONFIG_KEY.fullmatch(key):
        return f"{key!r} is no config key; write it with dots, as ajet.trainer_common.optim.lr"
    if key in _SET_BY_HARNESS:
        return f"{key} is set anew for every launch, so that runs do not write into each other; leave it out"
    return ""


def _variable_problem(key: str, name: str) -> str:
    from monitors.launch import is_secret_name

    if not _VARIABLE.fullmatch(name):
        return f"{key!r} names no environment variable; write env:NAME"
    if name == "CUDA_VISIBLE_DEVICES":
        return (
            "env:CUDA_VISIBLE_DEVICES is what keeps runs apart; say how many GPUs a run gets with each.gpus"
        )
    if is_secret_name(name):
        return f"{key} looks like a secret, and its values would stand in every report; export it instead"
    return ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean lr?`, or "" where nothing known is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


# --- values -------------------------------------------------------------------------------------------------


def values_problem(values: Sequence[object]) -> str:
    """Why a key cannot be varied over these values; "" where it can."""
    if len(values) < 2:
        return (
            f"{len(values) or 'no'} value{'s' if not values else ''}, so nothing is varied; give two or more"
        )
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


def means_same(one: object, other: object) -> bool:
    """True if two values mean the same, as texts or typed; UNSET means nothing."""
    return UNSET not in (one, other) and same_meaning(one, other)


def point_name(number: int, digits: int, parts: Sequence[tuple[str, Scalar]]) -> str:
    """`p03-kl_loss_coef-0.01-num_repeat-8`: safe as a folder's name; the number makes it unique."""
    words = [
        word for label, value in parts for word in (label, as_text(value).rstrip("/").rpartition("/")[2])
    ]
    tail = [_UNSAFE.sub("_", word).strip(".") for word in words]
    return "-".join([f"p{number:0{digits}d}", *filter(None, tail)])[:LONGEST_NAME].rstrip("-.")
