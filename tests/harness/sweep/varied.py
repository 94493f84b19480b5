"""A codebase with a blueprint, and plans over it, for tests of what runs are made of."""

from pathlib import Path
from typing import Any

from harness.blueprint import Blueprint, read
from harness.config.edit import Scalar
from harness.sweep.plan import SweepPlan
from tests.harness.sweep.plans import grid

COMMAND = "python train.py --config conf/run.yaml --lr 1e-4 | tee out.txt"
CONFIG = """\
# how it trains
optim: {lr: 1e-4, weight_decay: 0.1}   # the optimizer
batch_size: 8
seed: 1
model: base
"""


def experiment(home: Path, command: str = COMMAND, config: str | None = CONFIG, more: str = "") -> Blueprint:
    """`home/code` with a config, and `home/plans/trial/blueprint.md` that trains it."""
    code = home / "code"
    (code / "conf").mkdir(parents=True, exist_ok=True)
    (code / "train.py").write_text("import sys; print(sys.argv)\n")
    if config is not None:
        (code / "conf" / "run.yaml").write_text(config)
    path = home / "plans" / "trial" / "blueprint.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    block = f"```bash\n{command}\n```" if command else "NA"
    path.write_text(
        f"## [exp_purpose]\nFind out how fast it learns.\n\n## [exp_codebase_dir]\n- path: `{code}`\n\n"
        f"## [exp_venv_exe]\n- path: `/usr/bin/python3`\n\n"
        f"## [exp_yaml_path]\n{'- path: `conf/run.yaml`' if config is not None else 'NA'}\n\n"
        f"## [exp_launch_command]\n{block}\n\n## [exp_result_dir]\n- path: `{home / 'results' / 'trial'}`\n\n"
        f"## [exp_max_time]\n- time: 2 hours\n- first step: 90 seconds\n\n{more}\n"
    )
    found = read(path)
    assert found.can_run, found.problems
    return found


def plan(vary: dict[str, list[Scalar]], seeds: int = 2, seed_key: str = "seed", **changes: Any) -> SweepPlan:
    """A grid over these keys; without a seed where no key takes it."""
    numbers = range(seeds) if seed_key else (None,)
    return grid(vary, numbers, **{"name": "trial-sweep", "seed_key": seed_key, **changes})
