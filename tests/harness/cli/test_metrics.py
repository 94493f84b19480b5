"""`harness metrics`: what a person and a script get from a log, and the proposal where it has no rows."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from tests.harness.cli.typed import typed

KERAS = "\n".join(
    f"Epoch {epoch}/2\n10/10 [====] - 1s 2ms/step - loss: {1 / epoch} - val_accuracy: 0.{epoch}"
    for epoch in (1, 2)
)
metrics = partial(typed, "metrics")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "train.log"
    file.write_text(KERAS + "\n")
    return file


def test_a_script_gets_rows_as_they_were_printed(log: Path) -> None:
    status, out, _ = metrics(log, "--json")
    assert status == 0
    assert json.loads(out) == {
        "source": str(log),
        "rows": [
            {"line": 2, "step": 10, "epoch": 1.0, "values": {"loss": 1.0, "val_accuracy": 0.1}},
            {"line": 4, "step": 10, "epoch": 2.0, "values": {"loss": 0.5, "val_accuracy": 0.2}},
        ],
        "leading": "val_accuracy",
        "goal": "max",
    }


def test_a_person_sees_the_leading_metric_and_its_direction(log: Path) -> None:
    status, out, _ = metrics(log)
    assert status == 0
    assert "val_accuracy, more is better" in out and "epoch" in out and "loss  2 values, " in out
    log.write_text("\n".join(KERAS.splitlines()[:2]) + "\n")
    assert "loss  1 value, " in metrics(log)[1]


def test_a_log_without_rows_gets_a_proposal_that_can_be_tried(tmp_path: Path) -> None:
    file = tmp_path / "own.log"
    file.write_text("".join(f"after {n} rounds quality is 0.{n}\n" for n in (3, 4, 5)))
    status, out, _ = metrics(file)
    assert status == 1 and "[exp_metrics]" in out
    expression = next(line for line in out.splitlines() if line.startswith("propose")).split("`")[1]
    status, out, _ = metrics(file, "--pattern", expression, "--json")
    assert status == 0
    assert [(row["step"], row["values"]) for row in json.loads(out)["rows"]] == [
        (3, {"quality": 0.3}),
        (4, {"quality": 0.4}),
        (5, {"quality": 0.5}),
    ]


def test_rows_are_written(log: Path, tmp_path: Path) -> None:
    assert metrics(log, "-o", tmp_path / "rows.csv")[0] == 0
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert [(row["line"], row["epoch"], row["val_accuracy"]) for row in rows] == [
        ("2", "1.0", "0.1"),
        ("4", "2.0", "0.2"),
    ]
    assert metrics(log, "-o", tmp_path / "rows.png")[0] == 0
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_of_metrics_is_read_as_such(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,train_loss\n0,9,0.5\n1,19,0.4\n")
    status, out, _ = metrics(tmp_path / "metrics.csv", "--json")
    told = json.loads(out)
    assert (status, told["leading"], told["goal"]) == (0, "train_loss", "min")
    assert [(row["step"], row["epoch"]) for row in told["rows"]] == [(9, 0.0), (19, 1.0)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing.log",), "no such file"),
        (("{log}", "--pattern", "("), "no regular expression"),
        (("{log}", "-o", "rows.txt"), "must end in"),
        (("{folder}",), "no file in it holds metrics"),
    ],
)
def test_what_cannot_be_read_or_written_is_said(
    arguments: tuple[str, ...], says: str, log: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    words = [word.format(log=log, folder=tmp_path / "empty") for word in arguments]
    status, _, err = metrics(*words)
    assert status == 2 and says in err


def test_a_broken_format_of_the_user_is_said(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    broken = tmp_path / "harness" / "metrics" / "bad.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("family: x\nexpressions: ['(']\n")
    status, _, err = metrics(log)
    assert status == 2 and str(broken) in err and "no regular expression" in err
    status, out, _ = typed("doctor", "--json")
    warned = [each for each in json.loads(out)["findings"] if each["check"] == "metric formats"]
    assert status == 0 and warned[0]["severity"] == "warning" and str(broken) in warned[0]["text"]
