"""A finished sweep made by hand: runs, journal, report, frozen code, finish.flag, as a sweep leaves them."""

import hashlib
from pathlib import Path

import pytest

from harness.atomic_write import write_json
from harness.codec import encode
from harness.journal.events import Finish
from harness.sweep.plan import SweepFolder, SweepPlan
from harness.sweep.reporting import build, seal, verdict
from harness.sweep.state import CanaryPassed, Drifted, Narrated, RunEnded, RunStarted, SweepReported
from tests.harness.results.finished import finished_run
from tests.harness.results.journals import section
from tests.harness.sweep.plans import begun, plan

TOKEN = "zebra-crossing-4"
QUESTION = f"Does a help with {TOKEN}?"


def shared_sweep(factory: pytest.TempPathFactory) -> Path:
    """One finished sweep for all tests of this process, which do not touch it."""
    folder = factory.getbasetemp() / "finished-sweep" / "trial"
    return folder if (folder / "finish.flag").exists() else finished_sweep(folder)


def finished_sweep(folder: Path) -> Path:
    """A sweep of two points, the second one better, with two seeds each; all runs succeeded, a package came
    to differ, and a model wrote about it."""
    folder.mkdir(parents=True)
    made: SweepPlan = plan(2, 2, canary={}, metric="val/task_pass_rate@1", question=QUESTION)
    (folder / "blueprint.md").write_text("## [exp_purpose]\nsort\n")
    (folder / "sweep.yaml").write_text("vary: {a: [1, 2]}\n")
    write_json(folder / "plan.json", encode(made))
    _freeze(folder / "snapshot")
    sweep = begun(folder, made)
    sweep.record(CanaryPassed(by="the first step of p01-s0"))
    for number, run in enumerate(made.runs):
        (folder / "plan" / run.name).mkdir(parents=True)
        (folder / "plan" / run.name / "blueprint.md").write_text(f"## [exp_purpose]\n{run.name}\n")
        better = {"lift": 0.2 * (run.point == "p02"), "metrics": ("critic/rewards/mean",)}
        finished_run(folder / run.name, seed=number, **better)
        sweep.record(RunStarted(run=run.name, job=1, lease_id=run.name))
        sweep.record(RunEnded(run=run.name, outcome="succeeded", reason="attempt 1 ran to its end"))
    sweep.record(Drifted(("packages of /venv/bin/python are not what they were: torch 2.4.0 → 2.5.1",)))
    written = section({"kind": "contrast", "key": "a", "level": 2}, words="It is [[run/p02-s1]].")
    sweep.record(Narrated({"findings": written}))
    built = build(SweepFolder(folder.resolve()), sweep.state)
    sweep.record(SweepReported(headline=tuple(built.headline)))
    judged = verdict(sweep.state)
    sweep.record(Finish(judged.outcome, judged.reason))
    seal(sweep)
    sweep.close()
    return folder


def _freeze(snapshot: Path) -> None:
    code = snapshot / "code"
    code.mkdir(parents=True)
    (code / "train.py").write_text("print('step')\n")
    checksum = hashlib.sha256((code / "train.py").read_bytes()).hexdigest()
    write_json(snapshot / "files.json", {"train.py": checksum})
    copy = {"root": "", "source": "/code", "prefix": "", "named": "/code", "method": "plain copy"}
    record = {"linked": [], "git": None, "watched": {}, "interpreter": None, "venv_exe": "/venv/bin/python"}
    write_json(snapshot / "snapshot.json", {"copy": copy, **record})
