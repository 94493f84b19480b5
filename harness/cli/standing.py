"""Where a run stands: leading metric, last rows, alarms, time left, last line, use of the machine.

In: a run's folder and its journal. Out: `Standing`, and the words for it that `harness show`, `harness ls`
and the live display print. Of large files only a part is read, so that a look takes milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.blueprint.types import Blueprint
from harness.config.training import steps_fixed_by
from harness.environment import known_secrets
from harness.journal import Entry, events_of
from harness.journal.events import AttemptEvent
from harness.machine.disk import in_words
from harness.redaction import NO_SECRETS, Secrets
from harness.results.leading import best_of, leading_metric
from harness.results.manifest import plain
from harness.results.raw import number_in
from harness.results.text import clean, one_line
from harness.state import AttemptState
from harness.wording import number_text, short_duration
from monitors.files import AttemptFiles
from monitors.logs import clean as without_escapes
from monitors.logs import lines_at_end
from monitors.metrics.axis import place_text
from monitors.metrics.names import Direction
from monitors.metrics_file import json_object, values_in
from monitors.rules import MetricSource

if TYPE_CHECKING:
    from harness.experiment import Experiment

READ_WHOLE = 4 << 20
SAMPLES, SAMPLE_BYTES = 64, 32 << 10
FEW_BYTES = 8 << 10
LAST_ROWS, LAST_ALARMS = 3, 5
MOST_IN_ROW = 6
BARS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
NO_ALARMS = ("first_step", "session_gone")
"""Events of an attempt that are no trouble."""


@dataclass(frozen=True)
class Standing:
    """The newest attempt as it stands now. `position`: of its last row, in words; `rows`: the last ones, as
    records of metrics.jsonl; `values`: of the leading metric, in order, perhaps thinned; `left_s`: to its
    last step at the pace so far, None where the number of steps is not known; `use`: the last sample of the
    machine; `is_evaluated`: its result was measured after the training."""

    position: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    metric: str = ""
    goal: Direction | None = None
    values: tuple[float, ...] = ()
    total_steps: int | None = None
    left_s: float | None = None
    alarms: tuple[str, ...] = ()
    last_line: str = ""
    use: dict[str, Any] | None = None
    is_evaluated: bool = False

    @property
    def metric_text(self) -> str:
        """`val_loss 0.254 ▇▅▂▁, lowest 0.25`; "" where no metric leads."""
        if not self.values:
            return ""
        best, last = best_of(self.values, self.goal), self.values[-1]
        word = "highest" if self.goal == "max" else "lowest"
        has_best = best is not None and self.values[best] != last
        behind = f", {word} {number_text(self.values[best or 0])}" if has_best else ""
        of = " (in the training: the result was measured after it)" if self.is_evaluated else ""
        return f"{self.metric} {number_text(last)} {sparkline(self.values)}{behind}{of}"

    @property
    def row_texts(self) -> list[str]:
        """The last rows, newest last, with their first few values."""
        return [row_text(row) for row in self.rows]

    @property
    def brief(self) -> str:
        """One line for a list: course, time left, use, alarms, last line of the log."""
        left = f"{self.left_text} left" if self.left_text else ""
        alarms = [f"! {text}" for text in self.alarms]
        return "  ".join(
            filter(None, (sparkline(self.values, 12), left, self.use_text, *alarms, self.last_line))
        )

    @property
    def left_text(self) -> str:
        return f"about {short_duration(self.left_s)}" if self.left_s is not None else ""

    @property
    def use_text(self) -> str:
        """`CPU 187 %, memory 1.2 GiB, GPU 0 93 % 20 GiB`; "" before the first sample."""
        if not self.use:
            return ""
        words = [f"CPU {self.use['cpu_percent']:.0f} %", f"memory {in_words(self.use['rss_bytes'])}"]
        words += [
            f"GPU {gpu['index']} {gpu['busy_percent']:.0f} % {in_words(gpu['memory_used_bytes'])}"
            for gpu in self.use.get("gpus", ())
        ]
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON has it; numbers that are none are null."""
        return dict(plain(asdict(self)))


def standing(
    folder: Path, plan: Blueprint, attempt: AttemptState | None, entries: Iterable[Entry], now: float
) -> Standing:
    """Where the newest attempt of the run in this folder stands; `now` in seconds since the epoch."""
    if attempt is None:
        return Standing()
    files = AttemptFiles(folder / "attempts" / f"{attempt.number:02d}", known=attempt.supervisor)
    rows, known = list(_records(files.metrics)), known_secrets(folder)
    found = leading_metric(plan, dict.fromkeys(name for row in rows for name in row["values"]))
    values = [row["values"][found.name] for row in rows if found.name in row["values"]] if found else []
    if attempt.ended is not None and attempt.ended.log_lost_bytes and any(map(_is_of_log, rows[-1:])):
        values = []  # nobody knows the last one
    total = steps_fixed_by(files.config)
    return Standing(
        position=place(rows, files.metrics, total)[1],
        rows=tuple(rows[-LAST_ROWS:]),
        metric=found.name if found else "",
        goal=found.goal if found else None,
        values=tuple(values),
        total_steps=total,
        left_s=_left_s(files, rows, total, now) if attempt.is_running else None,
        alarms=_alarms(entries, attempt.number, files.dir.is_dir(), known),
        last_line=last_line(files.evaluation_log, known) or last_line(files.pane_log, known),
        is_evaluated=attempt.ended is not None and attempt.ended.evaluate_status == 0,
        use=next(map(json_object, reversed(lines_at_end(files.resources))), None),
    )


def of_experiment(experiment: Experiment) -> Standing:
    """Where a run stands that this process carries out."""
    state, now = experiment.state, experiment.clock()
    return standing(experiment.dir, state.blueprint, state.attempt, experiment.journal.entries, now)


def place_at_end(metrics: Path) -> tuple[int | None, str]:
    """As `place`, of the last few records."""
    rows = [*_parsed(lines_at_end(metrics, FEW_BYTES))] or [*_parsed(lines_at_end(metrics))]
    return place(rows, metrics)


def place(rows: Sequence[dict[str, Any]], metrics: Path, total: int | None = None) -> tuple[int | None, str]:
    """The step of the last of these rows of a metrics.jsonl, and where it stands in words: `step 26 of 100,
    epoch 1.5`, `row number 15` where rows name neither, "" before the first."""
    of_training = [row for row in rows if not row.get("split")]  # a validation counts its own batches
    step, epoch = _last(of_training, "step"), _last(of_training, "epoch")
    of_total = f" of {total}" if total else ""
    words = [f"step {step:.0f}{of_total}"] if step is not None else []
    words += [f"epoch {epoch:.6g}"] if epoch is not None else []
    if rows and not words:
        with metrics.open("rb") as file:
            words = [place_text("row", sum(line.endswith(b"\n") for line in file))]
    return None if step is None else int(step), ", ".join(words)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The course of a metric in one line of text; a stretch with a value that is no number shows as `×`."""
    count = min(width, len(values))
    parts = [
        values[place * len(values) // count : (place + 1) * len(values) // count] for place in range(count)
    ]
    means = [sum(value / len(part) / 2 for value in part) for part in parts]  # halves: no span overflows
    finite = [mean for mean in means if math.isfinite(mean)]
    low, span = (min(finite), max(finite) - min(finite)) if finite else (0.0, 0.0)
    return "".join(
        BARS[round((mean - low) / span * (len(BARS) - 1)) if span > 0 else 0]
        if math.isfinite(mean)
        else NOT_FINITE
        for mean in means
    )


def row_text(row: dict[str, Any]) -> str:
    """`step 12, loss 0.4, lr 0.001`."""
    places = [f"{key} {row[key]:.10g}" for key in ("step", "epoch") if row.get(key) is not None]
    shown = [f"{name} {number_text(value)}" for name, value in [*row["values"].items()][:MOST_IN_ROW]]
    more = [f"and {len(row['values']) - MOST_IN_ROW} more"] if len(row["values"]) > MOST_IN_ROW else []
    return ", ".join((*places, *shown, *more))


def last_line(log: Path, known: Secrets = NO_SECRETS) -> str:
    """The last line of a log that says something."""
    texts = (without_escapes(line) for line in reversed(lines_at_end(log, unfinished=True)))
    return one_line(next(filter(str.strip, texts), ""), known)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a metrics.jsonl; of a large one, samples spread over the whole."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            whole = size <= READ_WHOLE
            for place in range(1 if whole else SAMPLES):
                start = 0 if whole else (size - SAMPLE_BYTES) * place // (SAMPLES - 1)
                file.seek(start)
                lines = file.read(size if whole else SAMPLE_BYTES).split(b"\n")
                yield from _parsed(lines[1 if start else 0 : -1])
    except OSError:
        return


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for record in filter(None, map(json_object, lines)):
        if (values := values_in(record)) is not None:
            yield record | {"values": values}


def _is_of_log(row: dict[str, Any]) -> bool:
    source = row.get("source")
    return isinstance(source, dict) and source.get("file") == MetricSource.CONSOLE.value


def _last(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    numbers = (number_in(row, key) for row in reversed(rows))
    return next((number for number in numbers if number is not None and math.isfinite(number)), None)


def _left_s(files: AttemptFiles, rows: list[dict[str, Any]], total: int | None, now: float) -> float | None:
    steps = [row["step"] for row in rows if row.get("step") is not None and not row.get("split")]
    supervisor = files.supervisor()
    running_s = supervisor.running_s(now) if supervisor is not None else None
    if not steps or not total or running_s is None or total <= steps[-1]:
        return None
    return running_s / max(1, steps[-1] - steps[0] + 1) * (total - steps[-1])


def _alarms(entries: Iterable[Entry], attempt: int, has_folder: bool, known: Secrets) -> tuple[str, ...]:
    no_alarms = (*NO_ALARMS, "folder_gone") if has_folder else NO_ALARMS
    events = (event for event in events_of(entries, AttemptEvent) if event.attempt == attempt)
    texts = dict.fromkeys(clean(event.text, known) for event in events if event.event not in no_alarms)
    return tuple(texts)[-LAST_ALARMS:]
