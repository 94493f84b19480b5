import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from trainer_core.config import ConfigError, load_config
from trainer_core.config.keys import all_keys
from trainer_core.config.yaml_source import read_yaml
from trainer_core.swarm import job as jobs
from trainer_core.swarm.job import ARGUMENTS, AgentJetJob
from trainer_core.types import TrainingError
from trainer_core.workflow import Workflow

VALUES: dict[str, Any] = {
    "experiment_dir": "out", "project_name": "p", "experiment_name": "e", "logging": "tensorboard",
    "n_gpu": 4,
    "nnodes": 2, "model": "tiny", "algorithm": "rloo", "num_repeat": 6, "batch_size": 10, "swarm_mode": False,
    "swarm_mode_sample_collection_method": "rollout_until_finish_enough_episodes", "max_env_worker": 7,
    "backbone": "verl", "max_prompt_length": 100, "max_response_length": 200, "max_model_len": 300,
    "max_response_length_in_one_turn": 50, "max_num_seqs": 8, "mini_batch_num": 2, "ppo_epochs": 2,
    "lr": 1e-4,
    "total_training_steps": 9, "use_kl_loss": False, "use_kl_in_reward": True, "kl_penalty_type": "k2",
    "lora_rank": 8, "lora_alpha": 32, "lora_target_modules": ["q_proj"], "lora_load_format": "safetensors",
    "layered_summon": True, "gpu_memory_utilization": 0.5, "tensor_model_parallel_size": 2,
    "ulysses_sequence_parallel_size": 1, "ppo_max_token_len_per_gpu": 4096,
    "compute_madness_checklist": ["nonsense"], "timeline_compare_level": "text",
    "val_print_to_markdown_file_path": "val.md", "train_print_to_markdown_file_path": "train.md",
}  # fmt: skip


def of(job: AgentJetJob) -> Any:
    return job.config.ajet


def test_every_documented_argument_sets_its_key() -> None:
    assert set(VALUES) == set(ARGUMENTS)
    assert {f"ajet.{path}" for path in ARGUMENTS.values()} <= set(all_keys())
    job = AgentJetJob(**VALUES)
    tree = read_yaml(job.as_yaml(), "job").tree["ajet"]
    for name, value in VALUES.items():
        found = tree
        for part in ARGUMENTS[name].split("."):
            found = found[part]
        assert found == value == getattr(job, name)


def test_what_is_none_leaves_the_file_and_what_is_left_out_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("ajet: {model: {path: tiny}, data: {train_batch_size: 3}}\n")
    job = AgentJetJob(tmp_path / "base.yaml", batch_size=None, num_repeat=2)
    assert (job.model, job.batch_size, job.num_repeat, job.backbone) == ("tiny", 3, 2, "local")
    assert (job.swarm_mode, job.max_env_worker) == (True, 128)
    (tmp_path / "theirs.yaml").write_text("ajet: {model: {path: tiny}, task_judge: {judge_protocol: null}}\n")
    assert (
        AgentJetJob(tmp_path / "theirs.yaml").config.to_dict() == AgentJetJob(model="tiny").config.to_dict()
    )
    assert AgentJetJob().lora_rank == 0 and AgentJetJob(lora_rank=8).config.ajet.lora.lora_alpha == 16


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"batch_size": "32"}, r"AgentJetJob(batch_size=…): ajet.data.train_batch_size"),
        ({"algorithm": "vtrace"}, r"AgentJetJob(algorithm=…): ajet.trainer_common.algorithm.adv_estimator"),
        ({"max_prompt_length": 900, "max_response_length": 200, "max_model_len": 1000}, "max_model_len=…"),
        ({"backbone": "trinity"}, "AgentJetJob(backbone=…): ajet.backbone"),
    ],
)
def test_a_wrong_value_is_told_with_its_argument(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        AgentJetJob(**given)


def test_an_unknown_argument_or_key_is_refused_and_the_right_one_told() -> None:
    with pytest.raises(TypeError, match=r"no argument 'batchsize'; it has model, .*batch_size"):
        AgentJetJob(batchsize=1)
    with pytest.raises(AttributeError, match=r"Did you mean `ajet.rollout.num_repeat`"):
        of(AgentJetJob()).rollout.num_repeats = 3
    with pytest.raises(AttributeError):
        _ = of(AgentJetJob()).rolout
    assert set(ARGUMENTS) | {"base_yaml_config", "ensure_new_experiment"} == set(
        inspect.signature(AgentJetJob).parameters
    )


def test_settings_are_read_and_set_by_attribute(tmp_path: Path) -> None:
    job = AgentJetJob(model="tiny", experiment_name="e", experiment_dir=str(tmp_path))
    ajet = of(job)
    assert ajet.rollout.max_model_len == 18000  # it follows the two lengths below
    ajet.data.max_response_length = 1000
    ajet.rollout.val_kwargs.top_k = 5
    assert ajet.rollout.max_model_len == 4000
    told = job.config.to_dict()["ajet"]
    assert told["rollout"]["val_kwargs"]["top_k"] == 5 and told["data"]["max_response_length"] == 1000
    ajet.data.train_batch_size = 0
    with pytest.raises(ConfigError, match=r"set in Python: ajet.data.train_batch_size: 0"):
        job.as_yaml()


def test_a_file_overrides_the_job_and_a_dump_reads_back(tmp_path: Path) -> None:
    job = AgentJetJob(model="tiny", batch_size=8, num_repeat=2, experiment_name="e", experiment_dir="out")
    path = job.dump_job_as_yaml(str(tmp_path / "made" / "config.yaml"))
    (tmp_path / "more.yaml").write_text("ajet: {data: {train_batch_size: 5}, rollout: {num_repeat: 0}}\n")
    with pytest.raises(ConfigError, match=r"more.yaml:1: ajet.rollout.num_repeat: 0"):
        job.build_job_from_yaml(tmp_path / "more.yaml")
    job.config.ajet.rollout.num_repeat = 3
    assert (job.batch_size, job.num_repeat) == (5, 3)
    assert job.build_job_from_yaml(path).batch_size == 8
    assert AgentJetJob(path).config.to_dict() == job.config.to_dict()
    with pytest.raises(ConfigError, match="does not exist"):
        AgentJetJob(tmp_path / "none.yaml")


def test_a_new_experiment_has_the_time_in_its_name() -> None:
    assert re.fullmatch(
        r"e_\d{8}-\d{6}", AgentJetJob(experiment_name="e", ensure_new_experiment=True).experiment_name
    )
    assert AgentJetJob(ensure_new_experiment=True).experiment_name.startswith("swarm_2")


class Agent(Workflow):
    pass


def test_tune_trains_here_with_the_workflow_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run(command: list[str], **_: Any) -> Any:
        assert command[1:4] == ["-m", "trainer_core.cli", "--conf"]
        loaded = load_config(Path(command[4]), now=jobs.datetime.now())
        seen.append(loaded.config.ajet)
        return jobs.subprocess.CompletedProcess(command, len(seen) - 1)

    monkeypatch.setattr(jobs.subprocess, "run", run)
    job = AgentJetJob(model="tiny", experiment_name="e")
    job.set_workflow(Agent).set_data("jsonl", "tasks.jsonl")
    job.config.ajet.trainer_common.test_freq = -1
    job.tune()
    assert not seen[0].enable_swarm_mode
    assert seen[0].rollout.user_workflow == f"{__name__}->Agent"
    assert seen[0].task_reader.jsonl_dataset_file.training.file_path == "tasks.jsonl"
    job.set_workflow("agent.py->Agent").set_data("hf", "gsm8k", validation_split="dev")
    with pytest.raises(TrainingError, match="exit status 1"):
        job.tune()
    reader = seen[1].task_reader
    assert (reader.type, reader.huggingface_dat_repo.validation_split) == ("huggingface_dat_repo", "dev")
    assert seen[1].rollout.user_workflow == "agent.py->Agent"
