"""Judges: exact match, a user's class, and everything a user's class can get wrong."""

from pathlib import Path

import pytest

from trainer_core.judge.judge import ExactMatchJudge, judge_output, load_judge
from trainer_core.types import DataError, Output, Task, TrainingError

TASK = Task("t", "52831", "12358")


@pytest.mark.parametrize(
    ("text", "reward"), [("12358", 1.0), (" 12358\n", 1.0), ("12385", 0.0), ("123580", 0.0), ("", 0.0)]
)
def test_exact_match(text: str, reward: float) -> None:
    assert judge_output(ExactMatchJudge(), TASK, Output(text, True)) == (reward, reward == 1.0)


def test_exact_match_needs_an_answer() -> None:
    with pytest.raises(DataError, match="task 'x' has no answer"):
        judge_output(ExactMatchJudge(), Task("x", "q"), Output("a", True))


def write_judge(folder: Path, returned: str) -> str:
    path = folder / "my_judge.py"
    path.write_text(f"class Mine:\n    def compute_reward(self, task, output):\n        return {returned}\n")
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
    assert judge_output(load_judge(write_judge(tmp_path, returned)), TASK, Output("abc", True)) == expected


def test_judge_from_a_module_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_data.py").write_text(
        "class Mine:\n    def compute_reward(self, task, output):\n        return 2.0, True\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    assert judge_output(load_judge("beside_the_data->Mine"), TASK, Output("", True)) == (2.0, True)


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
        judge_output(load_judge(write_judge(tmp_path, returned)), TASK, Output("", True))


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("no.arrow", "not of the form"),
        ("nowhere_at_all->Judge", "cannot import 'nowhere_at_all'"),
        ("/nowhere/judge.py->Judge", "there is no file /nowhere/judge.py"),
        ("trainer_core.judge.judge->Exact", "no class 'Exact'.*ExactMatchJudge"),
        ("trainer_core.types->Task", r"Task\(\) failed with TypeError"),
    ],
)
def test_a_judge_that_cannot_be_loaded_is_explained(protocol: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        load_judge(protocol)
