"""Runs for notebooks and scripts: what a result folder holds, as pandas DataFrames, and plotted in one call.

`harness.open_run(dir)` and `harness.runs()` are these functions. Everything is read by the readers of the
report, so a number here is the number there. pandas and matplotlib are imported when they are needed:
`pip install "ajet-harness[notebook]"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import index, journal
from harness.environment import known_secrets
from harness.errors import UserError
from harness.results.collect import collect
from harness.results.facts import build_facts, evaluation_id
from harness.results.leading import Leading
from harness.results.result import leading_of, metric_names, points_of
from harness.results.text import clean
from harness.results.types import Fact, Record
from harness.state import ExperimentState
from harness.wording import did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


def open_run(run: str | Path) -> OpenedRun:
    """A run by its result folder, name or id, finished or not. Raises harness.index.UnknownRunError, with the
    closest names, for a folder that is no run."""
    return OpenedRun(index.find_run(str(run)))


def runs(below: str | Path | None = None) -> DataFrame:
    """All runs that `harness ls` knows, the runs of sweeps among them, or those in folders below one; the
    oldest first. One row each: name, state, times (UTC), attempts, the metric that leads, its last value and
    its best, and the folder."""
    import pandas as pd

    folders = [run.dir for run in index.runs()] if below is None else _below(Path(below).expanduser())
    table = pd.DataFrame([_line(folder) for folder in folders], columns=list(_COLUMNS))
    for column in ("created", "finished"):
        table[column] = pd.to_datetime(table[column], unit="s", utc=True)
    return table.sort_values("created", ignore_index=True)


_RESULT = ("metric", "goal", "value", "best")
_COLUMNS = ("name", "id", "state", "purpose", "created", "finished", "attempts", *_RESULT, "dir")
_VALUE = ("value", "value_low", "value_high")
_FACTS = ("id", "label", *_VALUE, "unit", "recipe", "note", "sources", "withheld")
_ENDS = ("ended_at", "reason", "status", "rows", "last_step", "metrics_from")


class OpenedRun:
    """One run, read when a table is first asked for; open it again to see what has come since.

    `metrics`: one row per position (step, epoch or row number: the name of the index) and attempt, one column
    per metric. `validations`: one row per validation; `…_low` and `…_high` are 95 % intervals. `facts`: the
    numbers of the report with their recipes and sources. `attempts`: one row per launch.
    """

    def __init__(self, folder: Path) -> None:
        self.dir = folder

    def __repr__(self) -> str:
        return f"<run {self.name}: {self.outcome}, {self.dir}>"

    @cached_property
    def state(self) -> ExperimentState:
        """What the journal says."""
        return index.load_state(self.dir)

    def _clean(self, text: str) -> str:
        """Text of the run without secrets."""
        return clean(text, known_secrets(self.dir))

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def purpose(self) -> str:
        return self._clean(self.state.blueprint.purpose)

    @property
    def outcome(self) -> str:
        """How it ended, as `succeeded`; the phase of a run that has not."""
        return self.state.verdict.outcome.value if self.state.verdict else self.state.phase

    @cached_property
    def _record(self) -> Record:
        return collect(self.dir)

    @cached_property
    def _facts(self) -> Mapping[str, Fact]:
        return build_facts(self._record, self.state.blueprint)

    @cached_property
    def leading(self) -> Leading | None:
        """The metric that leads: its name, and which direction of it is better."""
        return leading_of(self._record, self.state.blueprint)

    @cached_property
    def metrics(self) -> DataFrame:
        import pandas as pd

        parts = [
            pd.DataFrame(
                {"position": one.positions, "attempt": one.attempts, "metric": key, "value": one.values}
            )
            for key, one in self._record.series.items()
        ]
        if not parts:
            return pd.DataFrame({"attempt": []}, index=pd.Index([], name=self._record.axis))
        long = pd.concat(parts, ignore_index=True)
        keys = ["position", "attempt", "again"]  # an epoch may have several rows of the same metric
        long["again"] = long.groupby(["position", "attempt", "metric"]).cumcount()
        wide = long.pivot(index=keys, columns="metric", values="value")[list(self._record.series)]
        wide = wide.reset_index(["attempt", "again"]).drop(columns="again").rename_axis(columns=None)
        wide.index = pd.Index(_whole(wide.index.to_numpy()), name=self._record.axis)
        return wide

    @cached_property
    def validations(self) -> DataFrame:
        import pandas as pd

        rows = []
        for one in self._record.evaluations:
            row: dict[str, Any] = {self._record.axis: one.position, "attempt": one.attempt}
            prefix = evaluation_id(one, "")
            for name, fact in self._facts.items():
                if name.startswith(prefix) and not fact.withheld:
                    row |= _with_interval(name.removeprefix(prefix), fact)
            rows.append(row)
        table = pd.DataFrame(rows, columns=None if rows else [self._record.axis, "attempt"])
        table[self._record.axis] = _whole(table[self._record.axis])
        return table

    @cached_property
    def facts(self) -> DataFrame:
        import pandas as pd

        rows = [
            {"id": name, **asdict(fact), **_with_interval("value", fact), "sources": fact.place}
            for name, fact in self._facts.items()
        ]
        return pd.DataFrame(rows).reindex(columns=list(_FACTS)).set_index("id")

    @cached_property
    def attempts(self) -> DataFrame:
        import pandas as pd

        rows = []
        for attempt in self.state.attempts:
            row = {"number": attempt.number, "why": attempt.why, "launched_at": attempt.launched_at}
            row |= {key: getattr(attempt.ended, key, None) for key in _ENDS}
            rows.append({**row, "cause": self._clean(attempt.diagnosis.cause) if attempt.diagnosis else None})
        columns = ["number", "why", "launched_at", *_ENDS, "cause"]
        table = pd.DataFrame(rows, columns=columns).set_index("number")
        for column in ("launched_at", "ended_at"):
            table[column] = pd.to_datetime(table[column].astype(float), unit="s", utc=True)
        return table

    def plot(self, *names: str, ax: Any = None, **style: Any) -> Figure:
        """Draw these metrics (default: the leading one), a panel each; the figure. With `ax` they are drawn
        there, labelled with the run, so that several runs lie over each other. `style` goes to `Axes.plot`.

        Raises UserError, with the closest names.
        """
        from matplotlib import pyplot

        chosen = names or ((self.leading.name,) if self.leading else ())
        curves = [self._curve(name) for name in chosen]
        if not curves:
            raise UserError(f"{self.name}: no metric leads; name the one to plot")
        panels = [ax] * len(curves)
        if ax is None:
            shape: dict[str, Any] = {"figsize": (7.0, 2.6 * len(curves)), "layout": "constrained"}
            panels = list(pyplot.subplots(len(curves), squeeze=False, sharex=True, **shape)[1][:, 0])
        for name, (places, values), panel in zip(chosen, curves, panels, strict=True):
            marker = "o" if len(values) <= 30 else ""
            label = name if ax is None else f"{self.name}: {name}"
            panel.plot(places, values, **{"marker": marker, "markersize": 3.5, "label": label, **style})
            panel.set_ylabel(name if ax is None else "")
            if ax is not None:
                panel.legend()
        panels[-1].set_xlabel("row number" if self._record.axis == "row" else self._record.axis)
        figure: Figure = panels[0].figure
        return figure

    def _curve(self, name: str) -> tuple[list[float], list[float]]:
        """Positions and values of a metric."""
        points = points_of(self._record, name)
        if not points:
            known = metric_names(self._record)
            hint = did_you_mean(name, known, "; did you mean {}?") or f"; it has {', '.join(known) or 'none'}"
            raise UserError(f"{self.name} has no metric called {name!r}{hint}")
        return list(points.positions), list(points.values)


def _whole(places: Any) -> Any:
    """Positions as integers where all of them are whole."""
    return places.astype("int64") if len(places) and bool((places == places.round()).all()) else places


def _with_interval(name: str, fact: Fact) -> dict[str, float]:
    ends = fact.interval
    return {name: fact.value, **({f"{name}_low": ends.low, f"{name}_high": ends.high} if ends else {})}


def _below(folder: Path) -> Iterator[Path]:
    """Folders of runs below a folder; what lies inside of a run is none."""
    if not folder.is_dir():
        raise index.UnknownRunError(f"{folder} is no folder")
    return (found.parent for found in sorted(folder.rglob("journal.jsonl")) if "attempts" not in found.parts)


def _line(folder: Path) -> dict[str, Any]:
    """One row of `runs`."""
    try:
        run = OpenedRun(folder)
        state = run.state
    except journal.JournalDamagedError:
        return {"name": folder.name, "state": "damaged", "dir": str(folder)}
    return {
        "name": state.name,
        "id": state.experiment_id,
        "state": run.outcome,
        "purpose": run.purpose,
        "created": state.created_at,
        "finished": state.finished_at,
        "attempts": len(state.attempts),
        **_result(state),
        "dir": str(folder),
    }


def _result(state: ExperimentState) -> dict[str, Any]:
    """What a finished run came to."""
    came_to = state.reported.result if state.reported is not None else None
    if not came_to:
        return {}
    best = came_to.get("best") or came_to
    return {**{name: came_to[name] for name in ("metric", "goal", "value")}, "best": best["value"]}
