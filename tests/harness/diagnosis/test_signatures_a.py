"""The signatures of GPUs, engines, communication and clusters, held against short logs of each failure."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from benchmarks._noise import hide
from harness.diagnosis import diagnose_log
from harness.diagnosis.matching import matches
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import Book, load
from harness.diagnosis.types import UNKNOWN, Match, Signature

LOGS = Path(__file__).parent / "logs"
FAMILIES = (
    "allocator_conflict",
    "batch_divisibility",
    "collective_timeout",
    "cuda_runtime",
    "driver_or_arch",
    "gpu_hardware",
    "gpu_occupied",
    "gpu_oom",
    "gpu_placement",
    "hang_no_output",
    "host_oom",
    "kv_cache_budget",
    "length_limit",
    "native_crash",
    "network_interconnect",
    "numerics_nan",
    "parallelism_config",
    "peer_crash_cascade",
    "ray_cluster",
    "resources_unschedulable",
    "shm_exhausted",
    "silent_bad_metrics",
    "time_limit",
    "worker_died_opaque",
)
BREADTHS = ("last_resort", "general", "specific")
NAME = re.compile(r"\(\?P<(\w+)>")


@dataclass(frozen=True)
class Labelled:
    """A log, the signature that should hold for it, and a text of the line that tells the cause."""

    path: Path
    family: str
    signature: str
    root: str


def _labelled() -> list[Labelled]:
    found = []
    for family in FAMILIES:
        for line in (LOGS / family / "index.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            path = LOGS / family / entry["file"]
            found.append(Labelled(path, entry["family"], entry["signature"], entry["root"]))
    return found


ALL = _labelled()
EACH = pytest.mark.parametrize("log", ALL, ids=lambda log: f"{log.family}/{log.path.stem}")
HEALTHY = pytest.mark.parametrize(
    "path", sorted((LOGS / "healthy").glob("*.log")), ids=lambda path: path.stem
)


@cache
def _book() -> Book:
    return load(())


@cache
def _matches(path: Path) -> list[Match]:
    return matches(read(path, _book().words), _book())


def _breadth(match: Match) -> int:
    return BREADTHS.index(match.signature.breadth)


@EACH
def test_the_signature_holds_and_its_evidence_has_the_line_of_the_cause(log: Labelled) -> None:
    lines = log.path.read_text(encoding="utf-8").splitlines()
    own = [match for match in _matches(log.path) if match.signature.id == log.signature]
    assert own
    assert any(log.root in lines[number - 1] for match in own for number in match.evidence)


@EACH
def test_no_other_family_explains_the_same_fault_as_well(log: Labelled) -> None:
    own = [match for match in _matches(log.path) if match.signature.id == log.signature]
    faults = {match.fault.line for match in own}
    as_broad = [
        match.signature.id
        for match in _matches(log.path)
        if match.fault.line in faults
        and match.signature.role == "root"
        and match.signature.family != log.family
        and _breadth(match) >= min(map(_breadth, own))
    ]
    assert as_broad == []


@EACH
def test_the_family_comes_first(log: Labelled) -> None:
    assert diagnose_log(log.path).family == log.family


@HEALTHY
def test_a_healthy_log_is_not_diagnosed_with_confidence(path: Path) -> None:
    found = diagnose_log(path)
    assert found.family == UNKNOWN or found.confidence < 0.5


@HEALTHY
def test_a_healthy_log_stays_healthy_in_the_middle_of_a_longer_one(path: Path, tmp_path: Path) -> None:
    longer = tmp_path / "run.log"
    longer.write_bytes(hide(path.read_bytes(), seed=3, lines=600).content)
    found = diagnose_log(longer)
    assert found.family == UNKNOWN or found.confidence < 0.5


@HEALTHY
def test_nothing_in_a_healthy_log_is_a_root_at_the_level_of_an_error(path: Path) -> None:
    found = [
        match.signature.id
        for match in _matches(path)
        if match.signature.family in FAMILIES
        and match.signature.role == "root"
        and match.fault.level in ("error", "fatal")
        and not match.fault.handled
    ]
    assert found == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_signature_of_the_family_has_a_log(family: str) -> None:
    told = {log.signature for log in ALL}
    assert [each.id for each in _book().signatures if each.family == family and each.id not in told] == []


@pytest.mark.parametrize(
    "signature", [each for each in load(()).signatures if each.family in FAMILIES], ids=lambda each: each.id
)
def test_a_cause_names_only_what_a_pattern_captures(signature: Signature) -> None:
    patterns = [
        pattern for clause in signature.when for pattern in vars(clause).values() if pattern is not None
    ]
    captured = {name for pattern in patterns for name in NAME.findall(pattern.text)}
    assert set(re.findall(r"\{(\w+)\}", signature.cause)) <= captured


def _captures(path: str) -> dict[str, str]:
    wanted = next(log for log in ALL if log.path == LOGS / path)
    return dict(next(m.captures for m in _matches(wanted.path) if m.signature.id == wanted.signature))


def test_what_was_measured_is_captured() -> None:
    assert _captures("gpu_oom/rollout_vllm.log").items() >= {
        "tried": "1.02 GiB", "free": "612.00 MiB", "total": "79.33 GiB",
    }.items()  # fmt: skip
    assert _captures("gpu_oom/fragmentation.log")["reserved"] == "14.61 GiB"
    assert _captures("kv_cache_budget/below_length_v1.log").items() >= {
        "max_model_len": "131072", "kv_tokens": "62064", "needed": "16.00 GiB", "free": "7.58 GiB",
    }.items()  # fmt: skip
    assert _captures("parallelism_config/vllm_heads.log") == {"heads": "28", "tp": "3"}
    assert _captures("length_limit/verl_prompt.log") == {"length": "1081", "limit": "1024"}
    assert (
        _captures("network_interconnect/rendezvous.log").items()
        >= {"host": "10.0.0.9", "port": "29500"}.items()
    )
