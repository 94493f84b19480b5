"""A finished folder checked against its own raw files, as `harness verify` does: of a run, or of a sweep.

In: a folder, which may have been moved or copied. Out: what was checked, and what differs. Every file is held
to its fingerprint in the manifests; the journal is read again and must give what finish.flag says; the report
is built again in a temporary folder from raw files and journal, and its documents and the data of its figures
must say the same; one that another version built may not, which is said once. Nothing is written in the
folder. Whatever it holds, it makes no error: what cannot be read is a discrepancy. Drawings are held to their
fingerprints alone.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness import journal
from harness.environment import remembered
from harness.errors import UserError
from harness.journal import Entry, Order
from harness.redaction import Secrets
from harness.results.content import (
    is_inside,
    leaves,
    line_difference,
    read_text,
    regular_and_other,
    tree_differences,
)
from harness.results.manifest import flag_of, json_text, sha256, with_checksum
from harness.results.raw import json_file
from harness.results.types import LOG_CUT, Discrepancy
from harness.state import ExperimentState, fold
from harness.wording import listed

FLAG = "finish.flag"
_ITSELF = ("checksum", "documents", "manifest")  # of a result file: held to the files themselves


class NotFinishedError(UserError):
    """The folder is not a finished one; the message says what to do about it."""


@dataclass(frozen=True)
class Checked:
    """What was looked at, in numbers, and what is not as it was recorded. `outdated`: reports that another
    version of the harness built, and whose words or numbers, but nothing else in their folder, differ;
    `changed_code`: files that a model changed for a training."""

    discrepancies: tuple[Discrepancy, ...] = ()
    outdated: tuple[Discrepancy, ...] = ()
    changed_code: tuple[str, ...] = ()
    numbers: int = 0
    files: int = 0
    figures: int = 0
    runs: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    def below(self, folder: str) -> Checked:
        """The same, with each place named from the folder above."""

        def moved(found: Iterable[Discrepancy]) -> tuple[Discrepancy, ...]:
            return tuple(Discrepancy(f"{folder}: {item.where}", item.what) for item in found)

        found = replace(self, discrepancies=moved(self.discrepancies), outdated=moved(self.outdated))
        return replace(found, changed_code=tuple(f"{folder}: {file}" for file in self.changed_code))

    @property
    def summary(self) -> str:
        """`1 run, 312 numbers, 41 files, 14 figures checked: nothing differs`."""
        counts = {"run": self.runs, "number": self.numbers, "file": self.files, "figure": self.figures}
        shown = ", ".join(f"{n:,} {name}{'' if n == 1 else 's'}" for name, n in counts.items())
        found = len(self.discrepancies)
        verdict = f"{found:,} differ{'s' if found == 1 else ''}" if found else "nothing differs"
        verdict += f" but {len(self.outdated)} built by another version" if self.outdated else ""
        code = f"; code was changed by a model: {listed(self.changed_code, 6)}" if self.changed_code else ""
        return f"{shown} checked: {verdict}{code}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Kind:
    """What a finished folder of a kind holds. `rebuild`: writes the report from what is in the folder (first)
    into another one (last); `apart`: folders that are checked by themselves."""

    name: str
    journal: str
    order: Order
    result: str
    fold: Callable[[Sequence[Entry]], Any]
    flag: Callable[[Any, Secrets], Mapping[str, Any]]
    rebuild: Callable[[Path, Any, Path], None]
    apart: Callable[[Any], Collection[str]] = lambda state: ()


def verify_run(result_dir: Path) -> Checked:
    """Check a finished run. Raises NotFinishedError for a folder without a finish.flag."""
    checked, state = verify_folder(result_dir, RUN)
    return checked + Checked(runs=1, changed_code=state.changed_files if state is not None else ())


def verify_folder(folder: Path, kind: Kind) -> tuple[Checked, Any]:
    """Check a finished folder; also the state that its journal folds to, None where it folds to none. Raises
    NotFinishedError."""
    folder = folder.resolve()
    if not os.path.lexists(folder / FLAG):
        raise NotFinishedError(
            f"{folder} has no {FLAG}: the {kind.name} has not ended, and there is nothing to hold it to yet. "
            f"`harness resume {folder}` goes on with it"
        )
    check = _Check(folder, kind)
    return check.checked(), check.state


class _Check:
    """One folder while it is checked. `held`: what finish.flag and the result file say of each file."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder, self.kind = folder, kind
        self.wrong: dict[Discrepancy, None] = {}
        self.outdated: tuple[Discrepancy, ...] = ()
        self.held: dict[str, list[Mapping[str, Any]]] = {}
        self.numbers = self.figures = 0
        self.state: Any = None

    def checked(self) -> Checked:
        flag = self._object(FLAG, lambda data: json_text(data) + "\n")
        result = self._object(self.kind.result, _sealed)
        self._hold(FLAG, flag, "manifest")
        self._hold(self.kind.result, result, "documents")
        if "manifest" in result:
            self._hold(self.kind.result, result, "manifest")
        self.state = self._folded()
        apart = self.kind.apart(self.state) if self.state is not None else ()
        there = dict(regular_and_other(self.folder, apart))
        ours = {FLAG, self.kind.result, *self.held}
        for path, held in self.held.items():
            if there.get(path) is not False:  # links and special files are named below
                for fingerprint in held:
                    self._add(path, _why_different(self.folder / path, fingerprint))
        for name, is_regular in there.items():
            if not is_regular:
                self._add(name, "a link or a special file stands in its place")
            elif name not in ours:
                self._add(name, "nothing accounts for this file: it was put there after the end")
        if flag and self.kind.journal not in self.held:
            self._add(FLAG, "it does not vouch for the journal")
        if flag and self.state is not None:
            told = {key: value for key, value in flag.items() if key != "manifest"}
            self._compare(
                FLAG, told, self.kind.flag(self.state, remembered(self.folder)), "the journal gives"
            )
        if self.state is not None and all(there.values()):  # what a link leads to is not read
            with tempfile.TemporaryDirectory() as temporary:
                self._compare_with_report_built_again(result, Path(temporary).resolve())
        own = [name for name in ours if name.partition("/")[0] not in apart]
        return Checked(tuple(self.wrong), self.outdated, (), self.numbers, len(own), self.figures)

    def _add(self, where: str, what: str) -> None:
        if what:
            self.wrong[Discrepancy(where[:300], what[:300])] = None

    def _object(self, name: str, as_written: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
        """The JSON object in a file of ours, {} where there is none."""
        try:
            text = read_text(self.folder / name)
            data = json.loads(text)
            if not isinstance(data, dict):
                raise ValueError("it is not a JSON object")
            if as_written(data) != text:
                self._add(name, "it is not as it was written: its checksum or its form does not agree")
            return data
        except FileNotFoundError:
            self._add(name, f"the file is gone; `harness report {self.folder.name}` builds a report again")
        except (OSError, ValueError, RecursionError) as error:
            self._add(name, f"it cannot be read: {error}")
        return {}

    def _hold(self, name: str, data: Mapping[str, Any], part: str) -> None:
        """Keep the fingerprints in a manifest, by file; none of a file outside the folder."""
        items: Any = data.get(part) if data else []
        for item in items if isinstance(items, list) else [items]:
            path = item.get("path") if isinstance(item, dict) else None
            if not isinstance(item, dict) or not isinstance(path, str) or not is_inside(path):
                self._add(f"{name}, {part}", f"this is no fingerprint of a file in the folder: {item!r}")
            elif item not in self.held.setdefault(path, []):
                self.held[path].append(item)

    def _folded(self) -> Any:
        """What a finished journal tells; None where it tells nothing."""
        path, name = self.folder / self.kind.journal, self.kind.journal
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                return None  # named with the links
            entries = journal.read(path, self.kind.order)
            if journal.first_and_last(path) is None:
                self._add(name, "its last entry is torn")
            state = self.kind.fold(entries)
            if state.verdict is not None and entries[-1].kind == "finish":
                return state
            self._add(name, "it does not end with the end that finish.flag tells of")
        except FileNotFoundError:
            self._add(name, "the file is gone")
        except Exception as error:  # noqa: BLE001, whatever the file holds
            self._add(name, str(error).replace(f"{path}:", "line ") or type(error).__name__)
        return None

    def _compare_with_report_built_again(self, result: Mapping[str, Any], place: Path) -> None:
        """Compare result file, documents and figure data with those of a report that is built now."""
        name = self.kind.result
        try:
            self.kind.rebuild(self.folder, self.state, place)
            fresh = json.loads((place / name).read_text(encoding="utf-8"))
        except Exception as error:  # noqa: BLE001, whatever the files hold
            self._add(name, f"the report cannot be made again: {type(error).__name__}: {error}")
            return
        is_sound = result and not self.wrong
        for fact in fresh.get("facts", ()):
            if fact.get("withheld", LOG_CUT) != LOG_CUT:
                self._add(f"{name}, facts[{fact['id']}]", f"withheld: {fact['withheld']}")
        known = dict(self.wrong)
        if result:
            self._compare(name, _without_itself(result), _without_itself(fresh), "the raw files give")
        built = [item["path"] for item in fresh["documents"]]
        for document in built:
            with suppress(OSError, ValueError, RecursionError):  # its fingerprint tells
                self._compare_document(document, (place / document).read_text(encoding="utf-8"))
        drawn = [file for figure in fresh["figures"] for file in figure["files"]]
        for missing in sorted({*built, *drawn} - set(self.held)) if result else ():
            self._add(missing, f"{name} has no fingerprint of it")
        by, this = result.get("built_by", "an earlier version"), fresh["built_by"]
        if is_sound and by != this and (count := len(self.wrong) - len(known)):
            what = f"built by {_short(by)}, this is {this!r}: {count:,} of its words and numbers come out"
            again = f"otherwise; `harness report {self.folder}` builds it again"
            self.wrong, self.outdated = known, (Discrepancy(name, f"{what} {again}"),)

    def _compare_document(self, name: str, new: str) -> None:
        is_data = name.endswith(".json")
        self.figures += is_data
        old = read_text(self.folder / name) if name in self.held else new
        if is_data:
            self._compare(name, json.loads(old), json.loads(new), "the raw files give")
        elif (differs := line_difference(old, new)) is not None:
            number, *lines = differs
            one, other = map(_short, lines)
            self._add(f"{name}, line {number}", f"it says {one}, the raw files give {other}")

    def _compare(self, name: str, old: Any, new: Any, who: str) -> None:
        self.numbers += sum(type(value) in (int, float) for _, value in leaves(new))
        for place, one, other in tree_differences(old, new):
            self._add(f"{name}, {place}", f"it says {_short(one)}, {who} {_short(other)}")


def _why_different(path: Path, fingerprint: Mapping[str, Any]) -> str:
    try:
        if path.resolve() != path or not stat.S_ISREG(path.lstat().st_mode):
            return "a link stands in its place, or on the way to it"
        if path.stat().st_size != fingerprint.get("bytes") or sha256(path) != fingerprint.get("sha256"):
            return "the file has changed since it was recorded"
    except (FileNotFoundError, NotADirectoryError):
        return "the file is gone"
    except (OSError, ValueError) as error:
        return f"it cannot be read: {error}"
    return ""


def _sealed(data: Mapping[str, Any]) -> str:
    return with_checksum({key: value for key, value in data.items() if key != "checksum"})


def _without_itself(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if key in _ITSELF else value for key, value in result.items() if key != "built_by"}


def _short(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:110]


# --- runs ---------------------------------------------------------------------------------------------------


def run_flag(state: ExperimentState, known: Secrets) -> dict[str, Any]:
    """What finish.flag says of a run that has ended, its manifest left out."""
    about: dict[str, Any] = {"experiment_id": state.experiment_id, "attempts": len(state.attempts)}
    if state.waited_s:
        about["waited_s"] = state.waited_s
    if state.what_to_do:
        about["what_to_do"] = [each.sentence for each in state.what_to_do]
    if state.changed_files:
        about["changed_code"] = list(state.changed_files)
    if state.reported is not None and state.reported.result is not None:
        about["result"] = dict(state.reported.result)
    return flag_of(state, known, **about)


def _rebuild_run(result_dir: Path, state: ExperimentState, into: Path) -> None:
    from harness.results.report import build_report

    told = json_file(result_dir / RUN.result, RUN.result, []) or {}
    draws = any(file.endswith(".svg") for figure in told.get("figures", ()) for file in figure["files"])
    build_report(result_dir, journal.read(result_dir / RUN.journal), into, draws)


RUN = Kind("run", "journal.jsonl", journal.RUN, "result.json", fold, run_flag, _rebuild_run)
