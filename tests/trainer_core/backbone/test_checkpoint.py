"""Checkpoints against crashes, damage and changes of course, with an engine of one text file."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trainer_core.backbone.checkpoint import Checkpoint, Checkpoints
from trainer_core.types import TrainingError


class Engine:
    """Its weights are a word."""

    def __init__(self, word: str = "start") -> None:
        self.word = word

    def save(self, folder: Path) -> None:
        (folder / "weights").write_text(self.word)

    def load(self, folder: Path) -> None:
        if not (folder / "weights").read_text():
            raise TrainingError(f"checkpoint {folder} is damaged")
        self.word = (folder / "weights").read_text()


class Tokenizer:
    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}")


def save(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        engine: Any = Engine(f"step {step}")
        row, config = {"actor/lr": step / 7}, {"name": "test"}
        checkpoints.save(Checkpoint(step, "abc", row, config), engine, Tokenizer())


def resume(checkpoints: Checkpoints) -> tuple[Checkpoint | None, str, list[str]]:
    """What is gone on from, the engine's word, what was said."""
    engine: Any = Engine()
    said: list[str] = []
    found = checkpoints.resume(engine, check=lambda _: None, say=said.append)
    return found, engine.word, said


def names(folder: Path) -> list[str]:
    return sorted(each.name.removeprefix("step_0000") for each in folder.iterdir())


def test_the_latest_comes_back_as_it_was(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, None), 10, 20)
    found, word, said = resume(Checkpoints(tmp_path, None))
    row, folder = {"actor/lr": 20 / 7}, tmp_path / "step_000020"
    assert found == Checkpoint(20, "abc", row, {"name": "test"}, folder=folder)
    assert word == "step 20" and not said


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert resume(Checkpoints(tmp_path / "none", None)) == (None, "start", [])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "weights").write_text(""),
        lambda folder: (folder / "checkpoint.json").write_text('{"step": 3'),
        lambda folder: (folder / "checkpoint.json").write_text('{"pace": 3}'),
        lambda folder: (folder / "checkpoint.json").unlink(),
        lambda folder: folder.rename(folder.with_name("elsewhere")),
    ],
)
def test_a_damaged_one_gives_way_to_the_one_before(tmp_path: Path, damage: Any) -> None:
    save(Checkpoints(tmp_path, None), 10, 20, 30)
    damage(tmp_path / "step_000030")
    found, word, said = resume(Checkpoints(tmp_path, None))
    assert found is not None and (found.step, word) == (20, "step 20")
    assert len(said) == 1 and "step_000030" in said[0] and said[0].endswith("going back to step_000020")


def test_when_all_are_damaged_the_newest_is_named(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, None), 10, 20)
    for folder in tmp_path.glob("step_*"):
        (folder / "weights").write_text("")
    with pytest.raises(TrainingError, match=r"step_000020 is damaged.*no older one.*resume: never"):
        resume(Checkpoints(tmp_path, None))


def test_a_checkpoint_of_another_run_is_refused_not_skipped(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, None), 10, 20)

    def check(checkpoint: Checkpoint) -> None:
        raise TrainingError(f"{checkpoint.folder.name} belongs to another")

    engine: Any = Engine()
    with pytest.raises(TrainingError, match="step_000020 belongs to another"):
        Checkpoints(tmp_path, None).resume(engine, check=check, say=print)
    assert engine.word == "start"


def test_going_back_by_hand_never_costs_the_checkpoint_just_written(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, 3), 10, 20, 30)
    (tmp_path / "latest").write_text("step_000020\n")
    again = Checkpoints(tmp_path, 1)
    assert resume(again)[1] == "step 20"
    save(again, 26)
    assert names(tmp_path) == ["26", "latest"]
    assert resume(Checkpoints(tmp_path, 1))[1] == "step 26"


def test_what_was_given_up_goes_also_where_all_are_kept(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, None), 10, 20, 30)
    (tmp_path / "latest").write_text("step_000020\n")
    again = Checkpoints(tmp_path, None)
    resume(again)
    save(again, 26)
    assert names(tmp_path) == ["10", "20", "26", "latest"]


def test_the_last_ones_by_step_are_kept(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, 2), 999_998, 999_999, 1_000_000)
    assert sorted(each.name for each in tmp_path.glob("step_*")) == ["step_1000000", "step_999999"]


def test_everything_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(
        os,
        "fsync",
        lambda number: (events.append(Path(f"/proc/self/fd/{number}").resolve().name), fsync(number))[1],
    )
    monkeypatch.setattr(Path, "rename", lambda path, to: (events.append("rename"), rename(path, to))[1])
    save(Checkpoints(tmp_path, None), 10)
    before, after = events[: events.index("rename")], events[events.index("rename") + 1 :]
    assert set(before) == {"weights", "tokenizer.json", "checkpoint.json", ".draft-step_000010"}
    assert before[-1] == ".draft-step_000010"
    assert after[0] == after[-1] == tmp_path.name and any("latest" in each for each in after)


def test_a_full_disk_leaves_the_earlier_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    save(checkpoints, 10)

    class Full(Engine):
        def save(self, folder: Path) -> None:
            raise OSError(28, "No space left on device")

    engine: Any = Full()
    with pytest.raises(TrainingError, match=r"step 20.*No space left.*another checkpoint_base_dir"):
        checkpoints.save(Checkpoint(20, "abc", {}, {}), engine, Tokenizer())
    assert names(tmp_path) == ["10", "latest"]
    assert json.loads((tmp_path / "step_000010" / "checkpoint.json").read_text())["step"] == 10
