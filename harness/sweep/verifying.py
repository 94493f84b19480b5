"""A finished sweep checked against its own raw files: its journal, its documents, and every run in turn.

In: a sweep's folder, which may have been moved or copied. Out: what was checked, and what differs. The
comparison is made again from the runs' raw files and must give the numbers of sweep.json, points.csv and the
tables behind the figures. Nothing is written in the folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.redaction import secret_values
from harness.results.text import clean_tree
from harness.results.types import Discrepancy
from harness.results.verifying import schema
from harness.results.verifying.ending import FLAG, compared, read_flag, story
from harness.results.verifying.files import differing, in_the_way, unlisted
from harness.results.verifying.reported import is_as_written
from harness.results.verifying.run import verify_run
from harness.results.verifying.said import said_otherwise
from harness.results.verifying.same import as_read, count, differences, named, table_differences
from harness.results.verifying.schema import ListedFile, UnreadableError
from harness.results.verifying.types import Checked, NotFinishedError, found
from harness.sweep.ending import flag_of
from harness.sweep.folder import CANARY, JOURNAL, SweepFolder
from harness.sweep.state import RunState, SweepState, fold

if TYPE_CHECKING:
    from harness.results.comparing.types import Comparison

RESULT = "sweep.json"
_OWN_FOLDERS = ("jobs", "snapshot")
"""What the harness processes printed, and the frozen code, which is checked file by file."""


def verify_sweep(folder: Path) -> Checked:
    """Check a finished sweep and its runs. Raises NotFinishedError for a folder without a finish.flag."""
    folder = folder.resolve()
    try:
        flag, listed, wrong = read_flag(folder, JOURNAL)
    except FileNotFoundError:
        raise NotFinishedError(
            f"{folder} has no {FLAG}: the sweep has not ended, and there is nothing to hold it to yet. "
            f"`harness resume {folder}` goes on with it"
        ) from None
    known = {FLAG, RESULT, JOURNAL, *(item.path for item in listed)}
    checked = Checked()
    state = story(folder / JOURNAL, fold, wrong)
    if state is not None:
        wrong += compared(flag, flag_of(state)) if flag is not None else ()
        wrong += _plan(folder, state)
        checked = _runs(folder, state)
    documents, own = _reported(folder, state)
    known |= documents
    code = _frozen_code(folder)
    runs = _folders_of_runs(state)
    strangers = unlisted(folder, known, (*_OWN_FOLDERS, *runs))
    total = Checked(tuple(wrong)) + own + code + Checked(tuple(strangers)) + checked
    own_files = [name for name in known if name.partition("/")[0] not in runs]
    return replace(total, files=total.files + len(own_files))


# --- plan and runs ------------------------------------------------------------------------------------------


def _plan(folder: Path, state: SweepState) -> tuple[Discrepancy, ...]:
    """plan.json must be the plan that the journal was begun with."""
    assert state.plan is not None
    name = SweepFolder(folder).plan.name
    try:
        _, plan = schema.read_object(folder / name)
    except (UnreadableError, OSError):
        return ()  # the manifest tells
    differ = differences(plan, as_read(state.plan.as_json()), "")
    return found(
        (f"{name}, {place}", why.replace("the runs give", "the journal has")) for place, why in differ
    )


def _runs(folder: Path, state: SweepState) -> Checked:
    """Every run that came to an end, each as a run of its own."""
    total = Checked()
    for run in state.all_runs:
        name = run.run.name
        if not _is_name(name):
            total += Checked(found([(JOURNAL, f"{name[:80]!r} is no name of a run's folder")]))
            continue
        try:
            total += verify_run(folder / name).below(name)
            total += Checked(_outcome(folder / name, run))
        except NotFinishedError:
            if run.outcome not in ("", "lost", "cannot_run", "cancelled"):
                total += Checked(found([(f"{name}/{FLAG}", f"the file is gone, and the run {run.outcome}")]))
    return total


def _outcome(result_dir: Path, run: RunState) -> tuple[Discrepancy, ...]:
    """The run's own end must be the one that the sweep's journal tells."""
    try:
        _, flag = schema.read_object(result_dir / FLAG)
    except (UnreadableError, OSError):
        return ()  # the run's own check tells
    if flag.get("outcome") == run.outcome:
        return ()
    told = f"it says {str(flag.get('outcome'))[:40]!r}, the sweep's journal {run.outcome or run.status!r}"
    return found([(f"{run.run.name}/{FLAG}", told)])


def _folders_of_runs(state: SweepState | None) -> tuple[str, ...]:
    return (*(run.run.name for run in state.all_runs), CANARY) if state is not None else (CANARY,)


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


# --- documents ----------------------------------------------------------------------------------------------


def _reported(folder: Path, state: SweepState | None) -> tuple[set[str], Checked]:
    """sweep.json, the documents it vouches for, and the comparison made again; the names of the documents."""
    from harness.results.sweeps.report import DOCUMENTS

    try:
        text, result = schema.read_object(folder / RESULT)
    except FileNotFoundError:
        return set(), Checked(found([(RESULT, "the file is gone; `harness report` builds it again")]))
    except UnreadableError as error:
        return set(), Checked(found([(RESULT, str(error))]))
    wrong: list[Discrepancy] = []
    documents: list[ListedFile] = []
    if not is_as_written(text, result):
        wrong += found([(RESULT, "it is not as it was written: its checksum does not agree with the rest")])
    try:
        documents = schema.listed_files(result.get("documents"))
    except UnreadableError as error:
        wrong += found([(f"{RESULT}, documents", str(error))])
    listed = {item.path for item in documents}
    wrong += differing(folder, documents, "the report was built")
    wrong += found(
        (name, f"{RESULT} has no fingerprint of this document") for name in DOCUMENTS if name not in listed
    )
    if state is None or not all(_is_name(run.run.name) for run in state.all_runs):
        return listed, Checked(tuple(wrong))
    links = [(run.name, link) for run in _planned(state) for link in in_the_way(folder / run.name)]
    if links:  # what they lead to is read by nobody
        wrong += found((f"{run}: {link.where}", link.what) for run, link in links)
        return listed, Checked(tuple(wrong))
    return listed, Checked(tuple(wrong)) + _compared_again(folder, state, result, listed)


def _planned(state: SweepState) -> tuple[Any, ...]:
    assert state.plan is not None
    return state.plan.runs


def _compared_again(folder: Path, state: SweepState, result: Mapping[str, Any], listed: set[str]) -> Checked:
    """The comparison of sweep.json, points.csv and the figures' tables against one made now."""
    from harness.results.claims import evidence_of_comparison
    from harness.results.compare import compare
    from harness.results.comparing.as_json import points_csv, to_json
    from harness.sweep.reporting import study

    recorded = result.get("comparison")
    if not isinstance(recorded, Mapping):
        return Checked(found([(f"{RESULT}, comparison", "there is none")]))
    known = recorded.get("confounds")
    confounds = tuple(map(str, known)) if isinstance(known, list) else ()
    again = clean_tree(compare(study(folder, state), confounds), secret_values(os.environ))
    fresh = as_read(to_json(again, folder))
    wrong = named(RESULT, differences(recorded, fresh, "comparison"))
    if state.narrative or result.get("narrative"):
        said = said_otherwise(result.get("narrative"), state.narrative, evidence_of_comparison(again))
        wrong += named(RESULT, said)
    if "points.csv" in listed:
        wrong += named("points.csv", table_differences(folder / "points.csv", points_csv(again)))
    tables, figures = _figures(folder, again, listed)
    return Checked((*wrong, *tables), numbers=count(fresh), figures=figures)


def _figures(folder: Path, again: Comparison, listed: set[str]) -> tuple[tuple[Discrepancy, ...], int]:
    """The tables of the figures against those of figures drawn now, elsewhere."""
    from harness.results.sweeps.figures import draw_figures

    wrong: tuple[Discrepancy, ...] = ()
    with tempfile.TemporaryDirectory() as elsewhere:
        figures = draw_figures(again, Path(elsewhere))
        names = {name for figure in figures for name in figure.files}
        there = {name for name in listed if name.startswith("figures/")}
        wrong += found((name, "this figure does not follow from the runs") for name in sorted(there - names))
        wrong += found((name, f"{RESULT} has no fingerprint of it") for name in sorted(names - there))
        for name in sorted(names & there):
            if name.endswith(".csv"):
                fresh = (Path(elsewhere) / name).read_text(encoding="utf-8")
                wrong += named(name, table_differences(folder / name, fresh))
    return wrong, len(figures)


def _frozen_code(folder: Path) -> Checked:
    """The code that all runs shared, file by file, against what was written down when it was frozen."""
    try:
        _, inventory = schema.read_object(folder / "snapshot" / "files.json")
        listed = schema.listed_files(
            [
                {"path": name, "sha256": entry.get("sha256"), "bytes": entry.get("size")}
                for name, entry in inventory.items()
                if isinstance(entry, dict)
            ]
        )
    except FileNotFoundError:
        return Checked()  # the manifest tells, where there was one
    except UnreadableError as error:
        return Checked(found([("snapshot/files.json", str(error))]))
    differ = differing(folder / "snapshot" / "code", listed, "it was frozen for all runs")
    wrong = found((f"snapshot/code/{item.where}", item.what) for item in differ)
    return Checked(wrong, files=len(listed))
