"""The quickstart, shortened, through the real command line: real warm-up, real reinforcement learning, real
tmux."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from harness.config import edit as config_edit
from tests.e2e.bench import PATIENCE_S, Bench, until

ROOT = Path(__file__).parents[2]
SHORT = {
    "ajet.model.tiny.hidden_size": 32,
    "ajet.model.tiny.intermediate_size": 64,
    "ajet.model.warmup.until_pass_rate": 0.01,
    "ajet.task_reader.builtin.digits": 3,
    "ajet.task_reader.builtin.num_validation_tasks": 32,
    "ajet.data.train_batch_size": 16,
    "ajet.rollout.num_repeat": 8,
    "ajet.trainer_common.test_freq": 10,
    "ajet.trainer_common.save_freq": 10,
}


def quickstart(bench: Bench, **changes: object) -> Bench:
    """The quickstart blueprint in the bench's folder, with a smaller model and fewer steps."""
    folder = bench.folder / "quickstart"
    shutil.copytree(ROOT / "blueprints" / "quickstart", folder)
    config = folder / "config.yaml"
    config.write_text(config_edit.edit(config.read_text(), {**SHORT, **changes}))
    bench.blueprint = folder / "blueprint.md"
    bench.result_dir = bench.folder / "exp_results" / "quickstart"
    return bench


def steps_of(bench: Bench, attempt: int) -> list[int]:
    lines = (bench.attempt(attempt) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_from_blueprint_to_report(bench: Bench) -> None:
    quickstart(bench, **{"ajet.trainer_common.total_training_steps": 20})
    output = bench.run()
    assert "pass rate" in output
    assert "report:" in output
    table = (bench.attempt() / "validation.md").read_text().splitlines()
    assert [row.split("|")[1].strip() for row in table if row.startswith("|")][2:] == ["0", "10", "20"]
    assert steps_of(bench, 1) == list(range(21))
    rows = [json.loads(line) for line in (bench.attempt() / "metrics.jsonl").read_text().splitlines()]
    assert all(row["values"]["actor/kl_loss"] >= 0 for row in rows[1:])
    assert bench.state.attempt is not None
    assert bench.state.attempt.first_step_at is not None
    facts = {fact["id"]: fact for fact in bench.result["facts"]}
    assert facts["attempt/1/last_step"]["value"] == 20
    assert bench.result["discrepancies"] == []
    for name in ("validation", "reward", "kl", "throughput"):
        assert list((bench.result_dir / "figures").glob(f"{name}.*")), name
    code = (
        "import sys; from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "model = AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
        "text = AutoTokenizer.from_pretrained(sys.argv[1]).apply_chat_template(\n"
        "    [{'role': 'user', 'content': '321'}], tokenize=False, add_generation_prompt=True)\n"
        "print(model.num_parameters() < 1_000_000, '321' in text)"
    )
    checkpoint = bench.attempt() / "trainer" / "checkpoints" / "step_000020"
    command = [sys.executable, "-c", code, str(checkpoint)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["True", "True"]


def test_the_harness_is_killed_then_the_training_which_goes_on_from_its_checkpoint(bench: Bench) -> None:
    quickstart(bench, **{"ajet.trainer_common.total_training_steps": 40})
    watching = bench.start("run", str(bench.blueprint))
    until(lambda: "step:12 " in bench.log(), "the twelfth step")
    watching.kill()
    watching = bench.start("resume", str(bench.result_dir))
    until(lambda: "step:22 " in bench.log(), "step 22")
    started = json.loads((bench.attempt() / "started" / "supervisor.json").read_text())
    os.kill(started["command_pid"], signal.SIGTERM)
    assert watching.end(PATIENCE_S) == 0, watching.output
    assert bench.launches() == bench.flag["attempts"] == 2
    before, steps = steps_of(bench, 1), steps_of(bench, 2)
    assert before == list(range(len(before))) and len(before) > 22
    assert steps == list(range(steps[0], 41)) and steps[0] > 20
    assert bench.result["missing"] == bench.result["discrepancies"] == []
    story = (bench.result_dir / "trial_and_error.md").read_text()
    assert f"checkpoint step_{steps[0]:06d}" in story
    table = (bench.result_dir / "validation.md").read_text().splitlines()
    validated = [row.split("|")[1].strip() for row in table if row.startswith("|")][2:]
    assert validated == ["0", "10", "20", "30", "40"]


def test_a_config_the_trainer_refuses_cannot_run(bench: Bench) -> None:
    quickstart(bench, **{"ajet.rollout.num_repaet": 8, "ajet.trainer_common.optim.lr": -1})
    output = bench.run(status=2)
    assert "num_repaet" in output and "optim.lr" in output
    assert not bench.result_dir.exists() or bench.flag["outcome"] == "cannot_run"
