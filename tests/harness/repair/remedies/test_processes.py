"""Fewer processes, threads, and more open files."""

import pytest

from harness.repair.remedies import remedies_for
from tests.harness.repair.remedies.samples import AJET, HUGGINGFACE, PLAIN, edits, situation, variables


def test_loaders_are_halved_and_then_none() -> None:
    key = "data.num_workers"
    assert edits("fewer_loader_workers", PLAIN) == {key: 1}
    assert edits("fewer_loader_workers", "data: {num_workers: 1}\n") == {key: 0}
    assert edits("fewer_loader_workers", "data: {num_workers: 0}\n") == {}
    assert edits("fewer_loader_workers", "train_dataloader: {num_workers: 8}\n") == {
        "train_dataloader.num_workers": 4
    }
    assert edits("fewer_loader_workers", HUGGINGFACE) == {"dataloader_num_workers": 2}


@pytest.mark.parametrize(
    "config", ["num_workers: 16\nalgo: a2c\n", "rollout: {num_workers: 8}\n", "env: {n_workers: 8}\n"]
)
def test_workers_that_may_collect_experience_stay(config: str) -> None:
    assert edits("fewer_loader_workers", config) == {}


def test_one_loader_stays_where_settings_need_it() -> None:
    loader = "loader: {num_workers: %d, %s}\n"
    assert edits("fewer_loader_workers", loader % (1, "persistent_workers: true")) == {}
    assert edits("fewer_loader_workers", loader % (2, "prefetch_factor: 4")) == {"loader.num_workers": 1}
    assert edits("fewer_loader_workers", "num_proc: 2\n") == {"num_proc": 1}
    assert edits("fewer_loader_workers", "num_proc: 1\n") == {}


def test_fewer_episodes_at_a_time() -> None:
    assert edits("fewer_env_workers", AJET) == {"ajet.rollout.max_env_worker": 32}
    assert edits("fewer_env_workers", "num_envs: 8\nrollout: {env_workers: 8}\n") == {
        "rollout.env_workers": 4
    }


def test_threads_become_two_then_one() -> None:
    both = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    two = variables("fewer_threads", environment={"OMP_NUM_THREADS": "64"})
    assert two == dict.fromkeys(both, "2")
    one = variables("fewer_threads", environment=two)
    assert one == dict.fromkeys(both, "1")
    assert variables("fewer_threads", environment=one) == {}


def test_the_limit_of_open_files_is_raised_only_where_it_can_be() -> None:
    assert remedies_for(["raise_open_files"], situation())[0].kind == "limit"
    assert remedies_for(["raise_open_files"], situation(facts={"open_files": lambda: (4096, 4096)})) == []
