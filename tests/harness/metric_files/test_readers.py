"""Files that the real packages wrote (transformers 5.23, TensorBoard 2.21, Lightning 2.6, W&B 0.31,
MLflow 3.17, SwanLab 0.10 and 0.6; Ultralytics' table after its documentation), read without them."""

import json
import math
import struct
from pathlib import Path

import pytest

from harness.metric_files import format_of
from harness.metric_files.wire import BLOCK_BYTES, leveldb_records
from monitors.metrics import Row

WRITTEN = Path(__file__).parent / "written"
EVENTS = WRITTEN / "events.out.tfevents.1795402291.host.1.0"
FILES = sorted(path for path in WRITTEN.rglob("*") if path.is_file())


def read(path: Path) -> list[tuple[int, Row]]:
    known = format_of(path)
    assert known is not None
    return known.read(path)


def column(path: Path, name: str) -> list[tuple[int, int | None, float]]:
    """Line, step and value of one metric."""
    return [(line, row.step, row.values[name]) for line, row in read(path) if name in row.values]


def test_a_trainer_state_gives_each_entry_with_the_line_at_which_it_begins() -> None:
    path = WRITTEN / "hf/trainer_state.json"
    lines = path.read_text().split("\n")
    history = json.loads(path.read_text())["log_history"]
    rows = read(path)
    assert [row.step for _, row in rows] == [entry["step"] for entry in history]
    assert [row.values.get("loss") for _, row in rows] == [entry.get("loss") for entry in history]
    for number, row in rows:
        entry, _ = json.JSONDecoder().raw_decode("\n".join(lines[number - 1 :]).strip())
        assert row.values.items() <= entry.items()
    assert [(step, value) for _, step, value in column(path, "eval_accuracy")] == [(8, 0.8125), (16, 0.875)]


def test_tensorboard_scalars_are_read_as_numbers_and_as_tensors() -> None:
    losses, accuracies = column(EVENTS, "loss/train"), column(EVENTS, "accuracy/test")
    assert [step for _, step, _ in losses] == [step for _, step, _ in accuracies] == [0, 10, 20, 30, 40]
    assert [value for *_, value in losses] == pytest.approx([1 / (s + 1) for s in range(0, 50, 10)])
    assert [value for *_, value in accuracies] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert [line for line, *_ in losses] == [2, 4, 6, 8, 10]  # the first record is the version


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (b"\x08\x02\x12\x00\x22\x08" + struct.pack("<d", 0.5), 0.5),  # DT_DOUBLE, tensor_content
        (b"\x08\x09\x12\x00\x52\x01\x07", 7.0),  # DT_INT64, int64_val packed
        (b"\x08\x09\x12\x00\x50\x07", 7.0),  # the same, not packed
        (
            b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + struct.pack("<ff", 1, 2),
            None,
        ),  # two numbers: no scalar
    ],
)
def test_a_tensor_without_dimensions_is_a_scalar(
    tensor: bytes, expected: float | None, tmp_path: Path
) -> None:
    value = b"\x0a\x04loss" + b"\x42" + bytes([len(tensor)]) + tensor
    event = b"\x10\x03\x2a" + bytes([len(value) + 2]) + b"\x0a" + bytes([len(value)]) + value
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(struct.pack("<QI", len(event), 0) + event + bytes(4))
    assert column(path, "loss") == ([] if expected is None else [(1, 3, expected)])


def test_wandb_rows_hold_nested_names_and_nan_but_nothing_of_its_own() -> None:
    path = WRITTEN / "run-abc12345.wandb"
    assert [(step, value) for _, step, value in column(path, "train/loss")] == [
        (s, 1 / (s + 1)) for s in range(5)
    ]
    assert [(step, value) for _, step, value in column(path, "val/acc")] == [(20, 0.75)]
    assert math.isnan(column(path, "val/big")[0][2])
    assert not any(name.startswith("_") for _, row in read(path) for name in row.values)


@pytest.mark.parametrize("name", ["run-s1go6a4l.swanlab", "backup.swanlab"])
def test_swanlab_runs_of_both_forms_are_read_without_what_it_measures_of_the_machine(name: str) -> None:
    path = WRITTEN / name
    assert [(s, value) for _, s, value in column(path, "train/loss")] == [
        (2 * s, 1 / (s + 1)) for s in range(5)
    ]
    assert [value for *_, value in column(path, "acc")] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert {name for _, row in read(path) for name in row.values} == {"train/loss", "acc"}


def test_empty_cells_of_lightnings_table_hold_nothing() -> None:
    path = WRITTEN / "lightning/metrics.csv"
    assert column(path, "val_acc") == [(4, 3, 0.5), (7, 7, 0.6), (10, 11, 0.7)]
    assert [line for line, *_ in column(path, "train_loss")] == [2, 3, 5, 6, 8, 9]


def test_the_padded_names_of_ultralytics_table_are_stripped() -> None:
    path = WRITTEN / "ultralytics/results.csv"
    assert [value for *_, value in column(path, "train/box_loss")] == [1.2186, 1.1904, 1.1501]
    assert [line for line, _ in read(path)] == [2, 3, 4]


def test_mlflows_files_are_named_by_their_path() -> None:
    assert column(WRITTEN / "metrics/train_loss", "train_loss") == [
        (line, (line - 1) * 10, 1 / line) for line in range(1, 5)
    ]
    assert column(WRITTEN / "metrics/val/acc", "val/acc")[-1] == (4, 30, pytest.approx(0.8))


def test_of_mlflows_database_the_last_run_is_read_with_nan() -> None:
    path = WRITTEN / "mlflow.db"
    assert [(step, value) for _, step, value in column(path, "train_loss")] == [
        (10 * step, 2 / (step + 1)) for step in range(4)
    ]
    ((line, step, bad),) = column(path, "bad")
    assert (line, step) == (18, 5) and math.isnan(bad)


def test_json_lines_keep_their_numbers_and_their_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"step": 1, "loss": 0.5, "note": "warm"}\n\nnot json\n{"step": 2, "loss": NaN, "ok": true}\n'
    )
    rows = read(path)
    assert [(line, row.step, list(row.values)) for line, row in rows] == [(1, 1, ["loss"]), (4, 2, ["loss"])]
    assert math.isnan(rows[1][1].values["loss"])


def test_a_table_of_stable_baselines_with_a_comment_and_one_with_semicolons(tmp_path: Path) -> None:
    (tmp_path / "monitor.csv").write_text('#{"t_start": 1.5}\nr,l,t\n-10.5,200,1.2\n')
    (tmp_path / "keras.csv").write_text("epoch;loss\n0;0,5\n1;0.25\n")
    assert column(tmp_path / "monitor.csv", "r") == [(3, None, -10.5)]
    assert [value for *_, value in column(tmp_path / "keras.csv", "loss")] == [0.25]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(WRITTEN).as_posix())
def test_a_file_torn_anywhere_gives_the_rows_before_and_never_fails(path: Path, tmp_path: Path) -> None:
    whole, data = read(path), path.read_bytes()
    torn = tmp_path / path.relative_to(WRITTEN)
    torn.parent.mkdir(parents=True, exist_ok=True)
    for length in range(0, len(data), max(1, len(data) // 60)):
        torn.write_bytes(data[:length])
        rows = read(torn)
        assert repr(rows[:-1]) == repr(whole[: max(0, len(rows) - 1)])  # the last line may be cut in a number


def test_a_long_record_lies_in_several_blocks() -> None:
    long = bytes(range(256)) * 300
    log, left = bytearray(b":W&B\xe1\xbe\x00"), long
    kinds = iter((2, 3, 4))
    while left:
        room = BLOCK_BYTES - len(log) % BLOCK_BYTES - 7
        piece, left = left[:room], left[room:]
        log += struct.pack("<IHB", 0, len(piece), next(kinds)) + piece
    log += struct.pack("<IHB", 0, 3, 1) + b"end"
    assert list(leveldb_records(bytes(log))) == [long, b"end"]


def test_a_file_of_another_kind_has_no_format() -> None:
    assert [format_of(Path(name)) for name in ("model.safetensors", "notes.txt")] == [None, None]
