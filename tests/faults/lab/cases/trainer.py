"""The bundled trainer, with configs and data that cannot work."""

from collections.abc import Mapping
from pathlib import Path

from tests.faults.lab.types import Case

QUICKSTART = Path(__file__).parents[4] / "blueprints" / "quickstart" / "config.yaml"
NO_WARMUP = {"      until_pass_rate: 0.2 ": "      enabled: false\n      until_pass_rate: 0.2 "}
BUILTIN = """type: builtin
    builtin: {name: sort_digits, digits: 5, num_validation_tasks: 256, split_seed: 0}"""
FILES = """type: jsonl_dataset_file
    jsonl_dataset_file: {training: {file_path: train.jsonl}, validation: {file_path: val.jsonl}}"""
JSONL = {BUILTIN: FILES}


def quickstart(changes: Mapping[str, str]) -> str:
    """The quickstart's config with texts of it replaced; each must stand there."""
    text = QUICKSTART.read_text()
    for old, new in changes.items():
        assert old in text, f"{QUICKSTART} no longer holds {old!r}"
        text = text.replace(old, new, 1)
    return text


def _case(
    name: str,
    family: str,
    root: str,
    changes: Mapping[str, str],
    fix: str,
    status: int = 1,
    also_right: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
) -> Case:
    config = {"config.yaml": quickstart(changes)}
    return Case(
        name,
        family,
        root,
        program="ajet.py",
        arguments=("--conf", "config.yaml"),
        files={**config, **(files or {})},
        warm=True,
        status=status,
        also_right=also_right,
        fix=fix,
    )


TRAINER = (
    _case(
        "trainer_key",
        "config_error",
        "train_bach_size is not a key of the trainer",
        {"train_batch_size": "train_bach_size"},
        "the key's right name",
        status=2,
    ),
    _case(
        "trainer_value",
        "config_error",
        '"fast" must be number',
        {"optim: {lr: 3e-4": "optim: {lr: fast"},
        "a number",
        status=2,
    ),
    _case(
        "trainer_division",
        "batch_divisibility",
        "3 does not divide",
        {"mini_batch_num: 2": "mini_batch_num: 3"},
        "a divisor",
        status=2,
    ),
    _case(
        "trainer_model",
        "path_not_found",
        "there is no such folder",
        {"path: tiny ": "path: /models/Qwen2.5-0.5B-Instruct "},
        "the right path",
        status=2,
        also_right=("config_error",),
    ),
    _case(
        "trainer_length",
        "length_limit",
        "more than data.max_prompt_length",
        {"max_prompt_length: 16": "max_prompt_length: 4", **NO_WARMUP},
        "allow longer prompts",
    ),
    _case("trainer_file", "path_not_found", "there is no data file", JSONL, "the right path"),
    _case(
        "trainer_rows",
        "dataset_error",
        "train.jsonl",
        JSONL,
        "mend the file",
        files={"train.jsonl": '{"question": "2+2"}\n{"quest', "val.jsonl": '{"question": "2+2"}\n'},
    ),
)
