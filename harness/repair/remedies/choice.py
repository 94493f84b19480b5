"""From names to remedies: each is looked up, computed (by the function of its name in `memory` or `services`,
else by its row in `remedies.yaml`) and put into words."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.attempt import Remedy, RemedyKind, Undo
from harness.config.values import Scalar, as_text
from harness.installation import own_table
from harness.repair.remedies import memory, services
from harness.repair.remedies.situation import Edits, Repair, Situation, UnknownError
from harness.wording import filled

_log = logging.getLogger(__name__)

_ADVISE = "advise:"
LONGEST_WAIT_S = 900.0
WAITING: tuple[RemedyKind, ...] = ("wait", "resume")

_ENGINE = re.compile(r"(?i)engine|vllm|sglang|lmdeploy|rollout|kv.?cache")
_OF_ENGINES = (
    "enforce_eager",
    "lower_concurrent_sequences",
    "lower_gpu_memory_utilization",
    "lower_swap_space",
    "raise_gpu_memory_utilization",
    "smaller_tensor_parallel",
)
_SHARDED = re.compile(r"(?i)fsdp|verl|deepspeed|megatron|zero|actor|engine|optimizer_offload")


def _about(pattern: str | re.Pattern[str]) -> Callable[[Situation], bool]:
    return lambda now: re.search(pattern, now.said) is not None


_IN_GENERAL: Mapping[str, Callable[[Situation], bool]] = {
    "correct_key": lambda now: services.is_near(now.captured("key"), now.captured("meant")),
    "correct_path": lambda now: bool(now.captured("new")),
    "expandable_segments": memory.is_fragmented,
    "fit_max_model_len": lambda now: bool(now.captured("max_model_len")),
    "hub_offline": lambda now: now.diagnosis.signature != "hub_repository_missing",
    "install_version": lambda now: services.requirement(now) != "",
    "torch_compile_off": _about(r"(?i)inductor|dynamo|triton|torch\.compile|compiler"),
    "without_flash_attention": _about(r"(?i)flash"),
    **dict.fromkeys(_OF_ENGINES, _about(_ENGINE)),
    **dict.fromkeys(("offload_optimizer", "offload_parameters"), _about(_SHARDED)),
    **dict.fromkeys(("fewer_env_workers", "free_own_checkpoints", "free_leftovers"), lambda now: False),
}
"""When these mean something although only a log is known: it has measured that they would help, or speaks of
what they change; never where they are about what the harness itself started."""


def known_names() -> frozenset[str]:
    """Every name that a signature may list, besides `advise: …`."""
    return frozenset(_table())


def remedies_for(names: Iterable[str], situation: Situation) -> list[Remedy]:
    """The remedies that apply, in the order of the names; those that were tried in vain come last, and only
    where they can go a step further. Of a log alone, the names are described in general.

    A name that is not known is passed over: a person's own signature may come from another version.
    """
    names = list(dict.fromkeys(names))
    if situation.config is None:
        names = [name for name in names if name not in _IN_GENERAL or _IN_GENERAL[name](situation)]
        return [remedy for name in names if (remedy := _told(name, situation)) is not None]
    found = [remedy for name in names if (remedy := _computed(name, situation)) is not None]
    if not situation.diagnosis.is_sure:
        found = [remedy for remedy in found if remedy.kind in (*WAITING, "advice")]
    return sorted(found, key=lambda remedy: remedy.name in situation.tried)


def _told(name: str, situation: Situation) -> Remedy | None:
    """The remedy in words, with what the log measured."""
    row = described(name)
    if row is None:
        return None
    variable = (_table().get(name, {}).get("does") or {}).get("set", "")
    by_hand = f"export {variable}={_table()[name]['does']['to']}" if variable else ""
    return replace(row, change=filled(row.change, situation.values), by_hand=by_hand)


def described(name: str) -> Remedy | None:
    """The remedy in general words."""
    if name.startswith(_ADVISE):
        return Remedy.advice(name.removeprefix(_ADVISE).strip())
    row = _table().get(name)
    if row is None:
        return None
    return Remedy(name, row["kind"], row["change"], row["why"], row["side_effect"], Undo(words=row["undo"]))


def may_not_fit(remedy: Remedy) -> bool:
    """True for what is only right under conditions that a log does not show."""
    return remedy.kind in WAITING or _table().get(remedy.name, {}).get("conditional", False)


def _computed(name: str, situation: Situation) -> Remedy | None:
    """The remedy with its values, None where it does not apply."""
    row = _told(name, situation)
    if row is None or row.kind == "advice":
        return row
    try:
        compute = getattr(memory, name, None) or getattr(services, name, None)
        found = compute(situation) if compute is not None else _from_table(name, situation)
    except UnknownError:
        return row
    except (ArithmeticError, ValueError, OSError) as error:  # numbers of a log, files of a machine
        _log.warning("the remedy %s does not apply: %s: %s", name, type(error).__name__, str(error)[:200])
        return None
    if found is None or found == {}:
        return None
    repair = found if isinstance(found, Repair) else Repair(edits=found)
    kind = row.kind
    if kind in ("config", "environment"):
        kind = "environment" if repair.environment and not repair.edits else "config"
    changed = "; ".join(_in_words(repair, situation)) or row.change
    undo = _undo(repair, situation, row.undo.words)
    return replace(row, kind=kind, change=changed, undo=undo, **vars(repair))


def _from_table(name: str, now: Situation) -> Repair | Edits | None:
    """What a row's `does` comes to (see `remedies.yaml`)."""
    row = _table()[name]
    if row["kind"] in WAITING:
        wait_s = now.diagnosis.wait_s * 2 ** now.tried.count("wait_and_retry")
        return Repair(wait_s=min(LONGEST_WAIT_S, wait_s)) if now.diagnosis.transient else None
    match row["does"]:
        case {"switch_on": parameter}:
            return {each.key: True for each in now.changeable(parameter) if each.value is False}
        case {"halve": parameter, "least": least}:
            wholes = [(each.key, each.whole or 0) for each in now.changeable(parameter)]
            return {key: max(least, size // 2) for key, size in wholes if size > least}
        case {"double": parameter, "most": most}:
            wholes = [(each.key, each.whole or most) for each in now.changeable(parameter)]
            return {key: min(most, 2 * number) for key, number in wholes if 0 < number < most}
        case {"keep": parameter, "last": last}:
            kept = [(each.key, each.whole or 0) for each in now.changeable(parameter)]
            return {key: last for key, number in kept if not 0 < number <= last}
        case {"free": what}:
            return Repair() if now.machine.owned(what) > 0 else None
        case {"set": variable, "to": value}:
            return now.variables({variable: value})
    raise KeyError(f"remedies.yaml: {name} does nothing that is known")


def _in_words(repair: Repair, situation: Situation) -> list[str]:
    """`ajet.rollout.gpu_memory_utilization: 0.85 → 0.75`, one for each value."""
    values = situation.settings.values
    defaults = {each.key: each.value for each in situation.settings.all if each.is_default}
    words = [f"{key} (was {as_text(values.get(key))}) is taken out" for key in repair.remove]
    for key, value in repair.edits.items():
        was = as_text(values[key]) if key in values else "unset"
        was += f" ({as_text(defaults[key])} by default)" if defaults.get(key) is not None else ""
        words.append(f"{key}: {was} → {as_text(value)}")
    for name, value in repair.environment.items():
        words.append(f"{name}: {situation.environment.get(name) or 'unset'} → {value}")
    if repair.package:
        words.append(f"package {repair.package} is installed into the experiment's own environment")
    if repair.wait_s:
        words.append(f"wait {repair.wait_s:.0f} s, then start again without a change")
    return words


def _undo(repair: Repair, situation: Situation, words: str) -> Undo:
    values = situation.settings.values
    before: dict[str, Scalar] = {key: values[key] for key in (*repair.edits, *repair.remove) if key in values}
    added = tuple(key for key in repair.edits if key not in values)
    return Undo(words, before, added, {name: situation.environment.get(name) for name in repair.environment})


def _table() -> Mapping[str, Any]:
    return dict(own_table(Path(__file__).with_name("remedies.yaml")))
