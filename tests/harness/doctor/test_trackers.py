"""Trackers without a key, which would wait for one."""

from pathlib import Path

import pytest

from harness.doctor import trackers
from tests.harness.doctor.planning import bad, examined, launch

NEITHER = {"WANDB_API_KEY": "", "WANDB_MODE": "", "SWANLAB_API_KEY": "", "SWANLAB_MODE": ""}
VERL = "python -m verl.trainer.main_ppo trainer.logger=['console','{}']"


def found(folder: Path, command: str, **variables: str) -> list[tuple[str, str]]:
    given = launch(folder, command, variables={**NEITHER, "HOME": str(folder), **variables})
    results = examined(trackers.have_keys, given)
    assert all("hunter2" not in finding.sentence for finding in results)
    return bad(results)


@pytest.mark.parametrize("name", ["wandb", "swanlab"])
def test_a_key_and_none(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, VERL.format(name)) == [("problem", "auth")]
    assert found(tmp_path, VERL.format(name), **{f"{name.upper()}_API_KEY": "hunter2"}) == []
    assert found(tmp_path, VERL.format(name), **{f"{name.upper()}_MODE": "offline"}) == []


def test_flags_of_transformers(tmp_path: Path) -> None:
    assert found(tmp_path, "python t.py --report_to wandb") == [("problem", "auth")]
    assert found(tmp_path, "python t.py --report_to none") == []


def test_a_netrc_file(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password hunter2\n")
    assert found(tmp_path, VERL.format("wandb")) == []
    assert found(tmp_path, VERL.format("swanlab")) == [("problem", "auth")]


def test_a_command_that_logs_in_itself(tmp_path: Path) -> None:
    assert found(tmp_path, "wandb login && python t.py --report_to wandb") == [("warning", "auth")]
    assert found(tmp_path, "WANDB_MODE=offline python t.py --report_to wandb") == []
