"""Configs that are not taken or not read, whose batches do not divide, whose tracker has no key."""

from pathlib import Path
from typing import Any

import pytest

from harness.doctor import configs
from tests.harness.doctor.planning import Bad, bad, launch

BROKEN = [("problem", "config_error")]
QUICKSTART = Path(__file__).parents[3] / "blueprints/quickstart/config.yaml"
VERL = "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=4 trainer.n_gpus_per_node=8 "
ACTOR = "actor_rollout_ref.actor"
MINI = f"{VERL} data.train_batch_size=64 {ACTOR}.ppo_mini_batch_size"
MICRO = f"{ACTOR}.ppo_micro_batch_size_per_gpu"


def test_the_bundled_trainer_is_asked(tmp_path: Path) -> None:
    good = QUICKSTART.read_text()
    assert bad(configs.trainer_takes_it(launch(tmp_path, None, good))) == []
    typo = launch(tmp_path, None, good.replace("num_repeat:", "num_repeats:"))
    (found,) = configs.trainer_takes_it(typo)
    assert bad([found]) == BROKEN and "num_repeat" in found.sentence
    no_python = launch(tmp_path, None, "ajet: {}\n", venv_exe=tmp_path / "none")
    assert list(configs.trainer_takes_it(no_python)) == [], "another check says it"


def test_a_config_that_the_command_does_not_name_and_other_files(tmp_path: Path) -> None:
    assert bad(configs.is_read(launch(tmp_path, "python t.py", "a: 1\n"))) == [("warning", "")]
    assert bad(configs.is_read(launch(tmp_path, "python t.py config.yaml", "a: 1\n"))) == []
    given = launch(tmp_path, "deepspeed t.py --deepspeed ds.json")
    for text, found in (('{"zero": 3,}', [("warning", "config_error")]), ('{"zero": 3}', [])):
        (tmp_path / "ds.json").write_text(text)
        assert bad(configs.files_parse(given)) == found


PRODUCT = '{{"train_batch_size": {}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": {}}}'
UNEVEN = ("problem", "batch_divisibility")
UNLIKE = ("warning", "batch_divisibility")


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("deepspeed t.py --deepspeed ds.json", PRODUCT.format(60, 4), [UNEVEN]),
        ("deepspeed t.py --deepspeed ds.json", PRODUCT.format(64, 4), []),
        ("deepspeed --num_gpus 2 t.py --deepspeed ds.json", PRODUCT.format(64, 4), [UNLIKE]),
        ("python t.py --deepspeed ds.json", PRODUCT.format(64, 4), [UNLIKE]),
        ("python t.py --deepspeed ds.json", PRODUCT.format(16, 4), []),
        ("python t.py --deepspeed ds.json", PRODUCT.format('"auto"', 4), []),
        ("python t.py --num_generations 4 --per_device_train_batch_size 3", "", [UNLIKE]),
        ("torchrun --nproc_per_node 4 t.py --num_generations 4 --per_device_train_batch_size 3", "", []),
        ("python t.py --num_generations 4 --per_device_train_batch_size 8", "", []),
    ],
)
def test_products_of_batches(tmp_path: Path, command: str, text: str, expected: Bad) -> None:
    (tmp_path / "ds.json").write_text(text)
    given = launch(tmp_path, command)
    assert bad([*configs.deepspeed_batches(given), *configs.generations_divide(given)]) == expected


def test_settings_in_toml(tmp_path: Path) -> None:
    for text, found in (("name = adamw\n", [("warning", "config_error")]), ("name = 'adamw'\n", [])):
        (tmp_path / "a.toml").write_text(text)
        assert bad(configs.files_parse(launch(tmp_path, "python t.py --config a.toml"))) == found


def test_numbers_that_are_text_to_pyyaml(tmp_path: Path) -> None:
    text = "optim: {lr: 1e-2, eps: 1.0e-8, name: '1e-3'}\nsteps: 2e3\n"
    found = list(configs.numbers_are_numbers(launch(tmp_path, "python t.py config.yaml", text)))
    assert bad(found) == [("warning", "config_error")] * 2
    assert [each.fix for each in found] == ["write `optim.lr: 0.01`", "write `steps: 2000.0`"]
    (tmp_path / "own.yaml").write_text("lr: 5e-6\n")
    (found,) = configs.numbers_are_numbers(launch(tmp_path, "python t.py own.yaml"))
    assert "own.yaml: `lr: 5e-6`" in found.text and "`lr: 5.0e-06`" in found.fix
    assert not list(configs.numbers_are_numbers(launch(tmp_path, None, text))), "the bundled trainer reads it"


@pytest.mark.parametrize(
    ("command", "problems"),
    [
        (f"{MINI}=16 {MICRO}=4", 0),
        (f"{MINI}=16 {MICRO}=3", 1),
        (f"{MINI}=16 {MICRO}=3 {ACTOR}.use_dynamic_bsz=True", 0),
        (f"{MINI}=1", 1),
        (f"{MINI}=128", 1),
        (f"{VERL} data.train_batch_size=33", 1),
        (f"{VERL} data.train_batch_size=33 {ACTOR}.ulysses_sequence_parallel_size=2", 0),
        (f"{VERL} data.train_batch_size=33 {ACTOR}.strategy=megatron", 0),
    ],
)
def test_batches_of_verl(tmp_path: Path, command: str, problems: int) -> None:
    found = bad(configs.batches_divide(launch(tmp_path, command)))
    assert found == [("problem", "batch_divisibility")] * problems


NO_KEY = [("problem", "auth")]
NETRC = "machine api.wandb.ai\n  login user\n  password hunter2\n"


@pytest.mark.parametrize(
    ("command", "variables", "logins", "expected"),
    [
        (VERL + "trainer.logger=['console','wandb']", {}, "", NO_KEY),
        (VERL + "trainer.logger=['console','swanlab']", {}, NETRC, NO_KEY),
        ("python t.py --report_to wandb", {}, "", NO_KEY),
        ("python t.py --report_to none", {}, "", []),
        ("python t.py --report_to wandb", {"WANDB_API_KEY": "hunter2"}, "", []),
        ("python t.py --report_to wandb", {}, NETRC, []),
        ("WANDB_MODE=offline python t.py --report_to wandb", {}, "", []),
        ("wandb login && python t.py --report_to wandb", {}, "", [("warning", "auth")]),
    ],
)
def test_keys_of_trackers(tmp_path: Path, command: str, variables: Any, logins: str, expected: Bad) -> None:
    (tmp_path / ".netrc").write_text(logins)
    neither = {"WANDB_API_KEY": "", "WANDB_MODE": "", "SWANLAB_API_KEY": "", "SWANLAB_MODE": ""}
    given = launch(tmp_path, command, variables={**neither, "HOME": str(tmp_path), **variables})
    found = list(configs.trackers_have_keys(given))
    assert bad(found) == expected and not any("hunter2" in each.sentence for each in found)
