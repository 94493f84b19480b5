"""Data that is not what the code expects."""

from tests.faults.lab.types import Case

QUESTIONS = '{"question": "2+2?", "answer": "4"}\n{"question": "3+3?", "answer": "6"}\n'
CUT_OFF = (
    '{"question": "2+2?", "answer": "4"}\n{"question": "3+3?", "ans\n{"question": "1+1?", "answer": "2"}\n'
)

DATA = (
    Case(
        "column_missing",
        "dataset_error",
        "KeyError: 'prompt'",
        program="data_map.py",
        files={"train.jsonl": QUESTIONS},
        warm=True,
        fix="name the right column",
    ),
    Case(
        "column_rename",
        "dataset_error",
        "not in the dataset",
        program="data_rename.py",
        warm=True,
        fix="name the right column",
    ),
    Case(
        "json_lines_broken",
        "dataset_error",
        "JSON parse error",
        program="data_broken.py",
        files={"train.jsonl": CUT_OFF},
        warm=True,
        fix="mend the file",
    ),
    Case(
        "json_lines_cut",
        "dataset_error",
        "json.decoder.JSONDecodeError",
        program="data_lines.py",
        files={"train.jsonl": CUT_OFF},
        fix="mend the file",
    ),
    Case("data_empty", "dataset_error", "num_samples=0", warm=True, fix="another filter"),
    Case(
        "split_unknown",
        "dataset_error",
        'Unknown split "validation"',
        program="data_split.py",
        files={"train.jsonl": QUESTIONS},
        warm=True,
        fix="name the right split",
    ),
    Case(
        "parquet_wrong",
        "dataset_error",
        "Parquet magic bytes not found",
        program="data_parquet.py",
        files={"train.parquet": QUESTIONS},
        warm=True,
        fix="the right file",
    ),
    Case(
        "encoding_wrong",
        "dataset_error",
        "UnicodeDecodeError",
        program="data_encoding.py",
        files={"train.jsonl": '{"question": "größer?"}\n'.encode("latin-1")},
        fix="encode it as UTF-8",
    ),
    Case("loader_raises", "dataset_error", "KeyError: 'answer'", warm=True, fix="mend the data"),
    Case(
        "file_missing",
        "path_not_found",
        "No such file or directory: 'data/gsm8k/train.jsonl'",
        fix="the right path",
    ),
)
