"""Binary logs of trackers: TensorBoard event files, offline runs of W&B and SwanLab, MLflow's database.

In: a file. Out: records, each with its number (from 1). None of the trackers'
own packages is needed.
"""

from __future__ import annotations

import json
import math
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from harness.metric_files.text import Records
from harness.metric_files.wire import fields, first, leveldb_records, part, signed, tfrecords

Record = dict[str, object]

_SIDES = {"train", "training", "val", "valid", "validation", "eval", "evaluation", "test"}
_TENSOR_TYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}  # of a TensorProto: float, double, int32, int64
_TENSOR_FLOATS = {5: "<f", 6: "<d"}  # its fields float_val, double_val
_MLFLOW_QUERY = """
SELECT rowid, key, value, step, is_nan FROM metrics
WHERE run_uuid = (SELECT run_uuid FROM runs ORDER BY start_time DESC LIMIT 1) ORDER BY rowid
"""
_SWANLAB_OWN = "__swanlab__"  # what it measures of the machine
_TENSOR_INTS = (7, 10)  # int_val, int64_val


def read_tensorboard(path: Path) -> Records:
    """`events.out.tfevents.*`: the scalars of each event, written as a number or as a tensor. Where a folder
    `train` stands beside a folder `validation`, the folder is part of the name, as TensorBoard shows it."""
    side = f"{path.parent.name.lower()}/" if run_folder(path) != path.parent else ""
    records = map(_tensorboard_record, tfrecords(path.read_bytes()))
    named = ({name if name == "step" else side + name: record[name] for name in record} for record in records)
    return enumerate(named, start=1)


def run_folder(events: Path) -> Path:
    """The log directory that an event file belongs to: what is written on both sides of a training, each in a
    folder of its own, is of one run."""
    folder = events.parent
    if folder.name.lower() not in _SIDES:
        return folder
    sides = [other for other in folder.parent.iterdir() if other.name.lower() in _SIDES]
    return folder.parent if len([side for side in sides if any(side.glob("*.tfevents.*"))]) > 1 else folder


def read_wandb(path: Path) -> Records:
    """`run-*.wandb` of an offline run: one record per `wandb.log`."""
    return enumerate(map(_wandb_record, leveldb_records(path.read_bytes())), start=1)


def read_swanlab(path: Path) -> Records:
    """`run-*.swanlab` (0.10) and `backup.swanlab` of earlier versions: one record per number."""
    return enumerate(map(_swanlab_record, leveldb_records(path.read_bytes())), start=1)


def read_mlflow_database(path: Path) -> Records:
    """`mlflow.db`, where MLflow 3.7 and later keeps its metrics: the run that was started last."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            found = database.execute(_MLFLOW_QUERY).fetchall()
    except sqlite3.Error:  # not a database yet
        return
    for number, name, value, step, is_nan in found:
        yield number, {name: _stored(value, is_nan), "step": step}


def _stored(value: float, is_nan: bool) -> float:
    """The number that MLflow stores: NaN beside a flag, infinities as the largest number."""
    infinite = abs(value) >= sys.float_info.max
    return math.nan if is_nan else math.copysign(math.inf, value) if infinite else value


# --- TensorBoard ----------------------------------------------------------------------------------------


def _tensorboard_record(event: bytes) -> Record:
    """Event {step = 2, summary = 5}; Summary {value = 1}; Value {tag = 1, simple_value = 2, tensor = 8}."""
    try:
        summary = fields(part(event, 5))
        values = [dict(fields(one)) for key, one in summary if key == 1 and isinstance(one, bytes)]
        step = signed(first(event, 2, 0))
    except ValueError:
        return {}
    record: Record = {}
    for value in values:
        tag, simple, tensor = value.get(1), value.get(2), value.get(8)
        number = struct.unpack("<f", simple)[0] if isinstance(simple, bytes) else _tensor_number(tensor)
        if isinstance(tag, bytes) and number is not None:
            record[tag.decode(errors="replace")] = number
    return {**record, "step": step} if record else {}


def _tensor_number(tensor: object) -> float | None:
    """The number that a TensorProto {dtype = 1, shape = 2 {dim = 2}, tensor_content = 4, …} holds; None for
    one with dimensions, and for anything else."""
    if not isinstance(tensor, bytes):
        return None
    try:
        there = dict(fields(tensor))
        form, content = _TENSOR_TYPES.get(signed(there.get(1, 0))), there.get(4)
        if part(tensor, 2, 2):
            return None
        if form and isinstance(content, bytes) and content:
            return float(struct.unpack(form, content)[0])
        for number, packed in _TENSOR_FLOATS.items():
            if isinstance(raw := there.get(number), bytes):
                return float(struct.unpack(packed, raw)[0])
        return next((float(_one_integer(there[number])) for number in _TENSOR_INTS if number in there), None)
    except (ValueError, struct.error):
        return None


def _one_integer(raw: int | bytes) -> int:
    """A repeated integer field with one entry, packed or not."""
    return signed(raw if isinstance(raw, int) else first(b"\x08" + raw, 1, 0))


# --- W&B ------------------------------------------------------------------------------------------------


def _wandb_record(record: bytes) -> Record:
    """Record {history = 2 {item = 1 {key = 1, nested_key = 2, value_json = 16}, step = 2 {num = 1}}}."""
    try:
        history = part(record, 2)
        items = dict(_wandb_items(history))
    except ValueError:
        return {}
    values: Record = {name: value for name, value in items.items() if not name.startswith("_")}
    step = items.get("_step", signed(first(part(history, 2), 1, 0)))
    return {**values, "step": step} if values else {}


def _wandb_items(history: bytes) -> Iterator[tuple[str, object]]:
    for number, item in fields(history):
        if number != 1 or not isinstance(item, bytes):
            continue
        names = [name for key, name in fields(item) if key in (1, 2) and isinstance(name, bytes)]
        name = "/".join(name.decode(errors="replace") for name in names)
        value = json.loads(part(item, 16) or b"null")
        if isinstance(value, int | float) and not isinstance(value, bool):  # a text is no measured number
            yield name, value


# --- SwanLab --------------------------------------------------------------------------------------------


def _swanlab_record(record: bytes) -> Record:
    """Record {scalar = 13 {key = 1, step = 2, value = 5 {number = 1}}}; before 0.10 a JSON object."""
    if record[:1] == b"{":
        return _old_swanlab_record(record)
    try:
        scalar = part(record, 13)
        raw = part(scalar, 5, 1)
        step = signed(first(scalar, 2, 0))
        key = part(scalar, 1).decode(errors="replace")
    except ValueError:
        return {}
    if not key or key.startswith(_SWANLAB_OWN):
        return {}
    return {key: struct.unpack("<d", raw)[0] if len(raw) == 8 else 0.0, "step": step}


def _old_swanlab_record(record: bytes) -> Record:
    try:
        outer = json.loads(record)
        data = json.loads(outer["data"]) if isinstance(outer["data"], str) else outer["data"]
        own = data["key"].startswith(_SWANLAB_OWN)
        return {} if own else {data["key"]: data["metric"]["data"], "step": data["step"]}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
