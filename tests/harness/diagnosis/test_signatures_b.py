"""Signatures of Python, environment, config, data, hubs, files and services against logs with their labels.

`logs/<family>/index.jsonl` names for every log its family, the signature that has to hold, and what the root
line holds.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from harness.diagnosis.matching import matches
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import Book, load
from harness.diagnosis.types import Match, Signature

LOGS = Path(__file__).parent / "logs"
FAMILIES = [
    "auth",
    "binary_abi",
    "checkpoint_load",
    "config_error",
    "corrupt_weights",
    "dataset_error",
    "disk_full",
    "hub_offline",
    "module_not_found",
    "os_limit",
    "path_not_found",
    "permission",
    "port_in_use",
    "rate_limit",
    "reward_fn_error",
    "service_unavailable",
    "tokenizer_template",
    "toolchain_missing",
    "transient_io",
    "user_interrupt",
    "version_skew",
]
STRENGTH = {"specific": 2, "general": 1, "last_resort": 0}


@cache
def book() -> Book:
    return load([])


def signature(id: str) -> Signature:
    return next(each for each in book().signatures if each.id == id)


def labels() -> Iterator[dict[str, str]]:
    for index in sorted(LOGS.glob("*/index.jsonl")):
        for line in index.read_text(encoding="utf-8").splitlines():
            yield json.loads(line) | {"path": f"{index.parent.name}/{json.loads(line)['file']}"}


ALL = [label for label in labels() if label.get("signature")]
OURS = [label for label in ALL if label["family"] in FAMILIES]


@cache
def roots(path: str) -> tuple[Match, ...]:
    """What could be the cause, according to the book."""
    found = matches(read(LOGS / path, book().words), book())
    return tuple(match for match in found if match.signature.role == "root")


def named(label: dict[str, str]) -> list[Match]:
    """The matches of the label's signature that cite its root line."""
    lines = (LOGS / label["path"]).read_text(encoding="utf-8").split("\n")
    return [
        match
        for match in roots(label["path"])
        if match.signature.id == label["signature"]
        and any(label["root"] in lines[number - 1] for number in match.evidence)
    ]


@pytest.mark.parametrize("label", OURS, ids=lambda label: label["path"])
def test_a_log_is_matched_by_its_signature_at_its_root_line(label: dict[str, str]) -> None:
    assert named(label), [(match.signature.id, match.fault.message) for match in roots(label["path"])]


@pytest.mark.parametrize("label", ALL, ids=lambda label: label["path"])
def test_no_signature_of_another_family_claims_a_log_as_strongly(label: dict[str, str]) -> None:
    strength = STRENGTH[signature(label["signature"]).breadth]
    claims = [
        (match.signature.family, match.signature.id)
        for match in roots(label["path"])
        if match.signature.family in FAMILIES
        and match.signature.family != label["family"]
        and STRENGTH[match.signature.breadth] >= strength
    ]
    assert not claims


def test_every_signature_has_a_log() -> None:
    shown = {label["signature"] for label in OURS}
    ours = {each.id for each in book().signatures if each.family in FAMILIES and each.role == "root"}
    assert ours - shown == set()


@pytest.mark.parametrize("path", sorted((LOGS / "healthy").glob("b_*.log")), ids=lambda path: path.stem)
def test_what_a_healthy_log_says_is_no_cause(path: Path) -> None:
    claims = [
        (match.signature.id, match.fault.message)
        for match in roots(f"healthy/{path.name}")
        if match.signature.family in FAMILIES and not match.fault.handled and match.fault.level != "warning"
    ]
    assert not claims


@pytest.mark.parametrize(
    ("path", "captures"),
    [
        ("config_error/hydra_key.log", {"key": "trainer.save_frequency"}),
        ("config_error/yaml_colon.log", {"path": "/opt/rl/conf/run.yaml", "line": "7"}),
        ("config_error/own_trainer.log", {"path": "/exp/run.yaml", "line": "3", "key": "ajet.trainr"}),
        ("config_error/pydantic_extra.log", {"model": "TrainConfig", "key": "rollout.n_samples"}),
        ("module_not_found/ray_worker.log", {"module": "my_rewards"}),
        ("version_skew/cannot_import.log", {"wanted": "process_weights_after_loading"}),
        ("checkpoint_load/world_size.log", {"wanted": "8", "world_size": "4"}),
        ("disk_full/datasets_need.log", {"needed": "18.31 GiB"}),
        ("port_in_use/torchrun.log", {"port": "29500"}),
        ("port_in_use/uvicorn.log", {"port": "8000"}),
        ("port_in_use/zmq.log", {"port": "5555"}),
        ("service_unavailable/aiohttp.log", {"host": "127.0.0.1", "port": "30000"}),
        ("hub_offline/misspelt.log", {"model": "Qwen/Qwen2.5-0.5B-Instrct"}),
        ("path_not_found/data_file.log", {"path": "/data/gsm8k/trian.parquet"}),
        ("dataset_error/no_column.log", {"column": "prompt"}),
    ],
)
def test_what_the_log_measured_is_captured(path: str, captures: dict[str, str]) -> None:
    label = next(label for label in OURS if label["path"] == path)
    assert any(captures.items() <= match.captures.items() for match in named(label))


@pytest.mark.parametrize(
    "id",
    [
        "connection_lost",
        "name_resolution",
        "service_unavailable",
        "rate_limit",
        "read_timeout",
        "stale_file_handle",
    ],
)
def test_what_passes_by_itself_is_waited_for(id: str) -> None:
    waited_for = signature(id)
    assert waited_for.transient and waited_for.wait_s > 0
