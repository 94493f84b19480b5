"""What runs in vLLM's interpreter: how its server is started, and how its workers take weights in.

`python ajet_vllm.py ARGUMENTS` is `vllm serve`, with the token route on. Needs vLLM and nothing of ours.
"""

import base64
import contextlib
import faulthandler
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

faulthandler.register(signal.SIGUSR1)  # the stacks of server and workers, for a trainer that waits in vain


class TakeWeights:
    """Methods that vLLM's workers get by `--worker-extension-cls`."""

    model_runner: Any

    def take_weights(self, folder: str) -> float:
        """Load the weights in a folder into the model as it is; the seconds that took."""
        from safetensors import safe_open

        def read(path: Path) -> Iterator[tuple[str, Any]]:
            with safe_open(path, "pt") as weights:
                for name in weights.keys():  # noqa: SIM118
                    yield name, weights.get_tensor(name)

        found = sorted(Path(folder).glob("*.safetensors"))
        if not found:
            raise FileNotFoundError(f"there are no weights in {folder}")
        return self._take(named for path in found for named in read(path))

    def take_shared(self, handles: str) -> float:
        """Load weights that another process has on this GPU; the seconds that took. `handles`: base64 of the
        pickled list of each one's name, and of the function and arguments that open it."""
        opened = pickle.loads(base64.b64decode(handles))
        return self._take((name, open_it(*how)) for name, (open_it, how) in opened)

    def _take(self, named: Iterator[tuple[str, Any]]) -> float:
        """All of them at once; a part of the model that sleep has emptied may not be left out."""
        import torch

        began, model = time.monotonic(), self.model_runner.model
        loaded = model.load_weights(named)
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        missing = {name for name, _ in model.named_parameters()} - (loaded or set())
        if loaded is not None and missing:
            raise ValueError(f"no weights came for {sorted(missing)[:5]}")
        return time.monotonic() - began


def keep_weights_on_cpu() -> None:
    """On a CPU vLLM 0.32 packs the weights of linear layers for oneDNN and empties the originals, so that new
    ones are lost. Compute with the originals instead."""
    import torch
    import vllm.model_executor.layers.utils as layers
    from vllm.platforms import current_platform

    if current_platform.is_cpu() and hasattr(layers, "dispatch_cpu_unquantized_gemm"):

        def keep(layer: Any, remove_weight: bool) -> None:
            layer.cpu_linear = torch.nn.functional.linear

        layers.dispatch_cpu_unquantized_gemm = keep


if __name__ == "__main__":
    import runpy

    sys.path[0] = ""  # instead of this folder, as `python -m` has it
    with contextlib.suppress(ImportError):
        from vllm.entrypoints.launchers import cli_args

        if hasattr(cli_args.BaseFrontendArgs, "enable_scale_out"):  # before that the route was always on
            sys.argv.append("--enable-scale-out")
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
else:
    keep_weights_on_cpu()
