"""Samples of families are the rows they say, also where only picked lines are read; a user's come first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from monitors.files import AttemptFiles
from monitors.logs import Line, clean
from monitors.metrics import families
from monitors.metrics.families import FamilyError, read_family
from monitors.metrics.filter import lines_to_read
from monitors.metrics.names import names_by_themselves, words
from monitors.metrics.parser import Found, MetricReader, parse_line, read_lines
from monitors.metrics_file import values_in
from monitors.watch import Watch
from tests.monitors.metric_records import read_metrics

SAMPLES = [(family.name, sample) for family in families.families() for sample in family.samples]


def rows_of(text: str) -> list[Found]:
    return list(
        read_lines(Line(number, clean(raw)) for number, raw in enumerate(text.encode().split(b"\n"), 1))
    )


def described(found: Found) -> dict[str, Any]:
    row = found.row
    return {"line": found.line, "step": row.step, "epoch": row.epoch, "values": row.values}


def expected(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"line": 1, "step": None, "epoch": None} | row for row in sample["rows"]]


@pytest.mark.parametrize(
    ("family", "sample"), SAMPLES, ids=[f"{family}-{s['text'][:40]}" for family, s in SAMPLES]
)
def test_samples_are_the_rows_they_say(family: str, sample: dict[str, Any]) -> None:
    assert repr([described(found) for found in rows_of(sample["text"])]) == repr(typed(expected(sample)))


def typed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of a YAML file as those of rows: `epoch: 3` is 3.0."""
    for row in rows:
        row["epoch"] = None if row["epoch"] is None else float(row["epoch"])
        row["values"] = {name: float(value) for name, value in row["values"].items()}
    return rows


@pytest.mark.parametrize(
    ("family", "sample"), SAMPLES, ids=[f"{family}-{s['text'][:40]}" for family, s in SAMPLES]
)
def test_watch_that_picks_lines_finds_the_same_rows(
    family: str, sample: dict[str, Any], tmp_path: Path
) -> None:
    """Twice: lines before the first row of a table may be passed over in the first block only."""
    text = "begin\n" + sample["text"] + "\n" + "nothing of interest 3\n" + sample["text"] + "\n"
    (tmp_path / "pane.log").write_bytes(text.encode())
    watch = Watch(AttemptFiles(tmp_path))
    watch.poll(final=True)
    watch.close()
    read = [
        (values_in(record), record["source"]["line"]) for record in read_metrics(tmp_path / "metrics.jsonl")
    ]
    assert repr(read) == repr([(found.row.named(), found.line) for found in rows_of(text)])


@pytest.mark.parametrize("word", sorted({*names_by_themselves(), *words("common")}))
def test_every_line_that_is_a_row_is_picked(word: str) -> None:
    lines = [f"[3]\ttrain-{word}: 0.5", f"mean_{word} = 0.25", f"it 5 {word} 0.5", f"Validation {word}: nan"]
    rows = [line for line in lines if parse_line(line)]
    assert rows and [line for line in rows if not lines_to_read((), True).search(line.encode())] == []


def test_nan_is_kept() -> None:
    (found,) = rows_of("epoch 2/20 | loss nan")
    assert math.isnan(found.row.values["loss"])


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user's formats."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "harness" / "metrics"
    folder.mkdir(parents=True)
    return folder


MINE = "family: mine\nexpressions: ['^<<(?P<step>\\S+)>> q=(?P<quality>\\S+)']\n"


def test_family_of_a_user_comes_first_and_a_broken_one_is_left_out_and_named(own: Path) -> None:
    (own / "mine.yaml").write_text(MINE)
    (own / "bad.yaml").write_text("family: x\nexpressions: ['(']\n")
    assert [described(found) for found in rows_of("<<7>> q=0.5\n<<inf>> q=0.25")] == [
        {"line": 1, "step": 7, "epoch": None, "values": {"quality": 0.5}},
        {"line": 2, "step": None, "epoch": None, "values": {"quality": 0.25}},
    ]
    (said,) = families.broken()
    assert str(own / "bad.yaml") in said and "is no regular expression" in said


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        (r"^(?P<step>\d+)\D(?P<quality>\S+)$", "7\t0.5"),  # no fixed text
        (r"(?x) ^ (?P<step>\d+) [ ] quality [ ] (?P<quality>\S+)", "7 quality 0.5"),
        (r"^(?P<step>\d+) q(?P<quality>\S+)$", "7 q0.5"),
    ],
)
def test_lines_of_a_users_format_are_read_while_a_run_is_watched(
    expression: str, line: str, own: Path, tmp_path: Path
) -> None:
    (own / "mine.yaml").write_text(f"family: mine\nexpressions: ['{expression}']\n")
    (tmp_path / "pane.log").write_text(f"begin\n{line}\n")
    watch = Watch(AttemptFiles(tmp_path))
    watch.poll(final=True)
    watch.close()
    (read,) = read_metrics(tmp_path / "metrics.jsonl")
    assert (read["step"], read["values"]) == (7, {"quality": 0.5})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("family: x\nexpressions: ['(']", "is no regular expression"),
        ("family: x\nexpressions: ['loss']", "names nothing"),
        ("expressions: []", "a family has"),
        ("family: x\nformats: []", "a family has"),
        ("family: x\nexpressions: 5", "a family has"),
        ("family: x\nexpressions: ['(?P<x>a{99999999999})']", "is no regular expression"),
        ("family: 2001-99-99", "cannot be read"),
        (": [", "cannot be read"),
    ],
)
def test_broken_family_is_named(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(FamilyError, match=says) as caught:
        read_family(file)
    assert str(file) in str(caught.value)


def test_epoch_of_a_heading_and_where_it_stands() -> None:
    (found,) = rows_of("Epoch 3/5\nloss: 0.5")
    assert (found.row.epoch, found.line, found.first_line) == (3.0, 2, 1)


def test_heading_of_a_split_counts_for_one_row() -> None:
    first, second = rows_of("Test Error:\n Accuracy: 48.8%\n Accuracy: 60.0%")
    assert (first.row.split, second.row.split) == ("test", "")
    assert first.row.named() == {"test/accuracy": 48.8}


def test_reader_asks_for_every_line_once_a_table_has_begun() -> None:
    reader = MetricReader()
    assert not reader.wants_every_line
    reader.read(Line(1, "epoch  train_loss  valid_loss"))
    assert reader.wants_every_line


def bar(step: int, total: int = 200) -> str:
    counter = f"{100 * step // total:3d}%|███  | {step}/{total}"
    return f"train: {counter} [00:01<00:02, 9.5it/s, loss={1 / step:.4f}, val_loss=0.5]"


@pytest.mark.parametrize("piece", [50, 4000, 1 << 20])
def test_bar_that_is_the_whole_log_gives_a_curve(piece: int, tmp_path: Path) -> None:
    """Whatever pieces it is read in, also when the line is longer than what is kept of it."""
    text = "\r".join(bar(step) + " " * 400 for step in range(1, 201)) + "\n"
    log = tmp_path / "pane.log"
    log.write_bytes(b"")
    watch = Watch(AttemptFiles(tmp_path))
    raw = text.encode()
    for begin in range(0, len(raw), piece):
        with log.open("ab") as file:
            file.write(raw[begin : begin + piece])
        watch.poll()
    watch.poll(final=True)
    watch.close()
    records = read_metrics(tmp_path / "metrics.jsonl")
    assert len(records) > 90 and {record["source"]["line"] for record in records} == {1}
    assert [record["step"] for record in records] == sorted({record["step"] for record in records})
    assert records[-1]["step"] == 200 and records[-1]["values"] == {"loss": 0.005, "val_loss": 0.5}
    assert all("val_loss" not in record["values"] for record in records[:-1])


def test_short_bar_is_the_row_it_showed_last() -> None:
    (found,) = rows_of("\r".join(bar(step, 10) for step in range(1, 11)))
    assert found.row.step == 10


def test_first_step_is_seen_on_a_line_that_has_not_ended(tmp_path: Path) -> None:
    (tmp_path / "pane.log").write_text(bar(1) + "\r" + bar(2))
    watch = Watch(AttemptFiles(tmp_path))
    assert [event.kind for event in watch.poll() if event.kind == "first_step"] == ["first_step"]
    assert watch.rows.count == 0 and "2/200" in watch.last_line


def test_a_validation_counts_when_its_last_batch_is_in_with_the_mean_over_all() -> None:
    """Else the result would be the last batch's, and the best one the luckiest batch's."""
    log = """\
Train: 0 [  15/16 (100%)]  Loss: 1.73 (2.08)  Time: 0.1s, 800/s  (0.1s, 700/s)  LR: 2.0e-03  Data: 0 (0)
Test: [   2/3]  Time: 0.1 (0.1)  Loss: 1.541 (1.554)  Acc@1: 96.250 (56.250)
Test: [   3/3]  Time: 0.1 (0.1)  Loss: 1.624 (1.572)  Acc@1: 46.875 (53.906)"""
    _, batch, whole = (found.row.named() for found in rows_of(log))
    assert batch == {"test_batch/time": 0.1, "test_batch/loss": 1.541, "test_batch/acc@1": 96.25}
    assert whole == {"test/time": 0.1, "test/loss": 1.572, "test/acc@1": 53.906}
