from pathlib import Path

import pytest

from tests.trainer_core.swarm.conftest import AGENTS, RunningSwarm
from trainer_core.config import ConfigError
from trainer_core.config.yaml_source import read_yaml
from trainer_core.swarm.agentjet_config import as_ours

SENT = """
ajet:
  experiment_name: theirs
  experiment_dir: {folder}
  backbone: local
  model: {{path: tiny, warmup: {{enabled: false}}}}
  rollout: {{user_workflow: null, num_repeat: 2}}
  task_judge: {{judge_type: customized_protocol, judge_protocol: null}}
  context_tracker: {{alien_llm_model: deprecated}}
  trainer_common: {{logger: console, checkpoint_base_dir: ./saved_checkpoints, optim: {{lr: 1.0e-6}}}}
actor_rollout_ref: {{actor: {{strategy: fsdp}}}}
trainer: {{total_epochs: 30}}
hydra: {{searchpath: [file://ajet/default_config]}}
defaults: [verl_default, ajet_default, _self_]
"""


def test_keys_that_the_trainer_has_not_are_left_out_and_told() -> None:
    text, left_out = as_ours(SENT.format(folder="out"))
    assert left_out == ["ajet.context_tracker.alien_llm_model", "actor_rollout_ref", "trainer"]
    tree = read_yaml(text, "ours").tree["ajet"]
    assert tree["task_judge"] == {"judge_type": "customized_protocol"} and tree["rollout"]["num_repeat"] == 2
    assert tree["trainer_common"] == {"logger": "console", "optim": {"lr": 1e-6}}


def test_any_other_config_stays_as_it_is() -> None:
    text = "ajet: {typo: 1}\nhydra: {}\ndefaults: []\n"
    assert as_ours(text) == (text, [])
    with pytest.raises(ConfigError):
        as_ours("ajet: {")


def test_a_server_trains_with_it(swarm: RunningSwarm, tmp_path: Path) -> None:
    body = {"yaml_as_string": SENT.format(folder=tmp_path / "run")}
    answer = AGENTS.post(f"{swarm.url}/sync_train_config", json=body).json()
    assert answer["success"] and answer["warnings"][:2] == [
        "not a key of this trainer, and left out: ajet.context_tracker.alien_llm_model",
        "other sections of a config of AgentJet's are left out: actor_rollout_ref, trainer",
    ]
    assert AGENTS.post(f"{swarm.url}/start_engine", json={}).json()["started"]
