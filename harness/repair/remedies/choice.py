"""From names to remedies: each is looked up, computed, held against the rules and put into words."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.attempt import Diagnosis
from harness.repair.remedies import (
    batches,
    config_keys,
    disk,
    gpu_memory,
    network,
    packages,
    ports,
    processes,
    simple,
    waiting,
)
from harness.repair.remedies.tables import table
from harness.repair.remedies.types import Kind, NobodyToAskError, Remedy, Repair, Situation, Undo

if TYPE_CHECKING:
    from harness.config.edit import Scalar

_log = logging.getLogger(__name__)

ADVISE = "advise"
SURE_ENOUGH = 0.5
WAITING: tuple[Kind, ...] = ("wait", "resume")
_WITHOUT_CHANGE: tuple[Kind, ...] = (*WAITING, "advice")

_COMPUTE: Mapping[str, Callable[[Situation], Repair | None]] = {
    "lower_gpu_memory_utilization": gpu_memory.lower_share,
    "raise_gpu_memory_utilization": gpu_memory.raise_share,
    "halve_micro_batch": batches.halve_micro_batch,
    "lower_tokens_per_gpu": batches.lower_tokens,
    "expandable_segments": gpu_memory.expandable_segments,
    "drop_expandable_segments": gpu_memory.drop_expandable_segments,
    "fewer_loader_workers": processes.fewer_loader_workers,
    "fewer_threads": processes.fewer_threads,
    "lower_swap_space": gpu_memory.lower_swap_space,
    "longer_collective_timeout": network.longer_timeout,
    "smaller_tensor_parallel": batches.smaller_tensor_parallel,
    "fit_max_model_len": batches.fit_engine_length,
    "keep_fewer_checkpoints": disk.keep_fewer_checkpoints,
    "free_own_checkpoints": disk.free_own_checkpoints,
    "free_port": ports.free_port,
    "free_leftovers": disk.free_leftovers,
    "correct_key": config_keys.correct_key,
    "hub_offline": network.hub_offline,
    "tracker_offline": network.tracker_offline,
    "raise_open_files": processes.raise_open_files,
    "torch_compile_off": gpu_memory.torch_compile_off,
    "without_flash_attention": gpu_memory.without_flash_attention,
    "resume_from_checkpoint": waiting.resume_from_checkpoint,
    "install_package": packages.install_package,
    "wait_and_retry": waiting.wait_and_retry,
}

_MEASURED: Mapping[str, Callable[[Situation], bool]] = {
    "expandable_segments": gpu_memory.is_fragmented,
    "fit_max_model_len": batches.speaks_of_engine_length,
}
"""What is not even described unless the log has measured, or says, that it would help."""
_OF_A_RUN = ("fewer_env_workers", "free_own_checkpoints", "free_leftovers")
"""What means nothing where only a log is known: it is about what the harness itself started."""


def known_names() -> frozenset[str]:
    """Every name that a signature may list, besides `advise: …`."""
    return frozenset(table("remedies"))


def remedies_for(names: Iterable[str], situation: Situation) -> list[Remedy]:
    """The remedies that apply, in the order of the names; those that were tried in vain come last, and only
    where they can go a step further. Of a log alone, the names are described in general.

    A name that is not known is passed over: a person's own signature may come from another version.
    """
    names = list(dict.fromkeys(names))
    if situation.config is None:
        names = [name for name in names if name not in _OF_A_RUN]
        names = [name for name in names if name not in _MEASURED or _MEASURED[name](situation)]
        return _once([remedy for name in names if (remedy := _described(name)) is not None])
    found = _once([remedy for name in names if (remedy := _computed(name, situation)) is not None])
    if not is_sure(situation.diagnosis):
        found = [remedy for remedy in found if remedy.kind in _WITHOUT_CHANGE]
    return sorted(found, key=lambda remedy: remedy.name in situation.tried)


def is_sure(diagnosis: Diagnosis) -> bool:
    """True if a diagnosis is sure enough for something to be changed; one that does not tell, is."""
    return diagnosis.confidence >= SURE_ENOUGH


def _once(found: list[Remedy]) -> list[Remedy]:
    """Without advice to run the very commands (in backticks) that one of the remedies stands for."""
    done = " ".join(remedy.change for remedy in found if remedy.kind != "advice")
    told = [(remedy, re.findall("`([^`]+)`", remedy.change)) for remedy in found]
    return [
        remedy
        for remedy, commands in told
        if remedy.kind != "advice" or not commands or not all(command in done for command in commands)
    ]


def _described(name: str) -> Remedy | None:
    """The remedy in general words."""
    if name.startswith(f"{ADVISE}:"):
        return Remedy(ADVISE, "advice", name.removeprefix(f"{ADVISE}:").strip(), "")
    row = table("remedies").get(name)
    if row is None:
        return None
    undo = Undo(words=row["undo"])
    return Remedy(name, row["kind"], row["change"], row["why"], row["side_effect"], undo)


def _computed(name: str, situation: Situation) -> Remedy | None:
    """The remedy with its values, None where it does not apply or the rules forbid it."""
    described = _described(name)
    if described is None or described.kind == "advice":
        return described
    try:
        does = table("remedies")[name].get("does")
        repair = simple.computed(does, situation) if does else _COMPUTE[name](situation)
        if repair is None or _is_refused(repair, situation):
            return None
    except NobodyToAskError:
        return described
    except (ArithmeticError, ValueError, OSError) as error:  # numbers of a log, files of a machine
        _log.warning("the remedy %s does not apply: %s: %s", name, type(error).__name__, str(error)[:200])
        return None
    changed = "; ".join(_in_words(repair, situation)) or described.change
    kind: Kind = "environment" if described.kind == "config" and repair.environment else described.kind
    kind = "config" if kind == "environment" and repair.edits else kind
    return replace(
        described,
        kind=kind,
        change=changed,
        undo=_undo(repair, situation, described.undo.words),
        **vars(repair),
    )


def _is_refused(repair: Repair, situation: Situation) -> bool:
    rules = situation.surroundings
    return rules is not None and repair.changes_something and rules.refuses(repair) is not None


def _in_words(repair: Repair, situation: Situation) -> list[str]:
    """`ajet.rollout.gpu_memory_utilization: 0.85 → 0.75`, one for each value."""
    values = situation.settings.values
    defaults = {each.key: each.value for each in situation.settings.all if each.is_default}
    told = [f"{key} (was {_text(values.get(key))}) is taken out" for key in repair.remove]
    for key, value in repair.edits.items():
        was = _text(values[key]) if key in values else "unset"
        was += f" ({_text(defaults[key])} by default)" if defaults.get(key) is not None else ""
        told.append(f"{key}: {was} → {_text(value)}")
    for name, value in repair.environment.items():
        told.append(f"{name}: {situation.environment.get(name) or 'unset'} → {value}")
    if repair.package:
        told.append(f"package {repair.package} is installed into the experiment's own environment")
    if repair.wait_s:
        told.append(f"wait {repair.wait_s:.0f} s, then start again without a change")
    return told


def _undo(repair: Repair, situation: Situation, words: str) -> Undo:
    values = situation.settings.values
    touched = (*repair.edits, *repair.remove)
    before: dict[str, Scalar] = {key: values[key] for key in touched if key in values}
    added = tuple(key for key in repair.edits if key not in values)
    variables = {name: situation.environment.get(name) for name in repair.environment}
    return Undo(words, before, added, variables)


def _text(value: Scalar) -> str:
    """A value as YAML writes it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
