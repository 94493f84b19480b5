"""Configs that do not parse, are not read, or leave something open."""

from pathlib import Path

import pytest

from harness.doctor import config_run
from tests.harness.doctor.planning import bad, examined, launch

BROKEN = [("problem", "config_error")]
QUICKSTART = Path(__file__).parents[3] / "blueprints/quickstart/config.yaml"


@pytest.mark.parametrize(
    ("text", "where"),
    [("a: 1\n\tb: 2\n", "line 2"), ("a: 1\nb: [1, 2\n", "line"), ("a: 1\na: 2\n", "a"), ("- 1\n", "mapping")],
    ids=["a tab", "an open bracket", "a key twice", "a list"],
)
def test_yaml_that_does_not_parse(tmp_path: Path, text: str, where: str) -> None:
    found = examined(config_run.parses, launch(tmp_path, "python t.py config.yaml", text))
    assert bad(found) == BROKEN and where in found[0].text


def test_yaml_that_does(tmp_path: Path) -> None:
    assert (
        bad(examined(config_run.parses, launch(tmp_path, "python t.py config.yaml", "a: {b: 1e-6}\n"))) == []
    )


def test_json(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text, expected in (('{"a": 1, "a": 2}', BROKEN), ('{"a": 1,}', BROKEN), ('{"a": 1}', [])):
        file.write_text(text)
        given = launch(tmp_path, "python t.py config.json", yaml_path=str(file))
        assert bad(examined(config_run.parses, given)) == expected


def test_the_bundled_trainer_is_asked(tmp_path: Path) -> None:
    good = QUICKSTART.read_text()
    assert bad(examined(config_run.trainer_takes_it, launch(tmp_path, None, good))) == []
    typo = launch(tmp_path, None, good.replace("num_repeat:", "num_repeats:"))
    found = examined(config_run.trainer_takes_it, typo)
    assert bad(found) == BROKEN and "num_repeat" in found[0].sentence


def test_a_broken_interpreter_is_told_once(tmp_path: Path) -> None:
    given = launch(tmp_path, None, "ajet: {}\n", venv_exe=str(tmp_path / "none"))
    assert examined(config_run.trainer_takes_it, given) == []


def test_a_config_that_the_command_does_not_name(tmp_path: Path) -> None:
    assert bad(examined(config_run.is_read, launch(tmp_path, "python t.py", "a: 1\n"))) == [("warning", "")]
    assert examined(config_run.is_read, launch(tmp_path, "python t.py config.yaml", "a: 1\n")) == []


def test_other_files_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero": 3,}')
    given = launch(tmp_path, "deepspeed t.py --deepspeed ds.json")
    assert bad(examined(config_run.other_files_parse, given)) == [("warning", "config_error")]
    (tmp_path / "ds.json").write_text('{"zero": 3}')
    assert examined(config_run.other_files_parse, given) == []


OPEN = "a:\n  b: ???\n  c: 1\nd: ${a.x}\ne: ${oc.env:NOT_SET_HERE}\nf: ${a.c}\n"


def test_values_left_open(tmp_path: Path) -> None:
    found = examined(config_run.nothing_left_open, launch(tmp_path, "python t.py config.yaml", OPEN))
    assert [finding.text.split()[0] for finding in found] == ["a.b", "d", "e"]
    assert {finding.severity for finding in found} == {"warning"}
    given = launch(tmp_path, "python t.py config.yaml a.b=3 a.x=4", OPEN, variables={"NOT_SET_HERE": "1"})
    assert examined(config_run.nothing_left_open, given) == []


def test_numbers_that_pyyaml_reads_as_text(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import yaml\nyaml.safe_load(open('config.yaml'))\n")
    found = examined(
        config_run.numbers_are_numbers, launch(tmp_path, "python t.py config.yaml", "lr: 1e-6\nx: 1.0e-6\n")
    )
    assert bad(found) == [("warning", "config_error")] and found[0].mend == "write 1.0e-6"
    (tmp_path / "t.py").write_text("from omegaconf import OmegaConf\nimport yaml\n")
    assert (
        examined(config_run.numbers_are_numbers, launch(tmp_path, "python t.py config.yaml", "lr: 1e-6\n"))
        == []
    )
