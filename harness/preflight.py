"""What can be checked in seconds before a launch, so that it does not fail after minutes.

In: the plan. Out: `Findings`: problems (the run cannot start) and warnings (it can, but a person should
know). What a blueprint alone can tell is checked by `harness.blueprint` before a result folder exists; here
is what may have changed since, and what needs the folder.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import launching
from harness.blueprint.trainer import Verdict, ask_trainer

MIN_FREE_BYTES = 200 * 2**20


@dataclass(frozen=True)
class Findings:
    """Sentences for people, each with its mend."""

    problems: list[str]
    warnings: list[str]


def check(plan: Mapping[str, Any], result_dir: Path, draft: str | None = None) -> Findings:
    """Look at disk, tmux, working directory and config, without starting the training.

    `draft`: the config that the next launch would use, where it is not the blueprint's own.
    """
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
        verdict = _ask_trainer(plan, codebase, draft)
        problems += [verdict.failure] if verdict.failure else []
        for text, mend, severity in verdict.remarks:
            (problems if severity == "error" else warnings).append(f"{text} — {mend}")
    if not launching.uses_config(plan):
        warnings.append(
            f"the launch command does not name {plan['yaml_path']}: it reads its config by itself, and its "
            "outputs are not pointed into the result folder"
        )
    return Findings(problems, warnings)


def _ask_trainer(plan: Mapping[str, Any], codebase: Path, draft: str | None) -> Verdict:
    """The trainer's own dry run of the config that would be launched."""
    python = Path(plan["venv_exe"])
    if draft is None:
        return ask_trainer(python, Path(plan["yaml_path"]) if plan["yaml_path"] else None, codebase)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(draft, encoding="utf-8")
        verdict = ask_trainer(python, config, codebase)
    remarks = tuple(
        (text.replace(str(config), "config.yaml"), mend, severity) for text, mend, severity in verdict.remarks
    )
    return replace(verdict, remarks=remarks)
