"""A finished sweep made by hand: runs, journal, report, frozen code, finish.flag, as a sweep leaves them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.durable import write_json
from harness.results.compare import compare
from harness.results.sweeps.report import build_sweep_report
from harness.results.sweeps.view import SweepAbout
from harness.sweep.ending import seal, verdict
from harness.sweep.reporting import study
from harness.sweep.types import SweepPlan
from tests.harness.results.finished import finished_run
from tests.harness.sweep.plans import begun, plan


def finished_sweep(folder: Path, points: int = 2, seeds: int = 2) -> Path:
    """A sweep whose second point is better; all runs succeeded."""
    folder.mkdir(parents=True)
    made: SweepPlan = plan(points, seeds, canary={}, metric="val/task_pass_rate@1", question="Does a help?")
    (folder / "blueprint.md").write_text("## [exp_purpose]\nsort\n")
    (folder / "sweep.yaml").write_text("vary: {a: [1, 2]}\n")
    write_json(folder / "plan.json", made.as_json())
    code = folder / "snapshot" / "code"
    code.mkdir(parents=True)
    (code / "train.py").write_text("print('step')\n")
    checksum = hashlib.sha256((code / "train.py").read_bytes()).hexdigest()
    write_json(
        folder / "snapshot" / "files.json", {"train.py": {"size": 14, "mtime_ns": 0, "sha256": checksum}}
    )
    sweep = begun(folder, made)
    sweep.record("checked", by="the first step of p01-s0")
    for number, run in enumerate(made.runs):
        (folder / "plan" / run.name).mkdir(parents=True)
        (folder / "plan" / run.name / "blueprint.md").write_text(f"## [exp_purpose]\n{run.name}\n")
        finished_run(
            folder / run.name, seed=number, lift=0.2 * (run.point == "p02"), metrics=("critic/rewards/mean",)
        )
        sweep.record("started", run=run.name, job=1, lease_id=run.name)
        sweep.record("ended", run=run.name, outcome="succeeded", reason="attempt 1 ran to its end")
    compared = compare(study(folder.resolve(), sweep.state), ("package torch differs",))
    about = SweepAbout(made.name, made.question, "succeeded", verdict(sweep.state).reason, design="grid")
    built = build_sweep_report(folder, compared, about, made.as_json())
    sweep.record("reported", headline=list(built.headline))
    judged = verdict(sweep.state)
    sweep.record("finish", outcome=judged.outcome.value, reason=judged.reason)
    seal(sweep)
    sweep.close()
    return folder
