"""Data files that cannot be read, are empty, or lack columns."""

from pathlib import Path
from typing import Any

import pytest

from harness.doctor import data
from harness.doctor.findings import Finding
from tests.harness.doctor.planning import bad, launch

FAULTY = [("problem", "dataset_error")]
VERL = "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=2"


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("train.jsonl", '{"prompt": "a"}\n{"prompt": "b"}\n', "first 2 rows"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "line 2"),
        ("a.jsonl", "\udcff", "utf-8"),
        ("a.jsonl", "", "no rows"),
        ("a.json", '[{"a": 1}, 2]', "row 2"),
        ("a.json", '[{"a": 1},', "as json"),
        ("a.csv", "a,b\n", "no rows"),
        ("a.parquet", "nothing", "arquet"),
    ],
)
def test_rows_that_parse_and_that_do_not(tmp_path: Path, name: str, text: str, where: str) -> None:
    (tmp_path / name).write_text(text, errors="surrogateescape")
    found = list(data.rows_parse(launch(tmp_path, f"python t.py --train_file {name}")))
    assert bad(found) == ([] if where == "first 2 rows" else FAULTY) and where in found[0].text


def test_parquet_is_left_alone_where_pyarrow_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    (tmp_path / "a.parquet").write_text("nothing")
    (found,) = data.rows_parse(launch(tmp_path, f"{VERL} data.train_files=a.parquet"))
    assert found.severity == "ok" and "pip install pyarrow" in found.text


def parquet(file: Path, **columns: list[Any]) -> None:
    import pyarrow.parquet  # type: ignore[import-untyped]

    pyarrow.parquet.write_table(pyarrow.table(columns), file)


def test_the_columns_of_verl(tmp_path: Path) -> None:
    def found(more: str = "") -> list[Finding]:
        return list(data.rows_parse(launch(tmp_path, f"{VERL} data.train_files=a.parquet {more}")))

    rest = {"data_source": ["s"], "reward_model": [{"ground_truth": "1"}]}
    parquet(tmp_path / "a.parquet", prompts=["x"], **rest)
    assert bad(found()) == FAULTY and found()[0].fix == "did you mean prompts?"
    assert bad(found("data.prompt_key=prompts")) == []
    parquet(tmp_path / "a.parquet", question=["x"], answer=["y"])  # raw data of the hub
    raw = found("data.prompt_key=question")
    assert bad(raw) == FAULTY * 2 and "'reward_model'" in raw[1].text


def test_a_column_that_a_config_names(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "x", "answer": "y"}\n')
    config = "data: {train_file: a.jsonl, text_column: questoin}\njudge: {api_key: k}\n"
    found = list(data.rows_parse(launch(tmp_path, "python t.py config.yaml", config)))
    assert bad(found) == [("warning", "dataset_error")] and "question" in found[0].fix
    config = config.replace("questoin", "question")
    assert bad(data.rows_parse(launch(tmp_path, "python t.py config.yaml", config))) == []
