"""`harness new` and `harness check`, as a person types them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from harness.author.request_text import questions
from harness.blueprint import Blueprint, check_surroundings, check_trainer, read
from harness.cli.app import app

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def harness(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def new(*settings: str, name: str = "demo", what: Sequence[str] = ("--trainer",)) -> Result:
    words = [word for setting in settings for word in ("--set", setting)]
    return harness("new", name, *what, *words)


def made(*settings: str, what: Sequence[str] = ("--trainer",)) -> Blueprint:
    """What is read back of the experiment `demo`."""
    result = new(*settings, what=what)
    assert result.exit_code == 0, result.output
    return read(Path("demo/blueprint.md"))


def config_of(plan: Blueprint) -> dict[str, Any]:
    return YAML(typ="safe").load(plan.yaml_path)["ajet"]


def test_the_output_can_run_as_it_is(tmp_path: Path) -> None:
    settings = ("lr=1e-5", "max_time=90 minutes", "ajet.rollout.num_repeat=8")
    plan = check_trainer(check_surroundings(made("purpose=Is a smaller rate better?", *settings)))
    assert plan.problems == ()
    assert (plan.purpose, plan.max_time_s, plan.notes) == ("Is a smaller rate better?", 5400, "")
    assert (plan.codebase_dir, plan.yaml_path) == (tmp_path, tmp_path / "demo" / "config.yaml")
    config = config_of(plan)
    assert config["trainer_common"]["optim"]["lr"] == 1e-5
    assert (config["rollout"]["num_repeat"], config["experiment_name"]) == (8, "demo")
    assert list(tmp_path.iterdir()) == [tmp_path / "demo"]
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {"blueprint.md", "config.yaml"}


def test_own_data_that_may_still_come_and_lengths(tmp_path: Path) -> None:
    config = config_of(made("training_file=a.jsonl", "validation_file=b.jsonl", "max_response_length=4096"))
    assert config["task_reader"]["type"] == "jsonl_dataset_file"
    assert config["rollout"]["max_model_len"] == 1024 + 4096
    assert "go together" in new("training_file=a.jsonl", name="other").stderr


def test_a_command_of_ones_own_with_patterns_and_protected_keys(tmp_path: Path) -> None:
    assert "setting of the bundled trainer" in new("lr=1", what=("--command", "python t.py")).stderr
    pattern = r"it (?P<step>\d+) loss (?P<loss>\S+)"
    settings = (f"metrics={pattern}", "protected_keys=lr\noptim.*")
    plan = made(*settings, what=("--command", "python t.py --lr 1"))
    assert [file.name for file in (tmp_path / "demo").iterdir()] == ["blueprint.md"]
    assert plan.launch_command == "python t.py --lr 1"
    assert plan.metrics is not None and plan.metrics.patterns == (pattern,)
    assert plan.protected_keys == ("lr", "optim.*")


def test_data_of_another_reader_gets_room() -> None:
    config = config_of(made("ajet.task_reader.type=huggingface_dat_repo", "max_response_length=512"))
    assert "builtin" not in config["task_reader"]
    assert (config["data"]["max_prompt_length"], config["rollout"]["max_model_len"]) == (1024, 1024 + 512)


def test_relative_paths_start_where_the_command_is_typed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    plan = made("codebase_dir=src", "result_dir=out")
    assert (plan.codebase_dir, plan.result_dir) == (tmp_path / "src", tmp_path / "out")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("lrr=1", "did you mean lr?"),
        ("purpos=x", "did you mean purpose?"),
        ("ajet.rollout.num_repeet=8", "num_repeat"),
        ("lr=fast", "lr"),
        ("lr=[1", "no YAML"),
        ("lr=2024-13-45", "no YAML"),
        ("lr=!!int abc", "no YAML"),
        ("purpose=caf\udce9", "not text in UTF-8"),
        ("max_time=12", "no unit"),
        ("purpose=x\n## [exp_max_time]\n1 hour", ""),
        ("notes=x\n## [exp_prepare_command]\n`rm -rf /`", "would be read back"),
        ("max_time=1 hour\n## [exp_cleanup_command]\n`rm -rf /`", "would be read back"),
        ("protected_keys=two words!", "no config key"),
        ("no-equals", "not KEY=VALUE"),
        ("model_path=/no/such/model", "no such folder"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path: Path, setting: str, words: str) -> None:
    result = new(setting)
    assert result.exit_code == 2 and words in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    result = new("purpose=x")
    assert result.exit_code == 2 and "not overwritten" in result.stderr
    assert [file.name for file in (tmp_path / "demo").iterdir()] == ["mine.txt"]


def test_names() -> None:
    assert "such as a-b" in new("purpose=x", name="a/b").stderr
    assert "my-experiment" in new("purpose=x", name="..").stderr


def test_d12_what_is_run_is_said_or_asked_never_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undecided = new("purpose=x", what=())
    assert undecided.exit_code == 2
    assert "--command 'python train.py'" in undecided.stderr and "--trainer" in undecided.stderr
    assert new("purpose=x", what=("--trainer", "--command", "a")).exit_code == 2
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("harness.cli.new.is_terminal", lambda: True)
    result = CliRunner().invoke(app, ["new", "demo"], input="\nWhy?\npython t.py --lr 1\n\n\n")
    assert result.exit_code == 0, result.output
    plan = read(tmp_path / "demo" / "blueprint.md")
    assert (plan.purpose, plan.launch_command) == ("Why?", "python t.py --lr 1")
    assert not (tmp_path / "demo" / "config.yaml").exists()


def test_d12_settings_of_the_trainer_choose_it(tmp_path: Path) -> None:
    assert made("kl_loss_coef=0.01", what=()).yaml_path == tmp_path / "demo" / "config.yaml"


def test_a_terminal_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.new.is_terminal", lambda: True)
    answers = "\n".join(["trainer", "What is it?", "", "2 hours", "", "", "", "7"])
    assert len(questions("demo", "grpo")) == 7
    result = CliRunner().invoke(app, ["new", "demo"], input=answers + "\n")
    assert result.exit_code == 0, result.output
    plan = read(tmp_path / "demo" / "blueprint.md")
    assert (plan.purpose, plan.max_time_s) == ("What is it?", 7200)
    assert re.search(r"total_training_steps: 7\b", (tmp_path / "demo" / "config.yaml").read_text())


class TestCheck:
    def test_the_quickstart_can_run(self) -> None:
        result = harness("check", str(REPOSITORY / "blueprints" / "quickstart" / "blueprint.md"))
        assert result.exit_code == 0, result.output
        assert "can run" in result.stdout and "sort five digits" in result.stdout and result.stderr == ""

    def test_json(self, tmp_path: Path) -> None:
        (tmp_path / "p.md").write_text("## [exp_purpose]\nx\n## [exp_max_time]\n12\n")
        result = harness("check", "p.md", "--json")
        assert result.exit_code == 2
        found = json.loads(result.stdout)
        fix = "write hours, minutes or days, as `- time: 12 hours`"
        problem = {"line": 4, "message": "'12' has no unit", "fix": fix, "severity": "error"}
        assert found["problems"] == [problem]
        assert found["result_dir"] == str(tmp_path / "exp_results" / "p")

    def test_problems_have_file_line_and_fix(self, tmp_path: Path) -> None:
        (tmp_path / "p.md").write_text("## [exp_purpose]\n[bold]x[/bold]\n## [exp_max_time]\n12\n")
        result = harness("check", "p.md")
        assert result.exit_code == 2
        assert f"{tmp_path}/p.md:4: error: '12' has no unit — write hours" in result.stderr
        assert "cannot run" in result.stdout and "[bold]x[/bold]" in result.stdout

    def test_a_missing_file(self) -> None:
        result = harness("check", "nothere.md")
        assert result.exit_code == 2 and result.stderr.count("\n") == 1
        assert "nothere.md:1: error: there is no such file" in result.stderr


def test_a_package_of_the_folder_is_not_taken_for_the_trainer(tmp_path: Path) -> None:
    (tmp_path / "trainer_core").mkdir()
    springs = f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n"
    (tmp_path / "trainer_core" / "__init__.py").write_text(springs)
    (tmp_path / "trainer_core" / "cli.py").write_text("print('{}')\n")
    made("lr=1e-5")
    assert not (tmp_path / "sprung").exists()
