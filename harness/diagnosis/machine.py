"""What the samples of an attempt's resources tell of its end. In: `resources.jsonl`. Out: evidence, or
None."""

import json
from pathlib import Path

from harness.diagnosis.types import Evidence

SHARE_USED = 0.95


def out_of_memory(resources: Path) -> Evidence | None:
    """The last sample, where the training's processes held nearly all memory that the machine had left to
    give: whoever is killed after that was most probably killed for it."""
    try:
        lines = resources.read_bytes().splitlines()
    except OSError:
        return None
    for number, line in reversed(list(enumerate(lines, start=1))):
        try:
            sample = json.loads(line)
            rss, available = int(sample["rss_bytes"]), int(sample["mem_available_bytes"])
        except (ValueError, TypeError, KeyError):
            continue
        if rss + available > 0 and rss / (rss + available) >= SHARE_USED:
            return Evidence(resources.name, number, line.decode(errors="replace"))
        return None
    return None
