"""A finished run made by hand: raw files, journal, report and finish.flag, as a run leaves them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness import blueprint
from harness.atomic_write import write_json
from harness.codec import encode
from harness.redaction import NO_SECRETS
from harness.results.manifest import vouched_for
from harness.results.report import build_report
from harness.results.verify import run_flag
from harness.state import fold
from tests.harness.results.journals import Story
from tests.harness.results.synthetic import START, attempt, draw_successes, training_rows

BLUEPRINT = """# Sort digits

## [exp_purpose]
Does it learn to sort?

## [exp_launch_command]
`python train.py --lr 1e-4`

## [exp_max_time]
2 hours
"""


def finished_run(
    result_dir: Path, seed: int = 3, lift: float = 0.0, metrics: Sequence[str] = (), **narrative: Any
) -> Path:
    """A run of twelve steps with two validations; `lift` is added to the last pass rate. `metrics`: the only
    ones it has, () for all; `narrative`: what a model wrote."""
    rng = np.random.default_rng(seed)
    result_dir.mkdir(parents=True)
    (result_dir / "blueprint.md").write_text(BLUEPRINT)
    plan = encode(blueprint.read(result_dir / "blueprint.md", result_dir))
    write_json(result_dir / "provenance.json", {"seeds": {"ajet.trainer_common.seed": seed}})
    made = attempt(result_dir).exit(seconds=597.0).config(f"lr: 1e-4\nseed: {seed}\n").pane("loading\n")
    rows = training_rows(rng, range(1, 13))
    made.metrics([(step, {key: row[key] for key in metrics or row}) for step, row in rows])
    rates = {0: 0.3, 12: 0.5 + lift}
    made.validations({step: draw_successes(rng, rate, 6, 4) for step, rate in rates.items()})
    story = Story().created("playbook", **plan).act("prepare").attempt(1)
    story.ended(reason="attempt 1 ran to its end")
    for written in narrative.values():
        story.act("write_sections", {}, written={written["section"]: written}, left_out=[])
    headline = build_report(result_dir, story.write(result_dir)).headline
    story.act("report", headline=list(headline), discrepancies=[])
    story.add("finish", outcome="succeeded", reason="attempt 1 ran to its end").write(result_dir)
    flag = {**run_flag(fold(story.entries), NO_SECRETS), "manifest": vouched_for(result_dir)}
    write_json(result_dir / "finish.flag", flag)
    assert fold(story.entries).created_at == START
    return result_dir
