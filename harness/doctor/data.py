"""The data: files parse, have rows and the columns that the settings name; prompts fit their limit."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.doctor import tokens
from harness.doctor.launch import PlannedLaunch
from harness.doctor.rows import READABLE, DataFileError, Sample, sample
from harness.doctor.settings import local_path
from harness.doctor.types import Finding, fine, problem, warning

_OF_TRAINER = "ajet.task_reader.jsonl_dataset_file.{}.file_path"
_FILE_KEYS = (
    _OF_TRAINER.format("training"),
    _OF_TRAINER.format("validation"),
    "data.train_files",
    "data.val_files",
)
_COLUMN = re.compile(
    r"(?:^|[._])(?:(?:text|prompt|answer|question|query|label|target|input|output|response|completion|chosen"
    r"|rejected|solution|ground_truth|messages|context|summary|dataset_text|image|source)_(?:column|field|key|col|column_name)"
    r"|column_(?:text|prompt|answer|label|input|output))$"
)
_QUESTIONS = ("main_query", "question", "prompt", "query", "problem")
"""Names the bundled trainer takes a question from."""
_VERL_MANAGERS = (None, "naive", "dapo", "prime", "batch")
"""Reward managers that take the right answer from the column `reward_model`."""
_ROWS_MEASURED = 200


@dataclass(frozen=True)
class DataFile:
    """A data file that the settings name, by which key, and for training or not."""

    key: str
    path: Path
    trains: bool


def files(launch: PlannedLaunch) -> list[DataFile]:
    """The readable data files that the settings name and that exist."""
    found: dict[Path, DataFile] = {}
    for key, value in launch.settings.values.items():
        last = key.rpartition(".")[2]
        is_known = key in _FILE_KEYS
        if not is_known and not re.search(
            r"(?:data|train|val|valid|validation|eval|test|dataset)_?(?:files?|path)$|^data$", last
        ):
            continue
        if key.startswith("ajet.") and not _reader_is_used(launch, key):
            continue
        for text in value if isinstance(value, (list, tuple)) else [value]:
            path = local_path(text, launch.codebase) if isinstance(text, str) else None
            if path is not None and path.suffix in READABLE and path.is_file():
                trains = not re.search(r"val|eval|test", key.replace("validation_split", ""))
                found.setdefault(path, DataFile(key, path, trains))
    return list(found.values())


def _reader_is_used(launch: PlannedLaunch, key: str) -> bool:
    return f".{launch.settings.get('ajet.task_reader.type')}." in key


def rows_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """The first rows of each file parse, and there are some."""
    for file in files(launch):
        shown = f"{file.key}: {launch.shown(file.path)}"
        try:
            found = sample(file.path)
        except DataFileError as error:
            yield problem(f"{shown}: {error}", "mend or write the file again", "dataset_error")
            continue
        if not found.rows:
            yield problem(f"{shown} has no rows", "put data into it, or name another file", "dataset_error")
        else:
            yield fine(f"{shown}: the first {len(found.rows)} rows parse")


def columns_exist(launch: PlannedLaunch) -> Iterator[Finding]:
    """The columns that the settings name are in the files."""
    for file in files(launch):
        try:
            found = sample(file.path)
        except DataFileError:
            continue
        if not found.rows:
            continue
        missing = list(_missing(launch, file, found))
        yield from missing
        if not missing:
            yield fine(f"{launch.shown(file.path)} has the columns that the settings name")


def _missing(launch: PlannedLaunch, file: DataFile, found: Sample) -> Iterator[Finding]:
    settings, shown = launch.settings, launch.shown(file.path)
    there = ", ".join(found.columns[:12])
    if launch.is_bundled:
        for number, row in enumerate(found.rows, start=1):
            if not any(str(row.get(name) or "").strip() for name in _QUESTIONS):
                mend = f"name the question {' or '.join(_QUESTIONS[:3])}"
                yield problem(
                    f"{shown}: row {number} has no question; its columns are {there}", mend, "dataset_error"
                )
                return
        return
    if settings.has_tree("actor_rollout_ref"):
        wanted = {
            "data.prompt_key": settings.get("data.prompt_key") or "prompt",
            "data.reward_fn_key": settings.get("data.reward_fn_key") or "data_source",
        }
        if settings.get("reward_model.reward_manager", "reward.reward_manager.name") in _VERL_MANAGERS:
            wanted["the reward"] = "reward_model"
    else:
        wanted = {
            key: value for key, value in settings.values.items() if _COLUMN.search(key) and "api" not in key
        }
    for key, name in wanted.items():
        if isinstance(name, str) and name and name not in found.columns:
            close = difflib.get_close_matches(name, found.columns, 1)
            mend = f"did you mean {close[0]}?" if close else f"name one of them in {key}"
            make = problem if settings.has_tree("actor_rollout_ref") and not launch.prepares else warning
            yield make(
                f"{shown} has no column {name!r} ({key}); its columns are {there}", mend, "dataset_error"
            )


def enough_rows(launch: PlannedLaunch) -> Iterator[Finding]:
    """There is at least one batch: a loader that drops the rest would train on nothing."""
    batch = launch.settings.whole("data.train_batch_size", "data.gen_batch_size")
    if not launch.settings.has_tree("actor_rollout_ref") or batch is None:
        return
    counts = {file.path: _few_rows(file.path, batch) for file in files(launch) if file.trains}
    if not counts or None in counts.values():
        return
    rows = sum(count or 0 for count in counts.values())
    if rows < batch:
        yield problem(
            f"data.train_batch_size is {batch}, the training data has {rows} rows",
            "lower it, or give more data",
            "batch_divisibility",
        )


def _few_rows(path: Path, enough: int) -> int | None:
    """The rows of a file, counted up to `enough`; None where they cannot be."""
    try:
        return len(sample(path, enough).rows)
    except DataFileError:
        return None


def prompts_fit(launch: PlannedLaunch) -> Iterator[Finding]:
    """No prompt of the first rows is longer than the limit, counted with the model's own tokenizer."""
    limit = launch.settings.whole(
        "data.max_prompt_length", "ajet.data.max_prompt_length", "max_prompt_length"
    )
    tokenizer = tokens.load(launch)
    if limit is None or tokenizer is None:
        return
    for file in files(launch):
        try:
            found = sample(file.path, _ROWS_MEASURED)
        except DataFileError:
            continue
        name = launch.settings.get("data.prompt_key")
        texts = [text for row in found.rows if (text := _prompt(row, name))]
        lengths = tokens.lengths(tokenizer, texts)
        if not lengths:
            continue
        longest, over = max(lengths), sum(length > limit for length in lengths)
        if over:
            filters = launch.settings.get("data.filter_overlong_prompts") is True
            cuts = launch.settings.get("data.truncation") not in (None, "error")
            sure = launch.is_bundled or (
                launch.settings.has_tree("actor_rollout_ref") and not filters and not cuts
            )
            if filters or cuts:
                continue
            yield (problem if sure else warning)(
                f"{launch.shown(file.path)}: {over} of the first {len(lengths)} prompts are longer than the "
                f"{limit} tokens allowed, the longest has at least {longest}",
                "leave those questions out of the file, or have the author of the experiment raise the limit",
                "length_limit",
            )
        else:
            yield fine(
                f"{launch.shown(file.path)}: prompts have up to {longest} of {limit} tokens, without template"
            )


def _prompt(row: Mapping[str, Any], name: Any) -> str:
    """The text of a row's prompt; messages are put together."""
    keys = (name,) if isinstance(name, str) else _QUESTIONS
    value = next((row[key] for key in keys if row.get(key)), "")
    if isinstance(value, list):
        parts = [item.get("content") for item in value if isinstance(item, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else ""
