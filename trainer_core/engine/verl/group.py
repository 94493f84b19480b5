"""Workers of verl on Ray: one for each GPU; without any, as many as the config counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ray
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup

from trainer_core.types import TrainingError


def join_ray(address: str, cpus: int, environment: Mapping[str, str]) -> Callable[[], None]:
    """Connect to the cluster at `address`, or with "local" start a Ray of our own, with so many places, which
    ends with this process. Returns how to leave.

    Raises:
        TrainingError: there is no cluster.
    """
    own = {"num_cpus": cpus} if address == "local" else {}
    try:
        ray.init(
            address=address,
            **own,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env={"env_vars": dict(environment)},
        )
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise TrainingError(
            f"there is no Ray cluster at {address} ({error}). Type `ray start --head` on one machine and "
            "`ray start --address=…` on the others, or leave --with-ray-cluster out"
        ) from error
    return ray.shutdown


GROUPS = 2
"""In a pool: the policy, and the reference beside it."""


def make_pool(nodes: int, per_node: int, *, use_gpu: bool, beside: int = 0) -> RayResourcePool:
    """A place for each worker, on each of so many machines, and CPUs for so many actors `beside` them.

    Raises:
        TrainingError: the cluster has less, for which Ray would wait for ever.
    """
    asked = {"CPU": per_node * GROUPS + beside} | ({"GPU": per_node} if use_gpu else {})
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for name, number in asked.items():
        if sum(int(each.get(name, 0.0) // number) for each in machines) < nodes:
            has = ", ".join(f"{each.get(name, 0.0):g}" for each in machines)
            raise TrainingError(
                f"trainer_common.nnodes = {nodes} machines with {number} {name}s each are asked for "
                f"({per_node} workers), and those of the Ray cluster have {has}. Lower n_gpus_per_node or "
                "nnodes, or add machines with `ray start`"
            )
        if (free := ray.available_resources().get(name, 0.0)) < number * nodes:
            raise TrainingError(
                f"the Ray cluster has {free:g} {name}s free, and {number * nodes} are asked for: others use "
                "it. Wait for them, or lower trainer_common.n_gpus_per_node or nnodes"
            )
    return RayResourcePool([per_node] * nodes, use_gpu=use_gpu, max_colocate_count=GROUPS)


def on_ray(worker: type, pool: RayResourcePool, device: str, **settings: Any) -> RayWorkerGroup:
    """A group of such workers, made from `settings`, one in each place of the pool."""
    return RayWorkerGroup(pool, RayClassWithInitArgs(ray.remote(worker), **settings), device_name=device)
