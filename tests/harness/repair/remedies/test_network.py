"""Communication, hubs and trackers."""

import pytest

from harness.repair.remedies import remedies_for
from tests.harness.repair.remedies.samples import (
    AJET,
    HUGGINGFACE,
    PLAIN,
    VERL,
    edits,
    situation,
    variables,
)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("nccl_shm_off", "NCCL_SHM_DISABLE"),
        ("nccl_p2p_off", "NCCL_P2P_DISABLE"),
        ("nccl_ib_off", "NCCL_IB_DISABLE"),
        ("fault_handler", "PYTHONFAULTHANDLER"),
    ],
)
def test_a_variable_is_set_once(name: str, variable: str) -> None:
    assert variables(name, VERL) == {variable: "1"}
    assert variables(name, VERL, environment={variable: "1"}) == {}
    assert variables(name, VERL, protected=(variable,)) == {}


def test_a_longer_time_out_up_to_two_hours() -> None:
    assert edits("longer_collective_timeout", VERL) == {"actor_rollout_ref.nccl_timeout": 1200}
    assert edits("longer_collective_timeout", "ddp_timeout: 5400\n") == {"ddp_timeout": 7200}
    assert edits("longer_collective_timeout", "ddp_timeout: 7200\n") == {}


class TestHub:
    def test_offline_only_if_the_model_is_here(self) -> None:
        assert variables("hub_offline", AJET) == {"HF_HUB_OFFLINE": "1"}
        assert variables("hub_offline", AJET, facts={"is_cached": lambda *_: False}) == {}

    def test_every_model_of_the_config_counts(self) -> None:
        asked: list[tuple[str, str]] = []
        two = VERL + "reward_model: {path: org/judge, revision: v2}\n"

        def is_cached(model: str, revision: str) -> bool:
            asked.append((model, revision))
            return model != "org/judge"

        assert variables("hub_offline", two, facts={"is_cached": is_cached}) == {}
        assert asked == [("Qwen/Qwen2.5-7B-Instruct", "main"), ("org/judge", "v2")]

    def test_the_revision_that_would_be_used(self) -> None:
        def only_old(model: str, revision: str) -> bool:
            return revision == "old"

        for config, command, is_here in (
            ("model_name_or_path: org/model\n", "", False),
            ("model_name_or_path: org/model\nmodel_revision: old\n", "", True),
            ("model_name_or_path: org/model\nmodel_revision: old\n", "t.py --model-revision new", False),
            ("model_name_or_path: org/model\n", "t.py --model_revision=old", True),
        ):
            found = variables("hub_offline", config, command=command, facts={"is_cached": only_old})
            assert bool(found) is is_here, (config, command)

    def test_the_model_that_the_log_names_where_the_config_names_none(self) -> None:
        named = {"model": "org/model"}
        assert variables("hub_offline", PLAIN, captures=named) == {"HF_HUB_OFFLINE": "1"}
        assert variables("hub_offline", PLAIN) == {}


class TestTracker:
    def test_the_one_that_the_log_or_the_config_names(self) -> None:
        assert variables("tracker_offline", HUGGINGFACE) == {"WANDB_MODE": "offline"}
        assert variables("tracker_offline", AJET) == {"SWANLAB_MODE": "offline"}
        assert variables("tracker_offline", PLAIN, cause="wandb has no key") == {"WANDB_MODE": "offline"}
        assert variables("tracker_offline", HUGGINGFACE, environment={"WANDB_MODE": "offline"}) == {}

    def test_one_that_cannot_be_offline_is_left_out(self) -> None:
        mlflow = "report_to: mlflow\n"
        assert edits("tracker_offline", mlflow, cause="mlflow cannot be reached") == {"report_to": "none"}
        assert edits("tracker_offline", mlflow, cause="nothing known") == {}


def test_a_changed_key_makes_it_a_repair_of_the_config() -> None:
    found = remedies_for(["tracker_offline"], situation("report_to: mlflow\n", cause="mlflow is down"))
    assert found[0].kind == "config"
