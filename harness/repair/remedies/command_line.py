"""What a launch command says for itself: settings, which win over any config, and the trainer.

In: a shell command as the author wrote it. Out: names and values of `--name value`, `--name=value` and
`name=value`, and whether a trainer is started whose reading of a config is known.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

_FLAG = re.compile(
    r"(?<![^\s'\"`=(])(?:--|-(?=[A-Za-z]{2}))(?P<name>[A-Za-z_][\w./@-]*)(?:(?:=|\s+(?!-[A-Za-z-]))(?P<value>[^\s'\"`;|&]+)|)"
)
_OVERRIDE = re.compile(
    r"(?<![^\s'\"`(])(?:\+{1,2}|~|--)?(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>[^\s'\"`;|&]*)"
)
_DELETED = re.compile(r"(?<![^\s'\"`(])~(?P<name>[A-Za-z_][\w./@-]*)")
_ACCUMULATES = re.compile(
    r"(?<![\w./-])(?:\S*/)?(?:trl|axolotl|llamafactory-cli)\s+[a-z]"
    r"|-m\s+(?:trl|axolotl|llamafactory|transformers)\b"
    r"|\btrl/scripts/\w+\.py|\brun_(?:clm|mlm|plm|glue|qa|swag|ner|summarization|translation)\.py"
)
_OFF = frozenset(("", "0", "no", "off", "false", "none", "null"))


@lru_cache(maxsize=64)
def given(command: str) -> Mapping[str, str]:
    """Dotted name, in lower case with `_` for `-`, to the value that the command gives it; a flag alone says
    true, one with `no-` before it false, and what is deleted is null."""
    found = {plain(match["name"]): "null" for match in _DELETED.finditer(command)}
    for match in _FLAG.finditer(command):
        name = plain(match["name"])
        found[name] = match["value"] or "true"
        if name.startswith("no_"):
            found.setdefault(name.removeprefix("no_"), "false")
    return found | {plain(match["name"]): match["value"] for match in _OVERRIDE.finditer(command)}


def sets(command: str, key: str) -> str | None:
    """The name under which the command gives the setting at `key`, or a section that holds it; None where it
    does not."""
    return next(
        (name for name in given(command) if is_same(key, name) or plain(key).startswith(f"{name}.")), None
    )


def is_same(key: str, name: str) -> bool:
    """Whether both may mean one setting: what stands before a name may be left out on either side."""
    one, other = f".{plain(key)}", f".{plain(name)}"
    return one.endswith(other) or other.endswith(one)


def value_of(command: str, name: re.Pattern[str]) -> str | None:
    """The value of the first setting of the command whose last name matches in full; None for none."""
    return next(
        (value for key, value in given(command).items() if name.fullmatch(key.rpartition(".")[2])), None
    )


def is_off(value: object) -> bool:
    """Whether a value of a config or a command line switches something off."""
    return str(value).strip().lower() in _OFF


def reads_accumulation(command: str) -> bool:
    """Whether the trainer evidently reads `gradient_accumulation_steps` beside `per_device_train_batch_size`,
    also where its config does not name it: one built on the Hugging Face Trainer, started by its own program.
    Any script may be behind `accelerate launch` or `deepspeed`."""
    return bool(_ACCUMULATES.search(command))


def plain(name: str) -> str:
    """A setting's name as others may spell it."""
    return name.lower().replace("-", "_").replace("/", ".").strip(".")
