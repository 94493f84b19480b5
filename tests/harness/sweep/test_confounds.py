"""What differs between points beside what is varied: planted differences must be named, and nothing else."""

import json
from pathlib import Path
from typing import Any

from harness.config.training import for_attempt
from harness.sweep import confounds
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepPlan
from harness.sweep.points import Base, config_text, write_runs
from tests.harness.sweep.varied import experiment, plan

VARY = {"optim.weight_decay": [0.1, 0.2], "arg:--lr": ["1e-4", "3e-4"], "env:MODE": ["a", "b"]}


def written(home: Path, folder: SweepFolder, vary: dict[str, list[Any]] = VARY, **more: Any) -> SweepPlan:
    made, base = plan(vary, canary={"batch_size": 1}), experiment(home, **more)
    write_runs(made, Base(base, config_text(base), base.codebase_dir), folder)
    return made


def warned(home: Path, command: str, vary: dict[str, list[Any]]) -> tuple[str, ...]:
    base = experiment(home, command)
    return confounds.warnings(plan(vary), Base(base, config_text(base), base.codebase_dir))


def test_what_follows_from_varying_a_key_is_said_once_per_key(tmp_path: Path) -> None:
    command = "python train.py --config conf/run.yaml --lr 1 --output_dir out --epochs 3"
    vary: dict[str, list[Any]] = {"batch_size": [8, 16], "arg:--epochs": ["3", "6"], "arg:--lr": ["1", "2"]}
    said = warned(tmp_path, command, vary)
    assert [sentence.split()[0] for sentence in said] == ["batch_size", "arg:--epochs", "output_dir"]
    assert "samples" in said[0] and "compute" in said[1] and "HARNESS_ATTEMPT_DIR" in said[2]
    command = 'python train.py conf/run.yaml --output_dir "$HARNESS_ATTEMPT_DIR/out"'
    assert warned(tmp_path, command, {"optim.lr": [1e-4, 1e-3]}) == ()


def finished(folder: SweepFolder, run: str, last: int = 10, **provenance: Any) -> Path:
    """A run that ended well, with the config it was planned with; its last attempt's folder."""
    result = folder.result_dir(run)
    attempt = result / "attempts" / "01"
    attempt.mkdir(parents=True)
    text = folder.run_config(run).read_text()
    (attempt / "config.yaml").write_text(for_attempt(text, attempt))
    (attempt / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(last + 1)))
    facts = {"interpreter": {"packages": {"torch": "2.4.0"}}, "hardware": {"cpu": "fast", "gpus": ["H100"]}}
    (result / "provenance.json").write_text(json.dumps({**facts, **provenance}))
    (result / "finish.flag").write_text('{"outcome": "succeeded"}')
    return attempt


def test_what_came_to_differ_is_said_run_by_run(tmp_path: Path, folder: SweepFolder) -> None:
    made = written(tmp_path, folder)
    finished(folder, "p01-s0")
    finished(folder, "p04-s0")
    assert confounds.afterwards(made, folder) == ((), ()), "they went as planned"
    used = finished(folder, "p02-s0", last=7) / "config.yaml"
    used.write_text(used.read_text().replace("batch_size: 8", "batch_size: 4"))
    other = {"interpreter": {"packages": {"torch": "2.5.1", "new": "1"}}}
    finished(folder, "p03-s0", **other, hardware={"cpu": "fast", "gpus": ["A100"]})
    finished(folder, "p05-s0", last=3)
    (folder.result_dir("p05-s0") / "finish.flag").write_text('{"outcome": "failed"}')
    sentences, differing = confounds.afterwards(made, folder)
    repaired = "run p02-s0 was repaired and ended with another config than planned: batch_size 8 → 4"
    assert sentences == (repaired,)
    assert [one.what for one in differing] == ["GPU", "set of packages"]
    assert (differing[0].values["p01-s0"], differing[0].values["p03-s0"]) == ("H100", "A100")
    packages = differing[1].values
    assert packages["p03-s0"] == "new 1, torch 2.5.1" and packages["p05-s0"] == "new absent, torch 2.4.0"
