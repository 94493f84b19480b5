"""What a repair may change in a config or an environment, and what it may not because it is being studied.

Edits are judged by their effects: the edit is made, and every value that then differs must be one that a
repair may change. So an anchor, a parent or an odd spelling cannot carry a change past the rules.
"""

import difflib
import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from harness.attempt import Remedy
from harness.command import CommandError, is_off, is_same, read_or_empty, with_values
from harness.config import edit as config_edit
from harness.config import keys, readings
from harness.config.edit import ConfigEditError
from harness.config.keys import parameter
from harness.config.readings import Path, UnreadableConfigError, Value
from harness.config.values import Scalar, as_text
from harness.guard import batches, variables
from harness.guard.file_access import looks_private

MAY_BE_CHANGED = (
    "a repair may change how the training runs: memory, micro-batches, offloading, parallelism, ports, "
    "time-outs, workers, logging, how often it saves"
)
_A_PERSON_DECIDES = (
    f"{MAY_BE_CHANGED}. If only this change would help, say in a note what to set, and finish: "
    "a person must decide"
)
_BY_A_PERSON = "only a person changes what is launched"
_WITHOUT_AN_EDIT = (
    ". A tracker that cannot be reached is also quieted by a variable: WANDB_MODE=offline or "
    "SWANLAB_MODE=local"
)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")
_WORD_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+:,=-]*|[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SETTING_VALUE = re.compile(r"[\w./+:@, -]*")
_SYSTEM_FOLDERS = ("/etc/", "/proc/", "/sys/", "/dev/", "/var/run/", "/run/")
_ATTENTION = ("attention_implementation", "flash_attention", "other_attention")
_PACKING_OF_VERL = "actor_rollout_ref.model.use_remove_padding"
_CACHES = frozenset((".cache", ".local"))  # where models and data sets are kept although the name is hidden
_NEARLY_THE_SAME = 0.8
_LONGEST_VALUE = 80
_LONGEST_SETTING = 300


def refuse_edit(
    before: str,
    changes: Mapping[str, Scalar],
    remove: Sequence[str],
    protected: Sequence[str],
    command: str = "",
) -> str | None:
    """Why these edits of the config text `before` are refused, or None. `command`: what is launched; what it
    sets itself is edited there. The same question has the same answer, so it is judged once."""
    told = tuple((key, type(value).__name__, value) for key, value in changes.items())
    return _judged(before, told, tuple(remove), tuple(protected), command)


@lru_cache(maxsize=512)
def _judged(
    before: str,
    told: tuple[tuple[str, str, Scalar], ...],
    remove: tuple[str, ...],
    protected: tuple[str, ...],
    command: str,
) -> str | None:
    changes = {key: value for key, _, value in told}
    given = read_or_empty(command)
    inside = {key: value for key, value in changes.items() if given.setting_of(key) is not None}
    outside = {key: value for key, value in changes.items() if key not in inside}
    for key in (*changes, *remove):
        if not _KEY.fullmatch(key):
            return f"{key[:80]!r} is no dotted key: write it as it stands in the config, such as `a.b_c`"
        if key not in inside and (name := given.sets(key)) is not None:
            return f"`{key}` is set by the launch command (`{name}`), which holds here: {_BY_A_PERSON}"
    for key, value in changes.items():
        if isinstance(value, str) and not value.isprintable():
            return f"the value {value[:80]!r} for `{key}` is refused: write plain text of one line"
    try:
        old = readings.readings(before)
        is_ajet = any(path[:1] == ("ajet",) for path in old[0])
        new = readings.readings(config_edit.edit(before, outside, remove))
        if inside:
            new = _with_command(new, with_values(command, inside))
            old = _with_command(old, command)
    except (UnreadableConfigError, CommandError) as error:
        return f"this edit cannot be made: {error}"
    except ConfigEditError as error:
        paths = (tuple(key.split(".")) for key in (*changes, *remove))
        trackers = [path for path in paths if keys.meaning(path, is_ajet).about == keys.TRACKER]
        hint = _WITHOUT_AN_EDIT if trackers else ""
        return f"this edit cannot be made: {error}{hint}"
    changed = readings.changed(old, new)
    for path, (was, now) in changed.items():
        fits = _is_fitting_engine_length(path, was, now, new[0]) or _is_respelt(path, changed, is_ajet)
        if fits and not keys.is_protected(path, protected):
            continue
        why = _refuse_change(path, was, now, is_ajet, protected)
        if why is not None:
            return why
        name = given.sets(".".join(path))
        if name is not None and not any(is_same(key, ".".join(path)) for key in inside):
            return f"`{'.'.join(path)}` is set by the launch command (`{name}`) too: {_BY_A_PERSON}"
    if _parts_packed_sequences(changed, new[0], command):
        return (
            "sequences are packed into one row here, and only flash attention keeps them apart: with another "
            "one they would attend to each other, so it stays"
        )
    following = readings.referring(new[0], changed)
    for path, target in following.items():
        why = _refuse_referring(path, target, is_ajet, protected)
        if why is not None:
            return why
    return None if is_ajet else batches.refuse(old[0], new[0], following, "" if inside else command)


def _with_command(trees: Sequence[dict[Path, Value]], command: str) -> tuple[dict[Path, Value], ...]:
    """What a trainer gets: the config's readings with what the command sets, which holds against it."""
    together = []
    for tree, version in zip(trees, readings.VERSIONS, strict=True):
        found = dict(tree)
        for name, text in read_or_empty(command).plain.items():
            path = next((path for path in tree if is_same(".".join(path), name)), tuple(name.split(".")))
            try:
                found[path] = readings.values(f"value: {text}", version)[("value",)]
            except (UnreadableConfigError, KeyError):
                found[path] = Value("str", text)
        together.append(found)
    return tuple(together)


def _parts_packed_sequences(
    changed: Mapping[Path, tuple[Value | None, Value | None]], tree: Mapping[Path, Value], command: str
) -> bool:
    """True if the attention changes where several sequences are packed into one row: only flash attention
    keeps them apart. What the command gives holds against the config; verl packs unless told not to."""
    if not any(parameter(name).is_at(path) for name in _ATTENTION for path in changed):
        return False
    values = {".".join(keys.named_segments(path)): value.text for path, value in tree.items()}
    given = read_or_empty(command).plain
    switches = {key: value for key, value in values.items() if parameter("packing").is_at(key)}
    for name in filter(parameter("packing").is_at, given):
        switches = {key: value for key, value in switches.items() if not is_same(key, name)}
        switches[name] = given[name]
    if any(not is_off(value) for value in switches.values()):
        return True
    is_verl = any("actor_rollout_ref" in key.split(".") for key in (*given, *values))
    return is_verl and not any(key.endswith(_PACKING_OF_VERL) for key in switches)


def _refuse_change(
    path: Path, was: Value | None, now: Value | None, is_ajet: bool, protected: Sequence[str]
) -> str | None:
    """Why the value at `path` may not become `now` (None: taken out), or None."""
    shown = ".".join(path)
    name = keys.is_protected(path, protected)
    if name is not None:
        return f"`{shown}` is protected by the blueprint ({name}) and stays as it is"
    found = keys.meaning(path, is_ajet)
    if found.role == "unknown" and is_ajet and path[0] == "ajet":
        return _refuse_unknown(shown, now)
    if found.role == "unknown":
        why = f"`{shown}` is not known to be about how the training runs, so it counts as what is studied"
        return f"{why}; {_A_PERSON_DECIDES}"
    if _is_batch(path, is_ajet):
        return _refuse_value(shown, now)
    if found.role == "path":
        return f"`{shown}` concerns the {found.about}: only the author sets it, in the blueprint's config"
    if found.role == "science":
        why = f"`{shown}` belongs to what is studied ({found.about}) and stays as the author wrote it"
        return f"{why}; {_A_PERSON_DECIDES}"
    old, new = (value.text if value is not None else "" for value in (was, now))
    if found.about == keys.TRACKER:
        return None if now is not None and found.allows(old, new) else _refuse_tracker(shown)
    if found.allows(old, new):
        return _refuse_value(shown, now)
    return (
        f"`{shown}` may not go from {old[:80] or 'nothing'!r} to {new[:80] or 'nothing'!r}, because that "
        f"could change what is trained or what leaves this machine; {_A_PERSON_DECIDES}"
    )


def _is_batch(path: Path, is_ajet: bool) -> bool:
    """True if the key is judged by the product of all factors of the effective batch."""
    found = keys.meaning(path, is_ajet)
    return not is_ajet and batches.is_factor(path) and found.about == keys.EFFECTIVE_BATCH


def _refuse_referring(path: Path, target: Path, is_ajet: bool, protected: Sequence[str]) -> str | None:
    """Why the value at `path`, which `${…}` takes from the edited `target`, may not follow it, or None."""
    is_free = keys.meaning(path, is_ajet).is_free or _is_batch(path, is_ajet)
    if is_free and keys.is_protected(path, protected) is None:
        return None
    return (
        f"`{'.'.join(path)}` takes its value from `{'.'.join(target)}` by `${{…}}` and would change with it, "
        f"and it is not known to be only about how the training runs; {_A_PERSON_DECIDES}"
    )


def _is_respelt(path: Path, changed: Mapping[Path, tuple[Value | None, Value | None]], is_ajet: bool) -> bool:
    """True if a key that is taken out was a misspelt one: its very value goes to a key beside it, spelt
    nearly the same, that was not there and only concerns how the training runs."""
    was, now = changed[path]
    if was is None or now is not None or keys.meaning(path, is_ajet).role != "unknown":
        return False
    return any(
        other[:-1] == path[:-1]
        and values == (None, was)
        and difflib.SequenceMatcher(None, path[-1], other[-1]).ratio() >= _NEARLY_THE_SAME
        and keys.meaning(other, is_ajet).is_free
        for other, values in changed.items()
    )


def _is_fitting_engine_length(
    path: Path, was: Value | None, now: Value | None, tree: Mapping[Path, Value]
) -> bool:
    """True if an inference engine is given less room, which still holds the longest prompt and response, or
    just as much more as these two need."""
    if not parameter("engine_length").is_at(path):
        return False
    model = tree.get(("ajet", "model", "path"))
    if path[0] == "ajet" and (model is None or model.text == "tiny"):
        return False  # a tiny model is built for this length
    lengths = (_length(was), _length(now), _longest(tree, "prompt_length"), _longest(tree, "response_length"))
    if None in lengths:
        return False
    old, new, prompt, response = (length or 0 for length in lengths)
    return prompt + response <= new < old or old < new == prompt + response


def _longest(tree: Mapping[Path, Value], name: str) -> int | None:
    """The greatest value of this parameter, None where there is none or one is no plain number."""
    found = [_length(value) for path, value in tree.items() if parameter(name).is_at(path)]
    known = [length for length in found if length is not None]
    return max(known) if known and len(known) == len(found) else None


def _length(value: Value | None) -> int | None:
    plain = value is not None and value.kind == "int" and re.fullmatch(r"[1-9][0-9]{0,8}", value.text)
    return int(value.text) if value is not None and plain else None


def _refuse_tracker(shown: str) -> str:
    return (
        f"`{shown}` says where metrics are sent; it may only be set to something that sends nothing, such as "
        f"`console` or `none`{_WITHOUT_AN_EDIT}"
    )


def _refuse_unknown(shown: str, now: Value | None) -> str | None:
    """A misspelt key that only concerns how the training runs may be taken out. One that was meant for the
    science may not: without it the trainer would silently use its default."""
    meant = keys.nearest_own_key(shown)
    hint = f" (did you mean `{meant}`?)" if meant else ""
    if now is not None:
        return f"`{shown}` is a key that the trainer does not know{hint}"
    if meant is not None and keys.meaning((meant,), is_ajet=True).is_free:
        return None
    return (
        f"`{shown}` may stand for something that is studied{hint}; without it the training would silently "
        "use a default. Say in a note what is misspelt, and finish: a person must decide"
    )


def _refuse_value(shown: str, now: Value | None) -> str | None:
    """A repair sets numbers, switches and plain words: nothing to be followed, imported or expanded."""
    if now is not None and not _is_finite(now.text):
        return f"the value {now.text} for `{shown}` is refused: write a number that is finite"
    if now is None or now.kind in ("int", "float", "bool", "null"):
        return None
    if now.kind == "str" and len(now.text) <= _LONGEST_VALUE and _WORD_VALUE.fullmatch(now.text):
        return None
    return (
        f"the value {now.text[:80]!r} for `{shown}` is refused: a repair sets numbers, true or false, and "
        "plain words, no paths, addresses, module names, expressions or `${…}`"
    )


def _is_finite(text: str) -> bool:
    """True if a text is no infinity and no NaN, as YAML or Python write them."""
    try:
        return math.isfinite(float(re.sub(r"^([+-]?)\.(?=[A-Za-z])", r"\1", text)))
    except ValueError:
        return True


def refuse_settings(settings: Mapping[str, Scalar]) -> str | None:
    """Why a config may not be rendered with these settings, or None.

    Rendering is how the author's own choices get into the config, so the science and protected keys may be
    set here; outputs, code, addresses and trackers may not.
    """
    return next((why for key, value in settings.items() if (why := _refuse_setting(key, value))), None)


def _refuse_setting(key: str, value: Scalar) -> str | None:
    dotted = keys.short_names().get(key, key)
    if not _KEY.fullmatch(dotted) or not dotted.startswith("ajet."):
        return f"{key[:80]!r} is neither a short name of a setting nor a dotted key that begins with `ajet.`"
    found = keys.meaning((dotted,), is_ajet=True)
    if found.role == "path":
        return f"`{dotted}` concerns the {found.about}: only the author sets it; leave it out"
    if found.about == keys.TRACKER and not found.allows("", as_text(value)):
        return _refuse_tracker(dotted)
    if found.role == "unknown":
        meant = keys.nearest_own_key(dotted)
        return f"`{dotted}` is no key of the trainer" + (f" (did you mean `{meant}`?)" if meant else "")
    if not _is_finite(str(value)):
        return f"the value {value} for `{dotted}` is refused: write a number that is finite"
    if isinstance(value, str) and (why := _refuse_setting_text(value)):
        return f"the value {value[:80]!r} for `{dotted}` is refused: {why}"
    return None


def _refuse_setting_text(value: str) -> str | None:
    if len(value) > _LONGEST_SETTING or not _SETTING_VALUE.fullmatch(value) or "\n" in value:
        return "only names, numbers and plain paths are set, without `${…}`, quotes or other signs"
    if "://" in value or "->" in value:
        return "addresses and code are not set by a model"
    parts, whole = value.split("/"), posixpath.normpath(f"/{value.lstrip('/')}")
    is_private = any(looks_private(part) for part in parts if part not in _CACHES)
    is_of_system = value.startswith("/") and f"{whole}/".startswith(_SYSTEM_FOLDERS)
    if ".." in parts or is_private or is_of_system:
        return "this path leads to private files or out of its folder; name the file that the blueprint names"
    return None


def refuse_variable(name: str, value: str, protected: Sequence[str], command: str = "") -> str | None:
    """Why this environment variable may not be set, or None."""
    if re.search(rf"(?<![\w./-]){re.escape(name)}=", command):
        return f"{name} is set by the launch command, which holds against the environment: {_BY_A_PERSON}"
    if name in protected:
        return f"{name} is protected by the blueprint and stays as it is"
    return variables.refuse(name, value)


def refuse_repair(
    repair: Remedy, config: str, protected: Sequence[str] = (), command: str = ""
) -> str | None:
    """Why a built-in repair of this config is refused, or None."""
    if repair.edits or repair.remove:
        why = refuse_edit(config, repair.edits, repair.remove, protected, command)
        if why is not None:
            return why
    variables = repair.environment.items()
    found = (refuse_variable(name, value, protected, command) for name, value in variables)
    return next((why for why in found if why is not None), None)
