"""What a backbone refuses, ignores, or takes."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from trainer_core import config as config_package
from trainer_core.config.keys import all_keys
from trainer_core.config.problems import Finding
from trainer_core.config.schema import Config
from trainer_core.config.support import TABLES, findings, note, rule_for


def found(ajet: dict[str, Any], **roots: Any) -> dict[str, Finding]:
    base = {"model": {"path": "tiny"}, "task_reader": {"type": "builtin"}}
    config = Config.model_validate({"ajet": {**base, **ajet}, **roots})
    return {finding.key: finding for finding in findings(config)}


def test_a_plain_config_has_nothing_to_report() -> None:
    assert found({}) == {}


@pytest.mark.parametrize(
    ("key", "ajet"),
    [
        ("opd", {"opd": {"anything": 1}}),
        (
            "task_reader.type",
            {"task_reader": {"type": "deep_finance"}, "task_judge": {"judge_type": "exact_match"}},
        ),
        ("task_judge.judge_type", {"task_judge": {"judge_type": "environment"}}),
        (
            "task_reader.data_generation.query_reader.type",
            {"task_reader": {"type": "builtin", "data_generation": {"query_reader": {"type": "builtin"}}}},
        ),
        (
            "task_judge.rubrics_auto_grader.input_data_type",
            {"task_judge": {"rubrics_auto_grader": {"input_data_type": "env_service"}}},
        ),
        ("task_judge.judge_protocol", {"task_judge": {"judge_type": "customized_protocol"}}),
        (
            "trainer_common.algorithm.adv_estimator",
            {"trainer_common": {"algorithm": {"adv_estimator": "gae"}}},
        ),
        ("model.path", {"model": {}}),
        ("model.path", {"model": {"path": "/no/such/folder"}}),
    ],
)
def test_refused_because_it_would_change_the_science(key: str, ajet: dict[str, Any]) -> None:
    assert {path: finding.verdict for path, finding in found(ajet).items()} == {f"ajet.{key}": "refused"}


def test_verl_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.config.support.find_spec", lambda name: None)
    (finding,) = found({"backbone": "verl"}).values()
    assert (finding.key, finding.why) == ("ajet.backbone", "verl is not installed here")
    assert "make cpu-stack" in finding.fix


def test_verl_reads_what_is_of_gpus_and_what_is_not_there_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.config.support.find_spec", lambda name: True)
    of_gpus = {"nnodes": 2, "n_gpus_per_node": 4, "fsdp_config": {"param_offload": False}}
    assert found({"backbone": "verl", "trainer_common": of_gpus}) == {}
    assert len(found({"trainer_common": of_gpus})) == 3
    (finding,) = found(
        {"backbone": "verl", "trainer_common": {"algorithm": {"adv_estimator": "gae"}}}
    ).values()
    assert finding.verdict == "refused" and "`verl` has no critic" in finding.why


def test_what_means_nothing_on_a_device_is_told_where_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.config.support.find_spec", lambda name: True)
    offload = {"param_offload": True, "optimizer_offload": False}
    common = {"device": "cpu", "fsdp_config": offload, "ref_param_offload": True}
    rollout = {"gpu_memory_utilization": 0.5, "kv_cache_memory_bytes": 10**9, "name": "sglang"}
    seen = found({"backbone": "verl", "trainer_common": common, "rollout": rollout})
    assert {each.verdict for each in seen.values()} == {"ignored"}
    assert [key.rpartition(".")[2] for key in sorted(seen)] == [
        "gpu_memory_utilization", "name", "param_offload", "ref_param_offload"
    ]  # fmt: skip
    (finding,) = found({"backbone": "verl", "rollout": {"kv_cache_memory_bytes": 10**9}}).values()
    assert "gpu_memory_utilization" in finding.why
    assert list(found({"trainer_common": {"worker_timeout": 60.0}})) == ["ajet.trainer_common.worker_timeout"]
    assert found({"trainer_common": {"worker_timeout": 60.0}, "rollout": {"inference": "vllm"}}) == {}


@pytest.mark.parametrize(("inference", "ignored"), [("vllm", 0), ("transformers", 2)])
def test_keys_of_vllm_count_where_there_is_one(inference: str, ignored: int) -> None:
    rollout = {"inference": inference, "max_num_seqs": 7, "vllm_python": "python3"}
    assert len(found({"rollout": rollout})) == ignored


def test_debug_reads_what_local_leaves() -> None:
    debug = {"debug_first_n_tasks": 5, "debug_max_parallel": 9}
    assert set(found({"backbone": "debug", "debug": debug})) == {"ajet.debug.debug_max_parallel"}
    assert set(found({"debug": debug})) == {f"ajet.debug.{name}" for name in debug}


def test_ignored_where_the_result_stays_comparable() -> None:
    ajet = {
        "rollout": {"tensor_model_parallel_size": 2, "gpu_memory_utilization": 0.5, "num_repeat": 8},
        "trainer_common": {"nnodes": 2, "fsdp_config": {"param_offload": False}, "seed": 7},
    }
    reported = found(ajet, verl={"a": {"b": 1}}, hydra={"searchpath": []}, defaults=["x"])
    assert {path: finding.verdict for path, finding in reported.items()} == dict.fromkeys(
        [
            "ajet.rollout.tensor_model_parallel_size",
            "ajet.rollout.gpu_memory_utilization",
            "ajet.trainer_common.nnodes",
            "ajet.trainer_common.fsdp_config.param_offload",
            "verl",
            "hydra",
            "defaults",
        ],
        "ignored",
    )


@pytest.mark.parametrize("backbone", ["local", "debug"])
def test_keys_about_workflows_are_honoured_where_there_is_one(backbone: str) -> None:
    ajet: dict[str, Any] = {
        "backbone": backbone,
        "rollout": {"max_env_worker": 3, "multi_turn": {"max_steps": 5}},
        "task_runner": {"wrapper_type": "multi-processing"},
    }
    alone = {path: finding.verdict for path, finding in found(ajet).items()}
    assert alone == dict.fromkeys(
        ["ajet.rollout.max_env_worker", "ajet.rollout.multi_turn.max_steps", "ajet.task_runner.wrapper_type"],
        "ignored",
    )
    ajet["rollout"]["user_workflow"] = "a->B"
    in_debug = ["ajet.rollout.max_env_worker", "ajet.task_runner.wrapper_type"] if backbone == "debug" else []
    assert list(found(ajet)) == in_debug


def test_a_workflow_needs_no_judge() -> None:
    without_answers = {"task_reader": {"type": "huggingface_dat_repo"}, "rollout": {"user_workflow": "a->B"}}
    assert found(without_answers) == {}


def test_values_equal_to_the_default_are_not_reported() -> None:
    assert found({"trainer_common": {"nnodes": 1, "n_gpus_per_node": 8}, "lora": {"lora_rank": 0}}) == {}


def test_doubtful_settings_are_told_but_done() -> None:
    rollout = {"num_repeat": 1, "val_kwargs": {"temperature": 0.0}}
    reported = found({"rollout": rollout})
    assert {path: finding.verdict for path, finding in reported.items()} == {
        "ajet.trainer_common.val_pass_n": "doubtful",
        "ajet.rollout.num_repeat": "doubtful",
    }


def test_every_rule_covers_a_key_that_exists_and_that_no_earlier_rule_covers() -> None:
    settable = [key.path for key in all_keys().values() if not key.is_section]
    for backbone, table in TABLES.items():
        for rule in table:
            for pattern in rule.keys.split():
                covered = [path for path in settable if fnmatchcase(path.removeprefix("ajet."), pattern)]
                assert any(rule_for(path, backbone) is rule for path in covered), pattern


def test_what_counts_as_honoured_is_read_somewhere() -> None:
    with_one_legal_value = {"ajet.rollout.gamma", "ajet.trainer_common.optim.optimizer"}
    package = Path(config_package.__file__).parents[1]
    files = [
        file for file in package.rglob("*.py") if Path(config_package.__file__).parent not in file.parents
    ]
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    honoured = [key for key in all_keys().values() if not key.is_section and note(key) == "honoured"]
    unread = {key.path for key in honoured if not re.search(rf"\.{key.name}\b", source)}
    handed_over = {path for path in unread if path.startswith("ajet.model.tiny.")}  # `TinyModel(**…)`
    assert unread - handed_over <= with_one_legal_value


def test_note_tells_what_local_takes() -> None:
    assert note(all_keys()["ajet.trainer_common.optim.lr"]) == "honoured"
    assert note(all_keys()["ajet.rollout.name"]).startswith("ignored: ")
    assert note(all_keys()["ajet.trainer_common.algorithm.adv_estimator"]).startswith("only grpo, rloo, ")
