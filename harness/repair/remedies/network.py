"""How processes and machines talk to each other, and services that a training can do without."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.command import read_or_empty
from harness.repair.remedies.settings import Setting
from harness.repair.remedies.types import Repair, Situation

if TYPE_CHECKING:
    from harness.config.edit import Scalar

LONGEST_TIMEOUT_S = 7200
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"(.*_)?revision")
_TRACKERS = {"wandb": "WANDB_MODE", "swanlab": "SWANLAB_MODE"}


def longer_timeout(now: Situation) -> Repair | None:
    """Twice the time for a collective, up to two hours."""
    edits: dict[str, Scalar] = {}
    for setting in now.settings.of("collective_timeout"):
        if setting.whole is not None and 0 < setting.whole < LONGEST_TIMEOUT_S:
            edits[setting.key] = min(LONGEST_TIMEOUT_S, setting.whole * 2)
    return Repair.of(edits)


def hub_offline(now: Situation) -> Repair | None:
    """Only where the very revision of each model that would be used is complete on this machine."""
    settings = [each for each in now.settings.of("model") if _HUB_NAME.fullmatch(str(each.value))]
    models = [(str(each.value), _revision(now, each)) for each in settings]
    if not models and _HUB_NAME.fullmatch(now.captured("model")):
        models = [(now.captured("model"), _revision(now, None))]
    is_here = bool(models) and all(now.ask.is_cached(name, revision) for name, revision in models)
    if not is_here or now.environment.get("HF_HUB_OFFLINE") == "1":
        return None
    return Repair(environment={"HF_HUB_OFFLINE": "1"})


def _revision(now: Situation, model: Setting | None) -> str:
    """The revision that is asked for beside a model, `main` where none is."""
    named = read_or_empty(now.command).plain.items()
    given = next((value for key, value in named if _REVISION.fullmatch(key.rpartition(".")[2])), None)
    beside = [each for each in now.settings.of("revision") if model is None or each.above == model.above]
    return given or next((str(each.value) for each in beside if each.value), "main")


def tracker_offline(now: Situation) -> Repair | None:
    """The tracker writes to this machine only; one that knows no such mode is left out."""
    told = now.said.lower()
    keys = now.settings.of("tracker")
    used = [name for name in _TRACKERS if name in told or any(each.value == name for each in keys)]
    if used:
        name = _TRACKERS[used[0]]
        return None if now.environment.get(name) else Repair(environment={name: "offline"})
    edits: dict[str, Scalar] = {}
    for each in keys:
        if (
            isinstance(each.value, str)
            and each.value.lower() in told
            and each.value not in ("none", "console")
        ):
            edits[each.key] = "none" if each.key.endswith(("report_to", "log_with")) else "console"
    return Repair.of(edits)
