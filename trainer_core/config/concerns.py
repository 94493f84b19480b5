"""What the keys of the schema are about, and what follows for whoever changes one between two launches.

A section names it as a class keyword (`concerns="optimizer"`), keys that differ from it beside (`but`).
`python -m trainer_core.config.concerns FILE` writes all of it as JSON, for programs that read these configs
and must not import the trainer.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROLES = {
    "science": (
        "model", "full training or LoRA", "data", "prompt or response length", "effective batch", "sampling",
        "algorithm", "optimizer", "seed", "amount of training", "validation", "reward",
    ),
    "resource": ("how the training runs",),
    "path": ("name or output folder of the run", "code that would be loaded", "address or key of a service"),
    "cosmetic": ("what is logged and saved", "experiment tracker"),
}  # fmt: skip
"""`science`: what an experiment studies; `resource`: how it runs; `path`: names of files, folders, code and
addresses; `cosmetic`: what is shown and kept."""


def exported() -> dict[str, dict[str, Any]]:
    """Every key below `ajet.`: its role, what it is about, its default, and False for `local` where that
    backbone does not read it."""
    from trainer_core.config.keys import all_keys
    from trainer_core.config.support import rule_for

    roles = {concern: role for role, concerns in ROLES.items() for concern in concerns}
    found = {}
    for path, key in all_keys().items():
        if path.startswith("ajet.") and not key.is_section:
            found[path] = {"role": roles[key.concern], "about": key.concern, "default": key.default}
            rule = rule_for(path)
            if rule is not None and rule.verdict == "ignored" and rule.takes is None:
                found[path]["local"] = False
    return found


def as_json() -> str:
    """The export, one line for each key."""
    lines = [f"  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in exported().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(as_json(), encoding="utf-8")
