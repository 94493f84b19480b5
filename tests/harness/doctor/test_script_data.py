"""Files and columns that a program's source names."""

import json
from pathlib import Path

import pytest

from harness.doctor import config_run, script_data
from tests.harness.doctor.planning import bad, examined, launch

LOADS = "from datasets import load_dataset\nds = load_dataset('json', data_files='a.jsonl')\n"


def write(folder: Path, more: str) -> None:
    (folder / "t.py").write_text(LOADS + more)
    (folder / "a.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}) + "\n")


@pytest.mark.parametrize(
    "more",
    [
        "ds = ds.filter(lambda d: len(d['prompt']) < 512)\n",
        "def f(row):\n    return {'n': row['prompt']}\nds = ds.map(f)\n",
    ],
)
def test_a_column_that_is_not_there(tmp_path: Path, more: str) -> None:
    write(tmp_path, more)
    found = examined(script_data.columns_exist, launch(tmp_path, "python t.py"))
    assert bad(found) == [("warning", "dataset_error")] and "question, answer" in found[0].text


@pytest.mark.parametrize(
    "more",
    [
        "ds = ds.filter(lambda d: len(d['question']) < 512)\n",
        "ds = ds.map(lambda d: {'prompt': d['question']})\nds = ds.filter(lambda d: d['prompt'])\n",
        "ds = ds.rename_column('question', 'prompt').filter(lambda d: d['prompt'])\n",
        "other = {}\nprint(other['prompt'])\n",
    ],
)
def test_columns_that_are_there_or_made(tmp_path: Path, more: str) -> None:
    write(tmp_path, more)
    assert bad(examined(script_data.columns_exist, launch(tmp_path, "python t.py"))) == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, "")
    assert examined(script_data.files_exist, launch(tmp_path, "python t.py")) == []
    (tmp_path / "a.jsonl").unlink()
    assert bad(examined(script_data.files_exist, launch(tmp_path, "python t.py"))) == [
        ("warning", "path_not_found")
    ]


def test_a_file_that_the_program_writes_or_looks_for(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "import os\nopen('out.txt', 'w')\nlog = open('log.txt', mode='a')\n"
        "if os.path.exists('state.pt'):\n    open('state.pt', 'rb')\n"
    )
    assert examined(script_data.files_exist, launch(tmp_path, "python t.py")) == []


def test_a_config_that_the_source_opens(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import yaml\nyaml.safe_load(open('exp.yaml'))\n")
    (tmp_path / "exp.yaml").write_text("a:\n\tb: 1\n")
    given = launch(tmp_path, "python t.py")
    assert bad(examined(config_run.other_files_parse, given)) == [("warning", "config_error")]
    (tmp_path / "exp.yaml").write_text("a:\n  b: 1\n")
    assert examined(config_run.other_files_parse, given) == []
