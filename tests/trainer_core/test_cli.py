"""`ajet` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from trainer_core.cli import app
from trainer_core.config import Config

GOOD = "ajet:\n  experiment_name: run\n  model: {path: tiny}\n  task_reader: {type: builtin}\n"
HEAVY = ("torch", "transformers", "numpy", "pandas", "datasets", "ray", "verl", "vllm", "jinja2")


@pytest.fixture
def conf(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(GOOD)
    return str(file)


def ajet(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_dry_run_prints_the_whole_config(conf: str) -> None:
    result = ajet("--conf", conf, "--dry-run", "--exp-dir", "out", "ajet.rollout.num_repeat=8")
    assert result.exit_code == 0
    written = YAML(typ="safe", pure=True).load(result.stdout)
    assert written["ajet"]["rollout"]["num_repeat"] == 8
    assert written["ajet"]["experiment_dir"] == "out/run"
    assert written["ajet"]["data"]["train_batch_size"] == 32


def test_dry_run_ends_with_what_the_run_would_do(conf: str) -> None:
    words = ("--conf", conf, "--dry-run", "ajet.trainer_common.optim.lr_warmup_steps=10000")
    result = ajet(*words)
    summary = [
        line.removeprefix("# ").split()[0] for line in result.stdout.splitlines() if line.startswith("#")
    ]
    assert summary == ["data", "steps", "each", "validation", "memory"]
    assert "before the learning rate has risen" in result.stderr
    answer = json.loads(ajet(*words, "--json").stdout)
    assert answer["plan"]["schedule"]["samples_per_step"] == 128
    assert [warning["key"] for warning in answer["warnings"]] == ["ajet.trainer_common.optim.lr_warmup_steps"]


def test_dry_run_opens_the_data(conf: str, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    files = f"{{training: {{file_path: {data}}}, validation: {{file_path: {data}}}}}"
    words = ("--conf", conf, "--dry-run", "ajet.task_reader.type=jsonl_dataset_file")
    words = (*words, f"ajet.task_reader.jsonl_dataset_file={files}")
    assert ajet(*words).stderr == f"error: {conf}: there is no data file {data}.\n"
    data.write_text('{"question": "a"}\n{"question": }\n')
    result = ajet(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"{data}:2: not a JSON object" in result.stderr
    assert json.loads(ajet(*words, "--json").stdout)["stage"] == "data"


def test_warnings_do_not_mix_with_the_config(conf: str) -> None:
    result = ajet("--conf", conf, "--dry-run", "ajet.trainer_common.nnodes=2")
    assert "warning" not in result.stdout
    assert result.stderr.startswith("warning: command line: ajet.trainer_common.nnodes: 2")


def test_a_bad_config_exits_with_2_and_says_why(conf: str) -> None:
    result = ajet("--conf", conf, "ajet.rollout.n=8")
    assert (result.exit_code, result.stdout) == (2, "")
    told = "ajet.rollout.n is not a key of the trainer. Did you mean `ajet.rollout.num_repeat`?"
    assert result.stderr == f"error: command line: {told}\n"


def test_json(conf: str) -> None:
    good = json.loads(ajet("--conf", conf, "--dry-run", "--json", "ajet.trainer_common.nnodes=2").stdout)
    assert good["ok"] is True
    assert good["config"]["ajet"]["model"]["path"] == "tiny"
    assert [warning["key"] for warning in good["warnings"]] == ["ajet.trainer_common.nnodes"]
    result = ajet("--conf", conf, "--dry-run", "--json", "ajet.data.train_batch_size=0")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "ok": False,
        "stage": "config",
        "problems": [
            {
                "message": "must be int > 0.",
                "fix": "The default is 32.",
                "where": "command line",
                "key": "ajet.data.train_batch_size",
                "value": 0,
            }
        ],
    }


@pytest.mark.parametrize("words", [(), ("--conf",), ("--nonsense",), ("--conf", "no/such/file.yaml")])
def test_wrong_use_exits_with_2(words: tuple[str, ...]) -> None:
    assert ajet(*words).exit_code == 2


def test_explain_one_key_and_a_pattern() -> None:
    one = ajet("--explain", "ajet.trainer_common.optim.lr")
    assert one.stdout.splitlines() == [
        "ajet.trainer_common.optim.lr",
        "  Learning rate.",
        "  allowed  number > 0",
        "  default  1e-06",
        "  on local honoured",
        "  in verl  actor_rollout_ref.actor.optim.lr",
        "  in trinity  algorithm.optimizer.lr",
    ]
    many = json.loads(ajet("--explain", "ajet.data.*", "--json").stdout)
    assert [key["key"].rpartition(".")[2] for key in many] == [
        "max_prompt_length",
        "max_response_length",
        "train_batch_size",
    ]
    unknown = ajet("--explain", "ajet.lr")
    assert unknown.exit_code == 2
    assert "ajet.trainer_common.optim.lr" in unknown.stderr


def test_the_trainer_gets_the_config_and_its_exit_code_is_ours(
    conf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Config] = []

    def train(config: Config, *, ends_other: bool) -> int:
        seen.append(config)
        return 1 + ends_other

    monkeypatch.setitem(sys.modules, "trainer_core.backbone.main", SimpleNamespace(train=train))
    assert ajet("--conf", conf, "ajet.trainer_common.seed=5").exit_code == 1
    assert ajet("--conf", conf, "--autokill").exit_code == 2
    assert seen[0].ajet.trainer_common.seed == 5


@pytest.mark.parametrize("words", [["--help"], ["--dry-run"], ["--explain", "*"]])
def test_nothing_heavy_is_imported_without_training(conf: str, words: list[str]) -> None:
    arguments = ["ajet", *(["--conf", conf] if "--dry-run" in words else []), *words]
    program = (
        f"import sys; sys.argv = {arguments!r}\n"
        "from trainer_core.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print(sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stderr.strip().splitlines()[-1].strip("[]").replace("'", "").split(", "))
    assert "trainer_core.config.schema" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_module_runs_as_a_program(conf: str) -> None:
    command = [sys.executable, "-m", "trainer_core.cli", "--conf", conf, "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ajet:\n")
