"""The line a training ends with says what it came to, and where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_core.backbone.closing import closing_line
from trainer_core.backbone.main import train
from trainer_core.config.schema import Config


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [{"val/task_pass_rate@1": 0.25}, {"critic/rewards/mean": 0.2}, {"val/task_pass_rate@1": 0.5}],
            "done after step 2: val/task_pass_rate@1 0.25 -> 0.5 (step 0 -> 2); results in {folder}",
        ),
        (
            [{"val/task_pass_rate@1": 0.0, "val/mean_reward": 0.3}, {"val/mean_reward": 0.61234567}],
            "done after step 1: val/mean_reward 0.3 -> 0.6123 (step 0 -> 1); results in {folder}",
        ),
        (
            [{"critic/rewards/mean": 0.5}],
            "done after step 0: critic/rewards/mean 0.5 (step 0); results in {folder}",
        ),
        ([{"loss": 0.5}], "done after step 0; results in {folder}"),
        ([], "done before the first step; results in {folder}"),
    ],
)
def test_the_most_telling_number_leads(rows: list[dict[str, float]], said: str, tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(rows)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"step": 9, "cut sh')
    assert closing_line("done", tmp_path, None) == said.format(folder=tmp_path)


def test_a_checkpoint_elsewhere_is_named_in_full(tmp_path: Path) -> None:
    assert closing_line("done", tmp_path / "a", tmp_path / "b").endswith(f"a, model in {tmp_path / 'b'}")


def test_every_way_to_end_well(
    tiny_config: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def last_line(**common: Any) -> str:
        assert train(tiny_config(**common)) == 0
        return capsys.readouterr().out.splitlines()[-1]

    where = f"; results in {tmp_path / 'run'}"
    line = last_line(val_only=True)
    assert line.startswith("[ajet] validated after step 0: val/") and line.endswith(f" (step 0){where}")
    line = last_line()
    assert line.startswith("[ajet] done after step 6: val/")
    assert line.endswith(f" (step 0 -> 6){where}, model in checkpoints/step_000006")
    assert last_line() == line.replace("done after", "nothing left to train after")
    assert last_line(val_only=True).startswith("[ajet] validated after step 6: val/")
