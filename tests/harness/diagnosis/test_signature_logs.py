"""Every signature held against short logs of its failure, and against logs in which nothing failed.
`logs/<family>/index.jsonl` names for every log the signature that has to hold, and what it must cite and
capture.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from benchmarks._noise import hide
from harness.diagnosis import diagnose_log
from harness.diagnosis.matching import GIVEN, Match, matches
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import SignatureCatalogue, load
from harness.diagnosis.types import NOTHING_FAILED, UNKNOWN, Diagnosis

LOGS = Path(__file__).parent / "logs"
BREADTHS = ("last_resort", "general", "specific")
CAPTURE = re.compile(r"\(\?P<(\w+)>")
NAME = re.compile(r"\{(\w+)\}")
LEFT_OVER = re.compile(r"[?\[\]{}]")


@dataclass(frozen=True)
class Labelled:
    path: Path
    family: str
    signature: str
    root: str
    captures: dict[str, str]

    def __str__(self) -> str:
        return f"{self.family}/{self.path.name}"


def _labelled() -> list[Labelled]:
    found = []
    for index in sorted(LOGS.glob("*/index.jsonl")):
        for line in index.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            path, captures = index.parent / entry["file"], entry.get("captures", {})
            found.append(Labelled(path, entry["family"], entry["signature"], entry["root"], captures))
    return found


ALL = [log for log in _labelled() if log.signature]
EACH_FAMILY = pytest.mark.parametrize("family", sorted({log.family for log in ALL}))
HEALTHY = sorted((LOGS / "healthy").glob("*.log"))


@cache
def _catalogue() -> SignatureCatalogue:
    return load(())


@cache
def _matches(path: Path) -> tuple[Match, ...]:
    return tuple(matches(read(path, _catalogue().words), _catalogue()))


@cache
def _diagnosed(path: Path) -> Diagnosis:
    return diagnose_log(path, catalogue=_catalogue())


def _own(log: Labelled) -> list[Match]:
    """The matches of the label's signature that cite the line of the cause."""
    lines = log.path.read_text(encoding="utf-8").split("\n")
    return [
        match
        for match in _matches(log.path)
        if match.signature.id == log.signature
        and any(log.root in lines[number - 1] for number in match.evidence)
    ]


def _complaints(log: Labelled) -> Iterator[str]:
    """What is wrong with how this log is explained. What the log itself said may hold any sign; the sentence
    around it may not."""
    own, all_found = _own(log), _matches(log.path)
    if not own:
        yield f"{log.signature} does not hold at the line of the cause"
    faults = {match.fault.line for match in own}
    broadest = min((BREADTHS.index(match.signature.breadth) for match in own), default=0)
    for match in all_found:
        known = match.signature
        explains = match.fault.line in faults and BREADTHS.index(known.breadth) >= broadest
        if explains and known.role == "root" and known.family != log.family:
            yield f"{known.id} explains the same fault as well"
        if LEFT_OVER.search(_around(match)):
            yield f"a gap is left in: {match.cause}"
    if (first := _diagnosed(log.path).family) != log.family:
        yield f"{first} comes first"
    if not any(log.captures.items() <= match.captures.items() for match in own):
        yield "what the log measured is not captured"


@EACH_FAMILY
def test_a_log_is_explained_by_its_signature_and_by_no_other_family_as_well(family: str) -> None:
    found = {str(log): [*_complaints(log)] for log in ALL if log.family == family}
    assert {log: complaints for log, complaints in found.items() if complaints} == {}


def _around(match: Match) -> str:
    cause = match.cause
    for said in sorted(map(str.strip, match.captures.values()), key=len, reverse=True):
        cause = cause.replace(said, "", 1) if said else cause
    return cause


def test_a_cause_is_sure_of_every_name_that_it_cannot_leave_out() -> None:
    wrong = {}
    for signature in _catalogue().signatures:
        clauses = [
            {name for pattern in vars(clause).values() if pattern for name in CAPTURE.findall(pattern.text)}
            for clause in signature.when
        ]
        needed = set(NAME.findall(re.sub(r"\[[^\[\]]*\]", "", signature.cause)))
        named = set(NAME.findall(signature.cause))
        if not needed <= set.intersection(*clauses) or not named <= set.union(*clauses) | GIVEN:
            wrong[signature.id] = signature.cause
    assert wrong == {}


def test_every_signature_has_a_log() -> None:
    """What is only a symptom may have it in a training that went on."""
    told = {log.signature for log in ALL}
    symptoms = {match.signature.id for path in HEALTHY for match in _matches(path)}
    assert [
        each.id
        for each in _catalogue().signatures
        if each.id not in told and (each.role != "symptom" or each.id not in symptoms)
    ] == []


def test_healthy_logs_are_not_diagnosed_with_confidence_nor_in_the_middle_of_longer_ones(
    tmp_path: Path,
) -> None:
    confident = {}
    for path in HEALTHY:
        longer = tmp_path / path.name
        longer.write_bytes(hide(path.read_bytes(), seed=3, lines=600).content)
        for found in (_diagnosed(path), diagnose_log(longer, catalogue=_catalogue())):
            if found.family not in (UNKNOWN, NOTHING_FAILED) and found.confidence >= 0.5:
                confident[path.stem] = (found.signature, found.confidence)
    assert confident == {}


def test_nothing_in_a_healthy_log_is_a_root_at_the_level_of_an_error() -> None:
    claims = {
        path.stem: match.signature.id
        for path in HEALTHY
        for match in _matches(path)
        if match.signature.role == "root"
        and match.fault.level in ("error", "fatal")
        and not match.fault.handled
        and path.stem not in ("preempted_then_resumed", "preempted_and_resumed")
    }
    assert claims == {}


def test_what_passes_by_itself_is_waited_for() -> None:
    passing = "connection_lost name_resolution service_unavailable rate_limit read_timeout stale_file_handle"
    found = {each.id: each for each in _catalogue().signatures if each.id in passing.split()}
    assert len(found) == 6
    assert all(each.transient and each.wait_s > 0 for each in found.values())
