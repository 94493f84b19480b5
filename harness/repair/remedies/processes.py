"""Fewer processes and threads of the processor, and limits of the operating system."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.repair.remedies.types import Repair, Situation

if TYPE_CHECKING:
    from harness.config.edit import Scalar

_OF_DATA = re.compile(
    r"(.*_)?(data|dataset|datasets|loader|loaders|dataloader|dataloaders|datamodule|loading)"
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def fewer_loader_workers(now: Situation) -> Repair | None:
    """Half as many processes that load data; of one, none. The order of the data stays. A plain `num_workers`
    counts only where it stands below the data: elsewhere it may be how many collect experience."""
    edits: dict[str, Scalar] = {}
    needs_one = any(each.value for each in now.settings.of("only_with_workers"))
    below = [each for each in now.settings.of("plain_workers") if any(map(_OF_DATA.fullmatch, each.above))]
    for setting in [*now.settings.of("loader_workers"), *below]:
        least = 1 if needs_one or setting.key.endswith("num_proc") else 0
        if setting.whole is not None and setting.whole > least:
            edits[setting.key] = max(least, setting.whole // 2)
    return Repair.of(edits)


def fewer_threads(now: Situation) -> Repair | None:
    """Two threads for each numerical library and process; then one."""
    wanted = "2" if now.ask.cpu_count() > 2 else "1"
    if all(now.environment.get(name) in ("1", "2") for name in _THREADS):
        wanted = "1"
    changed = {name: wanted for name in _THREADS if now.environment.get(name) != wanted}
    return Repair(environment=changed) if changed else None


def raise_open_files(now: Situation) -> Repair | None:
    """Only where the limit that was met may be raised without anybody's permission."""
    soft, hard = now.ask.open_files()
    return Repair() if soft < hard else None
