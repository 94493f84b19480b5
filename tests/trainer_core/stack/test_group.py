"""Places for workers on a Ray cluster: what it has not is said, as Ray would wait for it for ever."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("verl") is None:
    pytest.skip("needs verl; `make test-stack` brings it", allow_module_level=True)

from tests.trainer_core.stack.conftest import config_of
from trainer_core.backbone.verl import prepare
from trainer_core.types import TrainingError


@pytest.fixture(scope="module")
def two_machines(model: str) -> Iterator[None]:
    """Ray's own test cluster, with four CPUs on each."""
    prepare(config_of(model))
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    cluster.add_node(num_cpus=4)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.usefixtures("two_machines")
@pytest.mark.parametrize(("nodes", "per_node", "use_gpu"), [(1, 4, False), (3, 2, False), (1, 1, True)])
def test_what_no_machine_has_is_refused(nodes: int, per_node: int, use_gpu: bool) -> None:
    from trainer_core.engine.verl.group import make_pool

    with pytest.raises(TrainingError, match=r"nnodes = \d machines with \d (C|G)PUs each are asked for"):
        make_pool(nodes, per_node, use_gpu=use_gpu)


@pytest.mark.usefixtures("two_machines")
def test_what_others_use_is_not_waited_for() -> None:
    import ray

    from trainer_core.engine.verl.group import make_pool

    make_pool(2, 2, use_gpu=False)

    @ray.remote(num_cpus=3)
    class Other:
        def here(self) -> bool:
            return True

    other = Other.remote()
    assert ray.get(other.here.remote())
    with pytest.raises(TrainingError, match="the Ray cluster has 5 CPUs free, and 8 are asked for"):
        make_pool(2, 2, use_gpu=False)
