"""A platform of verl for machines without a GPU, through verl's own extension point.

`trainer_core.backbone.verl` names this module in the environment, before verl is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


def _nothing(*_arguments: Any, **_named: Any) -> None:
    return None


def _zero(*_arguments: Any, **_named: Any) -> int:
    return 0


class _Device(SimpleNamespace):
    """What torch.cuda is on a GPU; what is not named here is torch.cpu's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


_DEVICE = _Device(
    **dict.fromkeys(
        ("empty_cache", "synchronize", "set_device", "ipc_collect", "reset_peak_memory_stats"), _nothing
    ),
    **dict.fromkeys(
        ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"), _zero
    ),
    is_available=lambda: True,
    is_initialized=lambda: True,
    device_count=lambda: 1,
    current_device=lambda: "cpu",
    mem_get_info=lambda *_: (psutil.virtual_memory().available, psutil.virtual_memory().total),
    manual_seed=torch.manual_seed,
    manual_seed_all=torch.manual_seed,
    get_rng_state=lambda *_: torch.get_rng_state(),
    set_rng_state=lambda state, *_: torch.set_rng_state(state),
    get_device_name=lambda *_: "cpu",
    get_device_properties=lambda *_: SimpleNamespace(name="cpu", total_memory=psutil.virtual_memory().total),
)


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """See `PlatformBase`."""

    device_name = vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _DEVICE)
    empty_cache = set_device = synchronize = set_allocator_settings = profiler_start = profiler_stop = (
        _nothing
    )
    cudart = _nothing

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, message: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False
