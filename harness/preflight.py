"""What can be checked in seconds before a launch, so that it does not fail after minutes.

In: the plan. Out: `Findings`: problems (the run cannot start) and warnings (it can, but a person should
know). What a blueprint alone can tell is checked by `harness.blueprint` before a result folder exists; here
is what may have changed since, and what needs the folder.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import launching
from harness.blueprint.trainer import ask_trainer

MIN_FREE_BYTES = 200 * 2**20


@dataclass(frozen=True)
class Findings:
    """Sentences for people, each with its mend."""

    problems: list[str]
    warnings: list[str]


def check(plan: Mapping[str, Any], result_dir: Path) -> Findings:
    """Look at disk, tmux, working directory and config, without starting the training."""
    problems: list[str] = []
    warnings: list[str] = []
    free = shutil.disk_usage(result_dir).free
    if free < MIN_FREE_BYTES:
        problems.append(f"only {free / 2**20:.0f} MiB are free on the disk of {result_dir}: make room there")
    if shutil.which("tmux") is None:
        problems.append("tmux is not installed: use your package manager, e.g. `apt-get install tmux`")
    codebase = Path(plan["codebase_dir"])
    if not codebase.is_dir():
        problems.append(f"the codebase {codebase} is not a folder: mend [exp_codebase_dir]")
    elif plan["launch_command"] is None:
        config = Path(plan["yaml_path"]) if plan["yaml_path"] else None
        verdict = ask_trainer(Path(plan["venv_exe"]), config, codebase)
        problems += [verdict.failure] if verdict.failure else []
        for text, mend, severity in verdict.remarks:
            (problems if severity == "error" else warnings).append(f"{text} — {mend}")
    if not launching.uses_config(plan):
        warnings.append(
            f"the launch command does not name {plan['yaml_path']}: it reads its config by itself, and its "
            "outputs are not pointed into the result folder"
        )
    return Findings(problems, warnings)
