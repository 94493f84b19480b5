"""The names that AgentJet's users import."""

import ast
import json
from pathlib import Path

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

import ajet
from ajet.copilot.job import AgentJetJob
from ajet.default_config.ajet_config_schema import (
    AjetTaskReader,
    HuggingfaceDatRepo,
    JsonlDatasetFile,
    JsonlTrainingFp,
)
from ajet.schema.task import Task, WorkflowOutput, WorkflowTask
from ajet.task_reader import HuggingFaceTaskReader, RouterTaskReader
from ajet.tuner_lib.as_oai_baseurl_apikey import OpenaiBaseUrlAndApiKey
from ajet.tuner_lib.experimental.interchange_utils import SwarmThrottlePolicy
from ajet.tuner_lib.experimental.swarm_client import SwarmClient
from ajet.utils.thread_executors import PeriodicDrainThreadPoolExecutor
from tests.trainer_core.swarm.conftest import RunningSwarm, chat
from trainer_core.types import DataError

TASKS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture
def dataset(tmp_path: Path) -> RouterTaskReader:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps({"question": "q", "task_id": name}) + "\n" for name in TASKS))
    files = JsonlDatasetFile(training=JsonlTrainingFp(file_path=str(path)))
    return RouterTaskReader(
        reader_type="jsonl_dataset_file", reader_config=AjetTaskReader(jsonl_dataset_file=files)
    )


def test_it_only_names_what_is_elsewhere() -> None:
    root = Path(ajet.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            assert isinstance(node, ast.ImportFrom | ast.Expr | ast.Assign), path
            assert not isinstance(node, ast.ImportFrom) or str(node.module).startswith("trainer_core."), path


def test_tasks_and_outputs_take_the_documented_fields() -> None:
    task = Task(main_query="q", init_messages=[], task_id="t", env_type="", metadata={"a": 1})
    assert (task.task_id, Task().metadata, Task(main_query="q").task_id) == ("t", {}, "")
    output = WorkflowOutput(reward=1.0, is_success=True, metadata={}, log_metrics={"m": 1.0})
    assert output.is_success and WorkflowOutput().reward is None
    assert WorkflowTask(task=task).task is task
    assert OpenaiBaseUrlAndApiKey(base_url="u", api_key="k", episode_uuid="e").api_key == "k"


def test_a_reader_gives_the_tasks_shuffled_and_the_same_for_a_seed(dataset: RouterTaskReader) -> None:
    epochs = [[task.task_id for task in dataset.generate_training_tasks()] for _ in range(3)]
    assert all(sorted(epoch) == TASKS for epoch in epochs) and len({*map(tuple, epochs)}) == 3
    assert list(dataset.generate_validation_tasks()) == []
    dummies = [RouterTaskReader("random_dummy", AjetTaskReader()) for _ in range(2)]
    first, second = ([task.task_id for task in each.generate_training_tasks()] for each in dummies)
    assert first == second and len(first) == 1000 and len(dummies[0].get_validation_tasks()) == 100


def test_a_data_file_is_read_and_its_rows_need_no_question(tmp_path: Path) -> None:
    path = tmp_path / "papers.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"abstract": ["x", "y"]}), path)
    config = AjetTaskReader(huggingface_dat_repo=HuggingfaceDatRepo(dataset_path=str(path)))
    reader = HuggingFaceTaskReader(config)
    tasks = reader.get_training_tasks()
    assert [(task.task_id, task.main_query, task.metadata["abstract"]) for task in tasks] == [
        ("train-0", "", "x"),
        ("train-1", "", "y"),
    ]
    assert len([*reader.generate_training_tasks()]) == 2
    with pytest.raises(DataError, match="is one data file"):
        reader.get_validation_tasks()
    assert RouterTaskReader("random_dummy").get_training_tasks()[7].metadata == {"random_number": 7}


def test_older_names_mean_the_same() -> None:
    from ajet.default_config import ajet_default
    from ajet.tuner_lib.experimental import as_swarm_client, swarm_client
    from ajet.utils.thread_executors import TaskCountLimitedThreadPoolExecutor

    assert (ajet_default.AjetTaskReader, ajet_default.HuggingfaceDatRepo) == (
        AjetTaskReader,
        HuggingfaceDatRepo,
    )
    assert as_swarm_client.SwarmClient is SwarmClient
    assert swarm_client.run_episodes_until_all_complete is as_swarm_client.run_episodes_until_all_complete
    assert callable(TaskCountLimitedThreadPoolExecutor.submit_group)


def test_a_reader_that_cannot_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task_reader\.type: 'huggingface'"):
        RouterTaskReader("huggingface")
    with pytest.raises(DataError, match="starts the environments"):
        RouterTaskReader("verifiers")
    files = JsonlDatasetFile(training=JsonlTrainingFp(file_path=str(tmp_path / "none")))
    with pytest.raises(DataError, match="there is no data file"):
        next(RouterTaskReader("jsonl_dataset_file", {"jsonl_dataset_file": files}).generate_training_tasks())
    assert HuggingfaceDatRepo(dataset_path="gsm8k", dataset_name="main").training_split == "train"


def test_a_published_script_runs(swarm: RunningSwarm, dataset: RouterTaskReader, tmp_path: Path) -> None:
    swarm_worker = SwarmClient(swarm.url, verbose=False)
    ajet_job = AgentJetJob(
        experiment_name="e", experiment_dir=str(tmp_path / "run"), algorithm="grpo", model="tiny",
        batch_size=2, num_repeat=2, n_gpu=8,
    )  # fmt: skip
    assert ajet_job.config.to_dict()["ajet"]["experiment_name"] == "e"
    swarm_worker.auto_sync_train_config_and_start_engine(ajet_job, force_restart=True)

    def rollout(task: Task) -> float:
        policy = SwarmThrottlePolicy(
            expected_batch_size=2, expected_num_repeat=2, current_task_id=task.task_id
        )
        episode_uuid, api = swarm_worker.begin_episode(discard_episode_timeout=60, throttle_policy=policy)
        assert chat(api.base_url, api.api_key) == "answer"
        swarm_worker.end_episode(task, episode_uuid, WorkflowOutput(reward=1.0))
        return 1.0

    executor = PeriodicDrainThreadPoolExecutor[float](workers=4, auto_retry=True)
    for task in dataset.generate_training_tasks():
        for _ in range(2):
            executor.submit_with_periodic_drain(fn=rollout, task=task)
    assert set(executor.drain()) <= {1.0}
    assert swarm_worker.wait_for_step(1) >= 1
