"""Which episodes a training records, and what becomes of them when it is gone on with."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_core.backbone.main import train
from trainer_core.config.schema import Config
from trainer_core.records.store import EpisodeStore, Record

TinyConfig = Callable[..., Config]


def records(folder: Path) -> list[Record]:
    return EpisodeStore(folder / "episodes").records()


def kept(folder: Path) -> dict[str, list[int]]:
    found = records(folder)
    return {
        split: sorted({one.step for one in found if one.split == split}) for split in ("train", "validation")
    }


def test_steps_with_a_validation_the_first_and_the_last_are_kept(
    tiny_config: TinyConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tiny_config(test_freq=3, total_training_steps=5)) == 0
    assert kept(tmp_path / "run") == {"train": [1, 3, 5], "validation": [0, 3, 5]}
    store = EpisodeStore(tmp_path / "run/episodes")
    first = [one for one in store.records() if (one.split, one.step) == ("train", 1)]
    assert [one.repeat for one in first] == [0, 1, 2, 3] * 4
    for begin in range(0, 16, 4):  # grpo: a better answer of the group has the greater advantage
        group = first[begin : begin + 4]
        assert len({one.task_id for one in group}) == 1
        in_order = sorted(group, key=lambda one: one.reward or 0.0)
        assert [one.advantage for one in in_order] == sorted(one.advantage or 0.0 for one in group)
    for one in first:
        call = store.read(one).calls[0]
        text = "".join(store.pieces[each] for each in call.completion_ids)
        assert text.removesuffix("<|end|>") == store.read(one).output
        assert one.weight_version == 0
    assert {path.name for path in store.folder.iterdir()} >= {"first.html", "last.html"}
    assert "episodes" not in capsys.readouterr().err


def test_every_step_where_the_key_says_so(tiny_config: TinyConfig, tmp_path: Path) -> None:
    common = {"total_training_steps": 2, "test_freq": 0, "save_trajectory_as_json_file": True}
    assert train(tiny_config(**common)) == 0
    assert kept(tmp_path / "run") == {"train": [1, 2], "validation": [0]}


def test_what_a_resumed_run_does_again_is_recorded_once(tiny_config: TinyConfig, tmp_path: Path) -> None:
    config = tiny_config(save_trajectory_as_json_file=True, test_freq=2, save_freq=2, total_training_steps=4)
    assert train(config) == 0
    before = records(tmp_path / "run")
    checkpoints = tmp_path / "run/checkpoints"
    shutil.rmtree(checkpoints / "step_000004")
    (checkpoints / "latest").write_text("step_000002\n")
    assert train(config) == 0

    def told(one: Record) -> tuple[object, ...]:
        return one.id, one.split, one.step, one.task_id, one.repeat, one.reward, one.advantage

    assert [told(one) for one in records(tmp_path / "run")] == [told(one) for one in before]


def test_training_goes_on_where_episodes_cannot_be_kept(
    tiny_config: TinyConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/episodes").write_text("in the way")
    assert train(tiny_config(total_training_steps=2)) == 0
    assert capsys.readouterr().out.count("no more episodes are recorded") == 1
