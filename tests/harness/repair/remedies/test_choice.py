"""All remedies together: none changes what is studied, each can be taken back, each is described."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from harness.attempt import Diagnosis
from harness.cli.app import app
from harness.codec import encode
from harness.config import edit as config_edit
from harness.guard import rules as guard
from harness.guard.science import refuse_repair
from harness.observation import Observation
from harness.options import RunOptions
from harness.repair.remedies import Remedy, Situation, known_names, remedies_for
from harness.repair.remedies.situation import Settings
from harness.repair.repair_plan import actions_of
from harness.state import AttemptState
from tests.harness.repair.remedies.samples import AJET, CONFIGS, VERL, situation
from tests.harness.runs import end, state_with
from tests.harness.runs import found as diagnosed

FIXED = (
    r"(max_)?(prompt|response|completion)_length|seed|lr|learning_rate|model_name_or_path|path|dataset_name|n"
    r"|train_batch_size|ppo_mini_batch_size|num_repeat|temperature|num_generations|train_files|total_training_steps"
)
SIZES = st.builds("{} {}".format, st.integers(0, 90), st.sampled_from(["GiB", "MiB"]))
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
    ended = end({"reason": "exited", "status": 1, "last_step": 3})
    attempt = AttemptState(1, "ajet_x-01", "x-01", "first", launched_at=1.0, ended=ended)
    plan = {"yaml_path": "/c.yaml", "launch_command": None, "codebase_dir": "/", "venv_exe": "/v/bin/python"}
    state = state_with(plan=plan, attempts=(attempt,), deadline_at=9.0, options=RunOptions())
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
            said = json.dumps(encode(remedy), sort_keys=True)
            if said not in seen:  # most remedies come to the same whatever was captured
                assert_is_harmless(remedy, now.diagnosis, config)
                seen.add(said)

    holds()
    assert len(seen) > 10


def assert_is_harmless(remedy: Remedy, diagnosis: Diagnosis, config: str) -> None:
    assert refuse_repair(remedy, config) is None, remedy
    for action in actions_of(remedy, diagnosis):
        if action.kind != "install_package":
            assert guard.check(action, failed(config)) is None, (remedy, action)
    after = config_edit.edit(config, remedy.edits, remedy.remove)
    before_values, after_values = Settings.read(config), Settings.read(after)
    fixed = [each.key for each in before_values.all if re.fullmatch(FIXED, each.name) and not each.is_default]
    assert fixed and all(before_values.values[key] == after_values.values[key] for key in fixed)
    assert effective_batch(after_values) == effective_batch(before_values), remedy
    undone = config_edit.edit(after, remedy.undo.edits, remedy.undo.remove)
    assert Settings.read(undone).values == before_values.values, remedy
    assert set(remedy.undo.environment) == set(remedy.environment)
    assert remedy.change and remedy.why and remedy.side_effect and remedy.undo.words


def test_every_name_is_described_for_a_log_alone() -> None:
    measured = {"tried": "2 GiB", "reserved": "8 GiB", "max_model_len": "4096", "new": "b.csv"}
    measured |= {"key": "lerning_rate", "meant": "learning_rate", "package": "numpy", "wanted": ">=2"}
    cause = "flash attention, inductor and the FSDP actor's engine failed"
    doubtful = Situation(diagnosed({"confidence": 0.1, "captures": measured, "cause": cause}))
    found = remedies_for([*NAMES, "advise: Use a larger GPU."], doubtful)
    of_a_run = {"free_own_checkpoints", "free_leftovers", "fewer_env_workers"}
    assert [each.name for each in found] == [*(name for name in NAMES if name not in of_a_run), "advise"]
    assert all(each.change and not each.edits and not each.environment for each in found)
    assert (found[-1].kind, found[-1].change, found[-1].why) == ("advice", "Use a larger GPU.", "")


def test_what_nothing_measured_is_not_told_of_a_log() -> None:
    length = ["fit_max_model_len", "advise: Filter out what is too long."]
    data = {"cause": "sequence_length=5000 is larger than max_length=2048"}
    assert [each.name for each in remedies_for(length, Situation(diagnosed(data)))] == ["advise"]
    engine = {"cause": "too long for the model", "captures": {"max_model_len": "4096"}}
    assert remedies_for(length, Situation(diagnosed(engine)))[0].name == length[0]
    little = {"tried": "4 GiB", "held": "14 GiB", "allocated": "13 GiB"}
    reserved = ({"tried": "2 GiB", "reserved": "300 MiB"}, {"tried": "1 MiB", "reserved": "9 MiB"}, little)
    for captures in ({}, *reserved, {"key": "unrecognized arguments", "meant": "expected one argument"}):
        now = Situation(diagnosed({"captures": captures}))
        assert remedies_for(["expandable_segments", "correct_key", "enforce_eager"], now) == []


def test_a_remedy_that_fails_does_not_apply_and_the_others_do(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> int:
        raise OSError("no such device")

    now = situation(AJET, machine={"cpu_count": broken, "owned": lambda what: 1 // 0})
    names = ["fewer_threads", "free_leftovers", "enforce_eager", "lower_gpu_memory_utilization"]
    assert [each.name for each in remedies_for(names, now)] == ["lower_gpu_memory_utilization"]
    assert "no such device" in caplog.text and "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("number", ["inf", "nan", "9" * 400, "9" * 15 + " GiB", "-1", "1e999"])
def test_no_number_of_a_log_ends_a_run(number: str) -> None:
    names = ("tried", "free", "total", "reserved", "needed", "utilization", "heads", "port", "limit")
    config = VERL + "x: .inf\nswap_space: .inf\nrollout: {tp_size: 99999999999999999999}\n"
    now = situation(config, captures=dict.fromkeys(names, number), family="kv_cache_budget")
    assert remedies_for([*NAMES, "advise: Look."], now)[-1].name == "advise"


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
    names = ["offload_optimizer", "nccl_p2p_off", "free_leftovers", "wait_and_retry", "advise: Look."]
    for confidence in (0.4, float("nan")):
        doubtful = situation(AJET, confidence=confidence, transient=True)
        assert [each.kind for each in remedies_for(names, doubtful)] == ["wait", "advice"]


def test_with_a_config_alone_what_depends_on_the_machine_is_only_described() -> None:
    alone = Situation(diagnosed({"captures": {"port": "18000"}}), AJET)
    found = remedies_for(["lower_gpu_memory_utilization", "free_port", "free_leftovers"], alone)
    edited = [("lower_gpu_memory_utilization", True), ("free_port", False), ("free_leftovers", False)]
    assert [(each.name, bool(each.edits)) for each in found] == edited


def test_nothing_is_said_about_no_config_a_circular_one_or_by_a_name_of_another_version() -> None:
    names = ["lower_gpu_memory_utilization", "nccl_p2p_off"]
    assert [each.name for each in remedies_for(names, situation(""))] == ["nccl_p2p_off"]
    assert remedies_for(["enforce_eager"], situation("a: &a\n  b: *a\nenforce_eager: false\n")) == []
    assert remedies_for(["pray"], situation(AJET)) == []
    assert remedies_for(["pray"], Situation(diagnosed({}))) == []


@pytest.mark.parametrize(("more", "is_offered"), [("", True), ("generation_batch_size: 64\n", False)])
def test_the_command_line_offers_what_a_run_would_take(tmp_path: Path, more: str, is_offered: bool) -> None:
    log, config = tmp_path / "train.log", tmp_path / "config.yaml"
    config.write_text(f"per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\n{more}")
    log.write_text(
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    loss.backward()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 100.00 MiB is free.\n"
    )
    done = CliRunner().invoke(app, ["diagnose", str(log), "--config", str(config), "--json"])
    changes = [each["change"] for each in json.loads(done.output)["remedies"]]
    assert any("per_device_train_batch_size: 8 → 4" in change for change in changes) is is_offered
