"""What a user may write, and what is said when it cannot be played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainer_core.types import Task, TrainingError
from trainer_core.workflow import Endpoint, Tuner, WorkflowOutput
from trainer_core.workflow.workflow import api_key_of, load_workflow, output_of

HEAD = "from trainer_core.workflow import OtherModel, Workflow\n"


def protocol(folder: Path, code: str, name: str = "Agent") -> str:
    path = folder / "agent.py"
    path.write_text(HEAD + code)
    return f"{path}->{name}"


def test_each_episode_has_an_instance_of_its_own(tmp_path: Path) -> None:
    code = """
class Agent(Workflow):
    def __init__(self): self.turns = 0
    def execute(self, task, tuner):
        self.turns += 1
        return float(self.turns)
"""
    loaded = load_workflow(protocol(tmp_path, code))
    tuner: Any = None
    assert [loaded.make()(Task("a", "q"), tuner) for _ in range(2)] == [1.0, 1.0]
    assert (loaded.name, loaded.is_async, loaded.trainable) == ("Agent", False, None)


def test_what_a_workflow_says_about_its_agents(tmp_path: Path) -> None:
    code = """
class Agent(Workflow):
    name = "two agents"
    trainable_targets = ["planner"]
    other_models = {"critic": OtherModel("http://x/v1", "CRITIC_KEY", "big")}
    async def execute(self, task, tuner): ...
"""
    loaded = load_workflow(protocol(tmp_path, code))
    assert (loaded.name, loaded.is_async, loaded.trainable) == ("two agents", True, frozenset({"planner"}))
    assert loaded.other_models["critic"].model == "big"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("Agent = 3\n", "is neither a Workflow nor a function of (task, tuner)"),
        ("def Agent(task): ...\n", "is neither a Workflow nor a function of (task, tuner)"),
        ("class Agent(Workflow): ...\n", "has no method execute(self, task, tuner)"),
        ("class Agent:\n    def execute(self): ...\n", "has no method execute(self, task, tuner)"),
        ("class Agent(Workflow):\n    def __init__(self): 1 / 0\n", "() failed with ZeroDivisionError"),
        ("Other = 3\n", "has no class 'Agent'; it has "),
        ("import no_such_module\n", "cannot import"),
        (
            "class Agent(Workflow):\n    trainable_targets = []\n    def execute(self, task, tuner): ...\n",
            'trainable_targets is []. Write a list of agent names such as ["planner"]',
        ),
        (
            "class Agent(Workflow):\n    trainable_targets = 'p'\n    def execute(self, task, tuner): ...\n",
            "trainable_targets is 'p'. Write a list",
        ),
    ],
)
def test_what_cannot_be_played_is_said_with_the_key(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(TrainingError) as error:
        load_workflow(protocol(tmp_path, code))
    assert str(error.value).startswith("rollout.user_workflow: ")
    assert said in str(error.value)


def test_the_key_of_another_model_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "class Agent(Workflow):\n"
        "    other_models = {'critic': OtherModel('http://x/v1', 'CRITIC_KEY', 'big')}\n"
        "    def execute(self, task, tuner): ...\n"
    )
    other = load_workflow(protocol(tmp_path, code)).other_models["critic"]
    monkeypatch.delenv("CRITIC_KEY", raising=False)
    with pytest.raises(TrainingError, match=r"other_models\['critic'\] reads its key from .* CRITIC_KEY"):
        api_key_of("critic", other)
    monkeypatch.setenv("CRITIC_KEY", "sk-1")
    assert api_key_of("critic", other) == "sk-1"


@pytest.mark.parametrize(
    ("returned", "reward"), [(1, 1.0), (True, 1.0), (None, None), (WorkflowOutput(0.25), 0.25)]
)
def test_what_a_workflow_may_return(returned: object, reward: float | None) -> None:
    assert output_of(returned).reward == reward


@pytest.mark.parametrize(
    "returned",
    ["1.0x", [1.0, 2.0], float("inf"), WorkflowOutput(1.0, log_metrics={"x": "many"})],  # type: ignore[dict-item]
)
def test_what_it_may_not(returned: object) -> None:
    with pytest.raises((TypeError, ValueError), match="number"):
        output_of(returned)


def a_tuner() -> Tuner:
    return Tuner("http://127.0.0.1:9", "tiny", lambda agent: f"key-of-{agent}")


def test_address_and_key_as_object_and_as_mapping() -> None:
    endpoint = a_tuner()("planner").as_oai_baseurl_apikey()
    assert (endpoint.base_url, endpoint.api_key) == ("http://127.0.0.1:9/v1", "key-of-planner")
    assert dict(**endpoint) == {"base_url": "http://127.0.0.1:9/v1", "api_key": "key-of-planner"}
    assert isinstance(endpoint, Endpoint)


async def test_clients_of_the_sdks_are_closed_with_the_episode() -> None:
    tuner = a_tuner()
    of_openai, of_anthropic = tuner("x").as_raw_openai_sdk_client(), tuner.as_anthropic_client()
    assert (str(of_openai.base_url), of_openai.api_key) == ("http://127.0.0.1:9/v1/", "key-of-x")
    assert (str(of_anthropic.base_url).rstrip("/"), of_anthropic.api_key) == ("http://127.0.0.1:9", "key-of-")
    await tuner.close()
    assert (of_openai.is_closed(), of_anthropic.is_closed()) == (True, True)


def test_a_framework_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "agentscope", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"as_agentscope_model\(\) needs .* pip install 'agentscope>=2'"
    ):
        a_tuner().as_agentscope_model()
