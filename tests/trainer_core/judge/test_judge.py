"""Judges: exact match, a user's class, and everything a user's class can get wrong."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from trainer_core.judge.judge import ExactMatchJudge, Judge, Score, judged, load_judge
from trainer_core.types import DataError, Episode, StopReason, Task, TrainingError

TASK = Task("t", "52831", "12358")


def episode(text: str, repeat: int = 0, task: Task = TASK) -> Episode:
    return Episode(task, repeat, (), output=text)


def earned(judge: Judge, *episodes: Episode) -> list[tuple[float | None, bool]]:
    scored = asyncio.run(judged(judge, episodes[0].task, episodes))
    assert [one.output for one in scored] == [one.output for one in episodes]
    return [(one.reward, one.is_success) for one in scored]


@pytest.mark.parametrize(
    ("text", "reward"), [("12358", 1.0), (" 12358\n", 1.0), ("12385", 0.0), ("123580", 0.0), ("", 0.0)]
)
def test_exact_match(text: str, reward: float) -> None:
    assert earned(ExactMatchJudge(), episode(text)) == [(reward, reward == 1.0)]


def test_exact_match_needs_an_answer() -> None:
    with pytest.raises(DataError, match="task 'x' has no answer"):
        earned(ExactMatchJudge(), episode("a", task=Task("x", "q")))


def write_judge(folder: Path, returned: str, method: str = "def compute_reward(self, task, output)") -> str:
    path = folder / "my_judge.py"
    head = "from trainer_core.judge.judge import Score\nclass Mine:\n"
    path.write_text(f"{head}    {method}:\n        return {returned}\n")
    return f"{path}->Mine"


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("len(output.text) / 10, False", (0.3, False)),
        ("1, None", (1.0, True)),
        ("0.99, None", (0.99, False)),
        ("0.5, task.answer == '12358'", (0.5, True)),
    ],
)
def test_judge_from_a_file(tmp_path: Path, returned: str, expected: tuple[float, bool]) -> None:
    assert earned(load_judge(write_judge(tmp_path, returned)), episode("abc")) == [expected]


def test_a_judge_of_single_answers_is_told_which_were_cut_off(tmp_path: Path) -> None:
    judge = load_judge(write_judge(tmp_path, "float(output.finished), None"))
    cut = replace(episode("a"), stop_reason=StopReason.LENGTH)
    assert earned(judge, episode("b"), cut) == [(1.0, True), (0.0, False)]


class Ranking:
    """Rewards by length, within the group."""

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        order = sorted(len(one.output) for one in episodes)
        return [Score(order.index(len(one.output)), is_success=False) for one in episodes]


def test_a_judge_sees_the_group_without_those_that_failed() -> None:
    failed = replace(episode("", 1), error="boom")
    assert earned(Ranking(), episode("ccc"), failed, episode("a"), episode("bb")) == [
        (2.0, False),
        (None, False),
        (0.0, False),
        (1.0, False),
    ]
    assert earned(Ranking(), failed) == [(None, False)]


def test_a_judge_of_groups_from_a_file(tmp_path: Path) -> None:
    scores = "[Score(len(episodes)) for _ in episodes]"
    judge = load_judge(write_judge(tmp_path, scores, "async def score(self, task, episodes)"))
    assert earned(judge, episode("a"), episode("b")) == [(2.0, True), (2.0, True)]


def test_as_many_scores_as_episodes_are_wanted() -> None:
    class Forgetful:
        async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
            return [Score(1.0)]

    with pytest.raises(TrainingError, match="Forgetful gave 1 scores for 2 episodes of task 't'"):
        earned(Forgetful(), episode("a"), episode("b"))


def test_judge_from_a_module_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_judge(tmp_path, "2.0, True")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    assert earned(load_judge("my_judge->Mine"), episode("")) == [(2.0, True)]


def test_a_file_may_hold_dataclasses_and_say_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "json.py"  # the name of a module that everybody has imported
    path.write_text(
        "from __future__ import annotations\nimport dataclasses\n\n"
        "@dataclasses.dataclass\nclass Mine:\n    worth: float = 3.0\n\n"
        "    def compute_reward(self, task, output):\n        return self.worth, None\n"
    )
    assert earned(load_judge(f"{path}->Mine"), episode("")) == [(3.0, True)]
    path.write_text("1 / 0\n")
    with pytest.raises(TrainingError, match=r"judge_protocol: .*json.py raised ZeroDivisionError"):
        load_judge(f"{path}->Mine")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("1.0", "failed on task 't'"),
        ("None", "must return"),
        ("float('nan'), True", "finite"),
        ("{}['missing'], True", "KeyError: 'missing'"),
    ],
)
def test_what_a_judge_gets_wrong_is_said(tmp_path: Path, returned: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        earned(load_judge(write_judge(tmp_path, returned)), episode(""))


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("no.arrow", "not of the form"),
        ("nowhere_at_all->Judge", "cannot import 'nowhere_at_all'"),
        ("/nowhere/judge.py->Judge", "there is no file /nowhere/judge.py"),
        ("trainer_core.judge.judge->Exact", "no class 'Exact'.*ExactMatchJudge"),
        ("trainer_core.types->Episode", r"Episode\(\) failed with TypeError"),
        ("trainer_core.types->Sampling", r"neither a method compute_reward.*nor async score"),
    ],
)
def test_a_judge_that_cannot_be_loaded_is_explained(protocol: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        load_judge(protocol)
