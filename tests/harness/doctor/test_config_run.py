"""Configs that the trainer does not take, that are not read, or that do not parse."""

from pathlib import Path

from harness.doctor import config_run
from tests.harness.doctor.planning import bad, examined, launch

BROKEN = [("problem", "config_error")]
QUICKSTART = Path(__file__).parents[3] / "blueprints/quickstart/config.yaml"


def test_the_bundled_trainer_is_asked(tmp_path: Path) -> None:
    good = QUICKSTART.read_text()
    assert bad(examined(config_run.trainer_takes_it, launch(tmp_path, None, good))) == []
    typo = launch(tmp_path, None, good.replace("num_repeat:", "num_repeats:"))
    found = examined(config_run.trainer_takes_it, typo)
    assert bad(found) == BROKEN and "num_repeat" in found[0].sentence


def test_a_broken_interpreter_is_reported_once(tmp_path: Path) -> None:
    given = launch(tmp_path, None, "ajet: {}\n", venv_exe=tmp_path / "none")
    assert examined(config_run.trainer_takes_it, given) == []


def test_a_config_that_the_command_does_not_name(tmp_path: Path) -> None:
    assert bad(examined(config_run.is_read, launch(tmp_path, "python t.py", "a: 1\n"))) == [("warning", "")]
    assert examined(config_run.is_read, launch(tmp_path, "python t.py config.yaml", "a: 1\n")) == []


def test_other_files_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero": 3,}')
    given = launch(tmp_path, "deepspeed t.py --deepspeed ds.json")
    assert bad(examined(config_run.files_parse, given)) == [("warning", "config_error")]
    (tmp_path / "ds.json").write_text('{"zero": 3}')
    assert examined(config_run.files_parse, given) == []
