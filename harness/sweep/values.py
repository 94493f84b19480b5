"""Keys and values of a sweep as a person writes them: `--vary KEY=v1,v2`, and the words for them in names and
tables.

In: texts of the command line, or values of a `sweep.yaml`. Out: a key of one of three kinds (a dotted config
key, `arg:--flag` of the command, `env:NAME`) with its values; what is wrong comes as a sentence. A config's
values are typed as YAML 1.2 types them; those of `arg:` and `env:` stay the exact text that was written.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Literal

from harness.config.edit import Scalar
from harness.sweep.types import SweepError
from harness.templating import yaml_scalar

Kind = Literal["config", "arg", "env"]


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET = Unset.UNSET
"""What a blueprint has for a key that it does not name."""

_CONFIG_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_ARGUMENT = re.compile(r"--?[A-Za-z][\w.-]*|\+{0,2}[A-Za-z_][\w./@-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE = re.compile(r"""\s*(?P<value>"(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^,]*?)\s*(?P<end>,|$)""", re.DOTALL)
_SET_BY_HARNESS = (
    "ajet.experiment_dir",
    "ajet.trainer_common.val_print_to_markdown_file_path",
    "ajet.trainer_common.checkpoint_base_dir",
)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_NULLS = ("null", "Null", "NULL", "~")
LONGEST_NAME = 60


# --- keys ---------------------------------------------------------------------------------------------------


def kind_of(key: str) -> Kind:
    """Where the key stands: in the config, the command, or the environment."""
    prefix = key.partition(":")[0] if ":" in key else ""
    return "arg" if prefix == "arg" else "env" if prefix == "env" else "config"


def key_problem(key: str) -> str:
    """Why nothing can be set by this key, and what to write instead; "" where it can."""
    prefix, colon, name = key.partition(":")
    if colon and prefix not in ("arg", "env"):
        return f"{key!r}: there is no kind of key {prefix!r}; write arg:--flag, env:NAME or a config key"
    if prefix == "arg" and colon:
        return (
            "" if _ARGUMENT.fullmatch(name) else f"{key!r} names no flag; write arg:--lr, arg:-n or arg:a.b"
        )
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


def labels(keys: Iterable[str]) -> dict[str, str]:
    """The shortest ending of each key that tells it from the others: `lr`; `actor.lr` beside `critic.lr`."""
    names = list(keys)
    parts = {name: name.rpartition(":")[2].lstrip("-+").split(".") for name in names}
    found = {}
    for name in names:
        own = parts[name]
        endings = (".".join(own[-count:]) for count in range(1, len(own) + 1))
        others = [f".{'.'.join(parts[other])}" for other in names if other != name]
        clear = (end for end in endings if not any(other.endswith(f".{end}") for other in others))
        found[name] = next(clear, name)
    return found


# --- values -------------------------------------------------------------------------------------------------


def parse_varied(text: str) -> tuple[str, list[Scalar]]:
    """`KEY=v1,v2` as the key and its values. Raises SweepError."""
    key, written = _split_key(text, "--vary", "KEY=v1,v2")
    return key, [_value(key, value, is_quoted) for value, is_quoted in _split_values(key, written)]


def parse_setting(text: str, option: str) -> tuple[str, Scalar]:
    """`KEY=VALUE` as the key and its one value. Raises SweepError that names the option."""
    key, written = _split_key(text, option, "KEY=VALUE")
    found = _split_values(key, written)
    if len(found) != 1:
        raise SweepError(f"{option} {text!r} gives {len(found)} values; put quotes around one with a comma")
    return key, _value(key, *found[0])


def as_text(value: Scalar) -> str:
    """A value as a command line or an environment variable takes it, and as tables show it."""
    return value if isinstance(value, str) else yaml_scalar(value)


def values_problem(values: Sequence[object]) -> str:
    """Why a key cannot be varied over these values; "" where it can."""
    if len(values) < 2:
        return (
            f"{len(values) or 'no'} value{'s' if not values else ''}, so nothing is varied; give two or more"
        )
    for number, value in enumerate(values):
        if problem := value_problem(value):
            return problem
        if any(is_same(value, other) for other in values[:number]):
            return f"the value {yaml_scalar(value)} stands there twice"
    return ""


def value_problem(value: object) -> str:
    """Why this cannot be a value; "" where it can."""
    if isinstance(value, list | dict):
        return f"{value!r} is a list or mapping, and only single values can be set: name a key inside it"
    if not isinstance(value, str | int | float | None):
        return f"{value} is read as a {type(value).__name__}; put quotes around it"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{yaml_scalar(value)} is no finite number"
    if isinstance(value, str) and not value.isprintable():
        return f"{value!r} holds characters that cannot be seen"
    return ""


def is_same(one: object, other: object) -> bool:
    """Whether two values are one: equal numbers (`1`, `1.0`), else equal values of one type."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and one == other


def means_same(one: object, other: object) -> bool:
    """Whether two values mean the same, as texts or typed: `1e-4` and `0.0001`."""
    if one is UNSET or other is UNSET:
        return False
    if is_same(one, other):
        return True
    first, second = (value if isinstance(value, str) else yaml_scalar(value) for value in (one, other))
    try:
        return first == second or float(first) == float(second)
    except ValueError:
        return False


def _split_key(text: str, option: str, form: str) -> tuple[str, str]:
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        raise SweepError(f"{option} {text!r} is not {form}")
    return key.strip(), written


def _split_values(key: str, text: str) -> list[tuple[str, bool]]:
    """The values between the commas that no quotes protect, and whether each is in quotes."""
    found: list[tuple[str, bool]] = []
    position = 0
    while True:
        match = _VALUE.match(text, position)
        value = match["value"] if match else text[position:].strip()
        is_quoted = value[:1] in ("'", '"')
        if match is None or (is_quoted and (len(value) < 2 or value[-1] != value[0])):
            raise SweepError(
                f"{key}: the quotes in {text[position:].strip()!r} are not closed before the comma"
            )
        if value[:1] in ("[", "{"):
            mend = "put quotes around it" if kind_of(key) != "config" else "name a key inside it"
            raise SweepError(f"{key}: {value!r} begins a list, and only single values can be set; {mend}")
        if not value:
            raise SweepError(f"{key}: an empty value in {text!r}; write null, or '' for an empty text")
        found.append((value, is_quoted))
        position = match.end()
        if not match["end"]:
            return found


def _value(key: str, text: str, is_quoted: bool) -> Scalar:
    if kind_of(key) != "config" and not is_quoted:
        return text
    value = _read(key, text)
    if problem := value_problem(value):
        raise SweepError(f"{key}: {problem}")
    return value if isinstance(value, str | int | float) else None


def _read(key: str, text: str) -> object:
    """One YAML value. A tag or a shape that promises what the text is not breaks the reader in many ways."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        found: object = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SweepError(f"{key}: {text!r} is no YAML value; put quotes inside it") from error
    if (found is None and text not in _NULLS) or (" #" in text and text[0] not in ("'", '"')):
        raise SweepError(f"{key}: YAML takes what follows # in {text!r} for a comment; put quotes inside it")
    return found


# --- names --------------------------------------------------------------------------------------------------


def point_name(number: int, digits: int, parts: Sequence[tuple[str, Scalar]]) -> str:
    """`p03-kl_loss_coef-0.01-num_repeat-8`: safe as a folder's name; the number makes it unique."""
    words = [
        word for label, value in parts for word in (label, as_text(value).rstrip("/").rpartition("/")[2])
    ]
    tail = [_UNSAFE.sub("_", word).strip(".") for word in words]
    return "-".join([f"p{number:0{digits}d}", *filter(None, tail)])[:LONGEST_NAME].rstrip("-.")
