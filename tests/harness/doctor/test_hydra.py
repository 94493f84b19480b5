"""Overrides of Hydra programs, checked against the config they change."""

from pathlib import Path

import pytest

from harness.doctor import hydra
from tests.harness.doctor.planning import bad, examined, launch

PROGRAM = """
import hydra

@hydra.main(config_path="conf", config_name="train", version_base=None)
def main(config):
    print(config)
"""
TRAIN = """
defaults:
  - model: small
  - optim@trainer.optim: adam
  - _self_
trainer:
  steps: 10
  lr: ???
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    for name, text in {
        "train": TRAIN,
        "model/small": "width: 8\n",
        "optim/adam": "betas: [0.9, 0.95]\n",
    }.items():
        file = tmp_path / "conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def found(code: Path, arguments: str) -> list[tuple[str, str]]:
    return bad(examined(hydra.overrides_are_known, launch(code, f"python train.py {arguments}")))


@pytest.mark.parametrize(
    "arguments",
    [
        "model.width=3",
        "trainer.optim.betas=[0.8,0.9]",
        "trainer.steps=3",
        "+new.key=1",
        "model=large",
        "hydra.run.dir=x",
    ],
)
def test_overrides_that_are_known(code: Path, arguments: str) -> None:
    assert found(code, f"{arguments} trainer.lr=1") == []


@pytest.mark.parametrize("arguments", ["model.widht=3", "trainer.step=3", "optim.betas=1", "steps=3"])
def test_overrides_that_are_not(code: Path, arguments: str) -> None:
    assert found(code, f"{arguments} trainer.lr=1") == [("problem", "config_error")]


def test_a_typo_is_told_with_what_was_meant(code: Path) -> None:
    told = examined(hydra.overrides_are_known, launch(code, "python train.py trainer.lr=1 model.widht=3"))
    assert told[0].mend == "did you mean model.width?"


def test_a_value_that_must_be_given(code: Path) -> None:
    assert found(code, "trainer.steps=3") == [("warning", "config_error")]


def test_a_part_that_is_not_found_makes_it_unsure(code: Path) -> None:
    (code / "conf/model/small.yaml").unlink()
    assert found(code, "model.anything=3 trainer.lr=1") == []
    assert found(code, "trainer.stepz=3 trainer.lr=1") == [("warning", "config_error")]


def test_another_config_name(code: Path) -> None:
    assert found(code, "--config-name tarin") == [("problem", "config_error")]
    (code / "conf/other.yaml").write_text("x: 1\n")
    assert found(code, "--config-name other x=2") == []
    assert found(code, "--config-name other trainer.steps=2") == [("problem", "config_error")]


def test_a_program_without_hydra_takes_what_it_likes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    assert found(tmp_path, "any.key=1") == []


def test_a_part_that_is_switched_off_needs_no_value(code: Path) -> None:
    part = "reward:\n  enable: {}\n  server:\n    name: ???\n"
    (code / "conf/train.yaml").write_text("trainer: {steps: 3}\n" + part.format("false"))
    assert found(code, "trainer.steps=3") == []
    (code / "conf/train.yaml").write_text("trainer: {steps: 3}\n" + part.format("true"))
    assert found(code, "trainer.steps=3") == [("warning", "config_error")]
