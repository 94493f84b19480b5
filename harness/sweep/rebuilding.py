"""The report of a finished sweep made again, elsewhere, and compared with the one that is there.

In: a sweep's folder and state, what sweep.json says, and the files that it vouches for. Out: what was
checked, and what differs. Everything is made from the raw files and the journal. Nothing is written in the
folder.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.atomic_write import write_atomically
from harness.redaction import secret_values
from harness.results.types import Discrepancy
from harness.results.verifying import schema
from harness.results.verifying.documents import document_differences
from harness.results.verifying.files import in_the_way
from harness.results.verifying.same import as_read, count, differences, named, table_differences
from harness.results.verifying.schema import UnreadableError
from harness.results.verifying.types import Checked, found
from harness.sweep import confounds
from harness.sweep.events import SweepReported
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepError
from harness.sweep.reporting import build, study
from harness.sweep.state import SweepState

if TYPE_CHECKING:
    from harness.results.comparing.types import Comparison

RESULT = "sweep.json"
_READ = ("finish.flag", "journal.jsonl", "provenance.json")
_UNFIT = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError),
    *(SweepError, TypeError, UnreadableError, ValueError),
)
"""What reading something that the harness has not written can come to."""
_ITSELF = ("checksum", "documents")  # of sweep.json, checked against the files themselves


@contextmanager
def without_secrets() -> Iterator[None]:
    """Secrets out of the environment for a while: reports mask what is secret where they are built, and
    the secrets of whoever verifies are no part of the folder."""
    secret = {name: value for name, value in os.environ.items() if secret_values({name: value})}
    for name in secret:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(secret)


def check_report(
    folder: Path, state: SweepState, result: Mapping[str, Any], documents: Collection[str]
) -> Checked:
    """sweep.json, the documents and the figures, all made again. `documents`: the files that it vouches for.

    The words are compared only where the numbers agree: else they cannot.
    """
    links = tuple(_in_the_way(folder, state))
    if links:  # what they lead to is read by nobody
        return Checked(links)
    try:
        compared = _compared(folder, state)
        checked, is_same = _numbers(folder, compared, result)
        return checked + _words(folder, state, compared, result, documents) if is_same else checked
    except _UNFIT as error:
        why = f"the report cannot be made again: {type(error).__name__}: {error}"
        return Checked(found([(RESULT, why[:300])]))


def _compared(folder: Path, state: SweepState) -> Comparison:
    """What the runs come to, with what differed beside the keys: in their files, and when the sweep ended."""
    from harness.results.compare import compare
    from harness.results.text import clean_tree

    assert state.plan is not None
    differ = (*confounds.afterwards(state.plan, SweepFolder(folder)), *(state.drifted or ()))
    made: Comparison = clean_tree(compare(study(folder, state), differ), ())
    return made


def _numbers(folder: Path, compared: Comparison, result: Mapping[str, Any]) -> tuple[Checked, bool]:
    """The comparison of sweep.json, and whether it is the same."""
    from harness.results.comparing.as_json import to_json

    fresh = as_read(to_json(compared, folder))
    wrong = named(RESULT, differences(result.get("comparison"), fresh, "comparison"))
    return Checked(wrong, numbers=count(fresh)), not wrong


def _words(
    folder: Path,
    state: SweepState,
    compared: Comparison,
    result: Mapping[str, Any],
    documents: Collection[str],
) -> Checked:
    """All that is not a number of the comparison, against a report that is built in another place."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary).resolve()
        _prepare(folder, state, place)
        build(SweepFolder(place), state, _moved(compared, place))
        _, fresh = schema.read_object(place / RESULT)
        wrong = [*_result(result, fresh, state)]
        names = {item["path"] for item in fresh["documents"]}
        wrong += found((name, "it does not follow from the runs") for name in sorted(set(documents) - names))
        wrong += found(
            (name, f"{RESULT} has no fingerprint of it") for name in sorted(names - set(documents))
        )
        for name in sorted(names & set(documents)):
            if not name.endswith(".png"):  # pixels differ between machines: its fingerprint is all there is
                differ = table_differences if name.endswith(".csv") else document_differences
                wrong += named(name, differ(folder / name, (place / name).read_text(encoding="utf-8")))
    return Checked(tuple(wrong), figures=len(fresh["figures"]))


def _prepare(folder: Path, state: SweepState, place: Path) -> None:
    """What the documents take from the folder itself: the commit, and which runs have a report."""
    text, _ = schema.read_object(folder / "snapshot" / "snapshot.json")
    (place / "snapshot").mkdir()
    write_atomically(place / "snapshot" / "snapshot.json", text)
    assert state.plan is not None
    for run in state.plan.runs:
        if (folder / run.name / "report.html").is_file():
            (place / run.name).mkdir(exist_ok=True)
            (place / run.name / "report.html").touch()


def _moved(compared: Comparison, place: Path) -> Comparison:
    """The same comparison of runs that lie in another folder."""
    planned = tuple(replace(run, folder=place / run.name) for run in compared.study.runs)
    runs = tuple(replace(one, run=replace(one.run, folder=place / one.run.name)) for one in compared.runs)
    return replace(compared, study=replace(compared.study, runs=planned), runs=runs)


def _result(result: Mapping[str, Any], fresh: Mapping[str, Any], state: SweepState) -> Iterator[Discrepancy]:
    """sweep.json without the comparison, which is known to be right."""
    left_out = (*_ITSELF, "comparison")
    recorded, again = (
        {name: value for name, value in each.items() if name not in left_out} for each in (result, fresh)
    )
    yield from named(RESULT, differences(recorded, again, ""))
    reported = state.reported or SweepReported()
    if not reported.error:
        told = differences(result.get("headline"), as_read(list(reported.headline)), "headline")
        yield from named(
            RESULT, ((place, why.replace("the runs give", "the journal has")) for place, why in told)
        )


def _in_the_way(folder: Path, state: SweepState) -> Iterator[Discrepancy]:
    """Links and special files in the place of what is read to make the report again."""
    assert state.plan is not None
    for run in state.plan.runs:
        result_dir = folder / run.name
        yield from (Discrepancy(f"{run.name}: {link.where}", link.what) for link in in_the_way(result_dir))
        changes = sorted(result_dir.glob("attempts/*/change.diff"))
        read = [result_dir / name for name in _READ] + [SweepFolder(folder).run_config(run.name), *changes]
        for path in read:
            if not _is_plain(path):
                where = str(path.relative_to(folder))
                yield Discrepancy(where, "a link or a special file stands in its place")


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return True  # nothing is there, and nothing is read
