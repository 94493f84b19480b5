"""What a repair may change in a config, and what it may not because it is being studied.

Edits are judged by their effects: the edit is made, and every value that then differs must be one that a
repair may change. So an anchor, a parent or an odd spelling cannot carry a change past the rules.
"""

import difflib
import math
import posixpath
import re
from collections.abc import Mapping, Sequence

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

_A_PERSON_DECIDES = (
    "a repair may change how the training runs: memory, micro-batches, offloading, parallelism, ports, "
    "time-outs, workers, logging, how often it saves. If only this change would help, put it to a person "
    "with ask_person"
)
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

Tree = Mapping[Path, Value]
Changed = Mapping[Path, tuple[Value | None, Value | None]]


def refuse_edit(
    before: str,
    changes: Mapping[str, Scalar],
    remove: Sequence[str],
    protected: Sequence[str],
    command: str = "",
) -> str | None:
    """Why these edits of the config text `before` are refused, or None. `command`: what is launched; what it
    sets itself holds against the config, and is edited there."""
    given = read_or_empty(command)
    inside = {key: value for key, value in changes.items() if given.setting_of(key) is not None}
    for key in (*changes, *remove):
        if not _KEY.fullmatch(key):
            return f"{key[:80]!r} is no dotted key: write it as it stands in the config, such as `a.b_c`"
        if key not in inside and (name := given.sets(key)) is not None:
            return f"`{key}` is set by the launch command (`{name}`), which holds here: a person changes it"
        if isinstance(value := changes.get(key), str) and not value.isprintable():
            return f"the value {value[:80]!r} for `{key}` is refused: write plain text of one line"
    outside = {key: value for key, value in changes.items() if key not in inside}
    try:
        plain = readings.readings(before)
        is_ajet = any(path[:1] == ("ajet",) for path in plain[0])
        edited = readings.readings(config_edit.edit(before, outside, remove))
        old, new = _with_command(plain, command), _with_command(edited, with_values(command, inside))
    except (UnreadableConfigError, CommandError) as error:
        return f"this edit cannot be made: {error}"
    except ConfigEditError as error:
        trackers = (keys.meaning((key,), is_ajet).about == keys.TRACKER for key in (*changes, *remove))
        return f"this edit cannot be made: {error}{_WITHOUT_AN_EDIT if any(trackers) else ''}"
    changed = readings.changed(old, new)
    refused = (_refuse_change(path, changed, new[0], is_ajet, protected) for path in changed)
    if why := next((why for why in refused if why is not None), None):
        return why
    if _parts_packed_sequences(changed, new[0]):
        return (
            "sequences are packed into one row here, and only flash attention keeps them apart: with another "
            "one they would attend to each other, so it stays"
        )
    following = readings.referring(new[0], changed)
    for path, target in following.items():
        is_free = keys.meaning(path, is_ajet).is_free or batches.is_judged(path, is_ajet)
        if not is_free or keys.is_protected(path, protected) is not None:
            return (
                f"`{'.'.join(path)}` takes its value from `{'.'.join(target)}` by `${{…}}` and would change "
                f"with it, and it is not known to be only about how the training runs; {_A_PERSON_DECIDES}"
            )
    return None if is_ajet else batches.refuse(old[0], new[0], following, given.is_of_hf_trainer)


def _with_command(trees: Sequence[Tree], command: str) -> tuple[dict[Path, Value], ...]:
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


def _refuse_change(
    path: Path, changed: Changed, tree: Tree, is_ajet: bool, protected: Sequence[str]
) -> str | None:
    """Why the value at `path` may not go from what it was to what it is in `tree` (None: taken out), or
    None."""
    shown, (was, now) = ".".join(path), changed[path]
    if (name := keys.is_protected(path, protected)) is not None:
        return f"`{shown}` is protected by the blueprint ({name}): only a person may change it (ask_person)"
    if _fits_the_engine(path, was, now, tree) or _is_respelt(path, changed, is_ajet):
        return None
    found = keys.meaning(path, is_ajet)
    if found.role == "unknown" and is_ajet and path[0] == "ajet":
        return _refuse_unknown(shown, now)
    if found.role == "unknown":
        why = f"`{shown}` is not known to be about how the training runs, so it counts as what is studied"
        return f"{why}; {_A_PERSON_DECIDES}"
    if batches.is_judged(path, is_ajet):
        return _refuse_value(shown, now)
    if found.role == "path":
        return f"`{shown}` concerns the {found.about}: only a person sets it; put it to one with ask_person"
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


def _parts_packed_sequences(changed: Changed, tree: Tree) -> bool:
    """True if the attention changes where several sequences are packed into one row: only flash attention
    keeps them apart. Verl packs unless told not to."""
    if not any(parameter(name).is_at(path) for name in _ATTENTION for path in changed):
        return False
    switches = {path: value for path, value in tree.items() if parameter("packing").is_at(path)}
    is_verl = any(path[0] == "actor_rollout_ref" for path in tree)
    is_told = any(".".join(path).endswith(_PACKING_OF_VERL) for path in switches)
    return any(not is_off(value.text) for value in switches.values()) or (is_verl and not is_told)


def _is_respelt(path: Path, changed: Changed, is_ajet: bool) -> bool:
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


def _fits_the_engine(path: Path, was: Value | None, now: Value | None, tree: Tree) -> bool:
    """True if an inference engine is given less room, which still holds the longest prompt and response, or
    just as much more as these two need. A tiny model is built for this length."""
    if not parameter("engine_length").is_at(path):
        return False
    model = tree.get(("ajet", "model", "path"))
    if path[0] == "ajet" and (model is None or model.text == "tiny"):
        return False
    found = [[was], [now]]
    found += [
        [value for at, value in tree.items() if parameter(name).is_at(at)]
        for name in ("prompt_length", "response_length")
    ]
    lengths = [[value.whole or 0 if value is not None else 0 for value in values] for values in found]
    if not all(values and all(values) for values in lengths):
        return False  # one is not there, or no plain number
    old, new, prompt, response = map(max, lengths)
    return prompt + response <= new < old or old < new == prompt + response


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
        "use a default. Put it to a person with ask_person"
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
    if not isinstance(value, str):
        return None
    parts, whole = value.split("/"), posixpath.normpath(f"/{value.lstrip('/')}")
    is_private = any(looks_private(part) for part in parts if part not in _CACHES)
    is_of_system = value.startswith("/") and f"{whole}/".startswith(_SYSTEM_FOLDERS)
    is_plain = len(value) <= _LONGEST_SETTING and _SETTING_VALUE.fullmatch(value) and "\n" not in value
    if not is_plain or "://" in value or "->" in value:
        why = "only names, numbers and plain paths are set, no addresses, code, `${…}` or quotes"
    elif ".." in parts or is_private or is_of_system:
        why = "this path leads to private files or out of its folder; name the file that the blueprint names"
    else:
        return None
    return f"the value {value[:80]!r} for `{dotted}` is refused: {why}"


def refuse_repair(repair: Remedy, config: str) -> str | None:
    """Why a built-in repair of this config is refused, or None."""
    refused = [variables.refuse(name, value) for name, value in repair.environment.items()]
    if repair.edits or repair.remove:
        refused.append(refuse_edit(config, repair.edits, repair.remove, ()))
    return next((why for why in refused if why is not None), None)
