"""All remedies together: none changes what is studied, each can be taken back, each is described."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import config_edit
from harness.agent import guard
from harness.agent.repairing.choosing import actions_of
from harness.agent.types import Observation
from harness.diagnosis.remedies import Remedy, Situation, known_names, remedies_for
from harness.diagnosis.remedies.settings import Settings
from harness.options import RunOptions
from harness.state import AttemptState, ExperimentState
from tests.harness.diagnosis.remedies.samples import AJET, CONFIGS, VERL, situation

FIXED = (
    r"(max_)?(prompt|response|completion)_length|seed|lr|learning_rate|model_name_or_path|path|dataset_name|n"
    r"|train_batch_size|ppo_mini_batch_size|num_repeat|temperature|num_generations|train_files|total_training_steps"
)
SIZES = st.builds(
    lambda number, unit: f"{number} {unit}", st.integers(0, 90), st.sampled_from(["GiB", "MiB"])
)
CAPTURES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("tried", "free", "total", "reserved", "needed"), SIZES),
        "utilization": st.sampled_from(["0.9", "0.5", "?"]),
        "heads": st.integers(1, 64).map(str),
        "port": st.sampled_from(["29511", "18000", "29500", "80"]),
        "module": st.sampled_from(["cv2", "yaml", "utils"]),
        "model": st.just("org/model"),
    },
)
NAMES = sorted(known_names())


def failed(config: str) -> Observation:
    """What the guard sees after a failure of a run with this config."""
    ended = {"reason": "exited", "status": 1, "complete": False, "last_step": 3}
    attempt = AttemptState(1, "ajet_x-01", "x-01", "first", launched_at=1.0, ended=ended)
    plan = {"yaml_path": "/c.yaml", "launch_command": None, "codebase_dir": "/", "venv_exe": "/v/bin/python"}
    state = ExperimentState(plan=plan, attempts=(attempt,), deadline_at=9.0, options=RunOptions())
    return Observation(state, 2.0, config=config)


def effective_batch(config: Settings) -> int | None:
    """The product of batch and accumulation, where a config gives it so."""
    values = config.values.items()
    sizes = [value for key, value in values if key.endswith(("device_train_batch_size", "train.batch_size"))]
    steps = [value for key, value in values if key.endswith(("accumulation_steps", "grad_accum"))]
    return sizes[0] * (steps[0] if steps else 1) if sizes else None  # type: ignore[operator, return-value]


@pytest.mark.parametrize("name", CONFIGS)
def test_no_remedy_changes_what_is_studied_and_each_can_be_undone(name: str) -> None:
    config = CONFIGS[name]
    seen: set[str] = set()

    @settings(max_examples=8, deadline=None)
    @given(captures=CAPTURES, passes=st.booleans())
    def holds(captures: dict[str, str], passes: bool) -> None:
        now = situation(config, captures=captures, transient=passes, cause="wandb TCPStore")
        for remedy in remedies_for(NAMES, now):
            said = json.dumps(remedy.as_json(), sort_keys=True)
            if said not in seen:  # most remedies come to the same whatever was captured
                assert_is_harmless(remedy, now.diagnosis, config)
                seen.add(said)

    holds()
    assert len(seen) > 10


def assert_is_harmless(remedy: Remedy, diagnosis: Mapping[str, Any], config: str) -> None:
    for action in actions_of(remedy.as_json(), diagnosis):
        if action.kind != "install_package":
            assert guard.check(action, failed(config)) is None, (remedy, action)
    after = config_edit.edit(config, remedy.edits, remedy.remove)
    before_values, after_values = Settings.read(config), Settings.read(after)
    fixed = [each.key for each in before_values.named(FIXED) if not each.is_default]
    assert fixed and all(before_values.get(key) == after_values.get(key) for key in fixed)
    assert effective_batch(after_values) == effective_batch(before_values), remedy
    undone = config_edit.edit(after, remedy.undo.edits, remedy.undo.remove)
    assert Settings.read(undone).values == before_values.values, remedy
    assert set(remedy.undo.environment) == set(remedy.environment)
    assert remedy.change and remedy.why and remedy.side_effect and remedy.undo.words


def test_every_name_is_described_for_a_log_alone() -> None:
    measured = {"tried": "2 GiB", "reserved": "8 GiB"}
    doubtful = Situation({"confidence": 0.1, "captures": measured})
    found = remedies_for([*NAMES, "advise: Use a larger GPU."], doubtful)
    assert [each.name for each in found] == [*NAMES, "advise"]
    assert all(each.change and not each.edits and not each.environment for each in found)
    assert found[-1].kind == "advice" and found[-1].change == "Use a larger GPU."


def test_a_hint_in_a_log_is_no_measurement() -> None:
    for captures in (
        {},
        {"tried": "2 GiB", "reserved": "300 MiB"},
        {"tried": "20 MiB", "reserved": "500 MiB"},
    ):
        assert remedies_for(["expandable_segments"], Situation({"captures": captures})) == []


def test_the_change_tells_key_and_values() -> None:
    names = ["lower_gpu_memory_utilization", "offload_optimizer", "nccl_p2p_off"]
    told = [remedy.change for remedy in remedies_for(names, situation(VERL))]
    assert told == [
        "actor_rollout_ref.rollout.gpu_memory_utilization: 0.6 → 0.5",
        "actor_rollout_ref.actor.fsdp_config.optimizer_offload: unset (false by default) → true",
        "NCCL_P2P_DISABLE: unset → 1",
    ]


def test_what_was_tried_in_vain_comes_last_and_goes_a_step_further() -> None:
    names = ["lower_gpu_memory_utilization", "offload_optimizer", "halve_micro_batch"]
    lower = AJET.replace("0.85", "0.75")
    now = situation(lower, tried=("lower_gpu_memory_utilization",))
    found = remedies_for(names, now)
    assert [each.name for each in found] == ["offload_optimizer", "lower_gpu_memory_utilization"]
    assert found[-1].edits == {"ajet.rollout.gpu_memory_utilization": 0.65}


def test_a_doubtful_diagnosis_changes_nothing() -> None:
    names = [
        "lower_gpu_memory_utilization",
        "nccl_p2p_off",
        "free_leftovers",
        "wait_and_retry",
        "advise: Look.",
    ]
    doubtful = situation(AJET, confidence=0.4, transient=True)
    assert [each.kind for each in remedies_for(names, doubtful)] == ["wait", "advice"]


def test_a_run_without_a_config_is_not_told_to_change_one() -> None:
    names = ["lower_gpu_memory_utilization", "nccl_p2p_off"]
    assert [each.name for each in remedies_for(names, situation(""))] == ["nccl_p2p_off"]


def test_with_a_config_alone_what_depends_on_the_machine_is_only_described() -> None:
    found = remedies_for(["lower_gpu_memory_utilization", "free_port", "free_leftovers"], Situation({}, AJET))
    assert [(each.name, bool(each.edits)) for each in found] == [
        ("lower_gpu_memory_utilization", True),
        ("free_port", False),
        ("free_leftovers", False),
    ]


def test_a_name_of_another_version_is_passed_over() -> None:
    assert remedies_for(["pray"], situation(AJET)) == []
    assert remedies_for(["pray"], Situation({})) == []
