"""The rules for a whole repair, and for who knows a config alone."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.app import app
from harness.guard.repair_rules import of_repairs, rules_alone
from harness.repair.remedies import Situation, remedies_for
from harness.repair.remedies.types import NobodyToAskError, Repair
from tests.harness.runs import found as diagnosed

CONFIG = "enforce_eager: false\nlearning_rate: 0.1\n"


def test_edits_and_variables_are_held_against_rules_and_command() -> None:
    refuses = of_repairs(CONFIG, ("NCCL_P2P_DISABLE",), "NCCL_IB_DISABLE=0 python t.py --max-num-seqs 8")
    assert refuses(Repair(edits={"enforce_eager": True})) is None
    assert "studied" in str(refuses(Repair(edits={"learning_rate": 0.2})))
    assert refuses(Repair(edits={"max_num_seqs": 4})) is None, "it is changed in the command"
    assert "protected" in str(refuses(Repair(environment={"NCCL_P2P_DISABLE": "1"})))
    assert "launch command" in str(refuses(Repair(environment={"NCCL_IB_DISABLE": "1"})))
    assert refuses(Repair(environment={"NCCL_SHM_DISABLE": "1"})) is None


def test_with_a_config_alone_the_rules_hold_and_nobody_is_asked() -> None:
    trl = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\ngeneration_batch_size: 64\n"
    now = Situation(diagnosed({"captures": {"module": "cv2"}}), trl, surroundings=rules_alone(trl))
    found = remedies_for(["halve_micro_batch", "raise_open_files", "install_package", "nccl_p2p_off"], now)
    assert [each.name for each in found] == ["raise_open_files", "install_package", "nccl_p2p_off"]
    assert not found[1].package
    with pytest.raises(NobodyToAskError):
        rules_alone("").free_port()


@pytest.mark.parametrize(("more", "is_offered"), [("", True), ("generation_batch_size: 64\n", False)])
def test_the_command_line_offers_nothing_that_a_run_would_refuse(
    tmp_path: Path, more: str, is_offered: bool
) -> None:
    log, config = tmp_path / "train.log", tmp_path / "config.yaml"
    config.write_text(f"per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\n{more}")
    log.write_text(
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    loss.backward()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 100.00 MiB is free.\n"
    )
    done = CliRunner().invoke(app, ["diagnose", str(log), "--config", str(config), "--json"])
    told = [each["change"] for each in json.loads(done.output)["remedies"]]
    assert any("per_device_train_batch_size: 8 → 4" in change for change in told) is is_offered
