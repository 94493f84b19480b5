"""What Trinity's interpreter runs: `python -m trainer_core.backbone.run_trinity check|run trinity.yaml`.

`check` prints one line of JSON last: versions of Trinity and Ray, the GPUs seen, whether vLLM is there, the
problem.
`run` is `trinity run`, with an exit status: 1 where a part of Trinity failed, or ended before the last step.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any


def check(path: str) -> dict[str, Any]:
    """Load and validate a configuration as Trinity does, as far as that needs no GPU and no Ray."""
    found: dict[str, Any] = {
        "version": None,
        "gpus": 0,
        "vllm": find_spec("vllm") is not None,
        "ray": None,
        "problem": None,
    }
    try:
        import ray

        found["ray"] = [int(part) for part in ray.__version__.split(".")[:2]]
        import torch

        found["gpus"] = torch.cuda.device_count()
        import trinity
        from trinity.algorithm import ADVANTAGE_FN, KL_FN, POLICY_LOSS_FN
        from trinity.common.config import load_config
        from trinity.trainer.verl.config import build_verl_config

        import trainer_core.backbone.in_trinity  # noqa: F401  (the configuration names what is there)
    except ImportError as error:
        return found | {"problem": f"not importable: {error}"}
    found["version"] = trinity.__version__
    try:
        config = load_config(path)
        with TemporaryDirectory() as folder:  # Trinity makes its folders while it validates
            config.checkpoint_root_dir = folder
            config.check_and_update()
        chosen = config.algorithm
        for registry, name in (
            (POLICY_LOSS_FN, "policy_loss_fn"),
            (ADVANTAGE_FN, "advantage_fn"),
            (KL_FN, "kl_loss_fn"),
        ):
            registry.get(getattr(chosen, name))(**(getattr(chosen, f"{name}_args") or {}))
        build_verl_config(config)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what Trinity refuses)
        found["problem"] = f"{type(error).__name__}: {error}"
    return found


def run(path: str) -> int:
    """Train; the exit status."""
    from trinity.cli.launcher import run_stage
    from trinity.common.config import load_config
    from trinity.manager.state_manager import StateManager

    config = load_config(path).check_and_update()
    if not run_stage(config).success:
        return 1
    kept = StateManager(path=config.checkpoint_job_dir, trainer_name=config.trainer.name).load_trainer()
    done, wanted = kept.get("latest_iteration", 0), config.trainer.total_steps
    if wanted is not None and done < wanted:
        print(f"Trinity ended after step {done} of {wanted}; its log in {config.log.save_dir} says why")
        return 1
    return 0


if __name__ == "__main__":
    command, file = sys.argv[1:]
    if command == "run":
        sys.exit(run(file))
    print(json.dumps(check(file)))
