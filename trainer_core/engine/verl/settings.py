"""verl's own config of a run: its defaults, what `ajet:` says, and the raw keys of `verl:` on top."""

from __future__ import annotations

import difflib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import verl
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.import_utils import import_external_libs
from verl.workers.config import TrainingWorkerConfig
from verl.workers.rollout.replica import get_rollout_replica_class

from trainer_core.config.schema import Config
from trainer_core.config.verl import leaves, places, raw_keys, translated
from trainer_core.types import TrainingError

_ADDED = ("mixed_precision", "override_config", "engine_kwargs")
"""Mappings of the tree that have no keys of their own there, or are not there."""


def verl_tree(config: Config) -> DictConfig:
    """The whole tree, checked against verl's.

    Raises:
        TrainingError: a key of `verl:` is none of verl's, or has a name of ours.
    """
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        engine = {"fsdp2": "dp"}.get(strategy := config.ajet.trainer_common.strategy, strategy)
        tree = compose("ppo_trainer", [f"model_engine={engine}"])
    OmegaConf.set_struct(tree, True)
    for path, value in translated(config.ajet).items():
        OmegaConf.update(tree, path, value, force_add=path.endswith(_ADDED))
    for path, value in raw_keys("verl", config.verl, places(config.ajet)):
        try:
            OmegaConf.update(tree, path, value, force_add=any(f".{each}." in path for each in _ADDED))
        except OmegaConfBaseException as error:
            told = f"verl.{path} is no key of verl {verl.__version__}{_nearest(path, tree)}"
            raise TrainingError(told) from error
    return tree


def without_flash_attention(tree: DictConfig) -> bool:
    """Take torch's own attention where flash-attn is not installed and none is chosen; whether it was.
    Megatron has its own.

    Raises:
        TrainingError: ranks are to share sequences, which verl does inside flash attention alone.
    """
    chosen = tree.actor_rollout_ref.model.override_config
    is_megatron = tree.actor_rollout_ref.actor.strategy == "megatron"
    if is_megatron or find_spec("flash_attn") is not None or chosen.get("attn_implementation"):
        return False
    if tree.actor_rollout_ref.actor.ulysses_sequence_parallel_size > 1:
        raise TrainingError(
            "ajet.trainer_common.ulysses_sequence_parallel_size: verl shares sequences inside flash "
            "attention, which is not installed here. Write 1, or: pip install flash-attn --no-build-isolation"
        )
    OmegaConf.update(chosen, "attn_implementation", "sdpa", force_add=True)
    return True


def raw(config: Config) -> dict[str, Any]:
    """The keys of `verl:` by their path."""
    return dict(leaves(config.verl))


def worker_settings(tree: DictConfig) -> TrainingWorkerConfig:
    """What a worker is made from.

    Raises:
        TrainingError: a value is none that verl takes.
    """
    actor, model = (made(tree, name) for name in ("actor", "model"))
    engine = actor.engine
    engine.use_dynamic_bsz = True
    engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = actor.ppo_max_token_len_per_gpu
    return TrainingWorkerConfig(
        model_type="language_model",
        model_config=model,
        engine_config=engine,
        optimizer_config=actor.optim,
        checkpoint_config=actor.checkpoint,
    )


def made(tree: DictConfig, section: str) -> Any:
    """verl's own object for a section of `actor_rollout_ref`.

    Raises:
        TrainingError: a value is none that verl takes.
    """
    try:
        return omega_conf_to_dataclass(tree.actor_rollout_ref[section])
    except (OmegaConfBaseException, HydraException, AssertionError, TypeError, ValueError) as error:
        told = error.__cause__ or error
        raise TrainingError(f"verl does not take actor_rollout_ref.{section}: {told}") from error


def check(tree: DictConfig, *, starts: bool, is_hybrid: bool) -> None:
    """What verl's own classes take, and what has to be here. `starts`: the run does, on this machine;
    `is_hybrid`: verl's own servers sample.

    Raises:
        TrainingError: a value is none that verl takes, or a package is missing.
    """
    settings = tree.actor_rollout_ref
    if made(tree, "actor").strategy == "megatron" and starts and find_spec("megatron") is None:
        raise TrainingError(
            "ajet.trainer_common.strategy: megatron-core is not installed here. Type: pip install "
            "'verl[megatron]', on a machine with CUDA (it brings Megatron-Bridge and TransformerEngine); or "
            "write fsdp2"
        )
    if not is_hybrid:
        return
    if (backend := made(tree, "rollout").checkpoint_engine.backend) != "naive":
        raise TrainingError(
            f"verl.actor_rollout_ref.rollout.checkpoint_engine.backend is {backend}, but servers on the GPUs "
            "that train take weights as naive does. Leave it out"
        )
    if not starts:
        return
    import_external_libs(settings.model.external_lib)
    try:
        get_rollout_replica_class(settings.rollout.name)
    except (ImportError, ValueError) as error:
        raise TrainingError(
            f"ajet.rollout.inference: verl cannot start {settings.rollout.name} from this environment "
            f"({' '.join(str(error).split())}). With GPUs type: pip install '.[trainer,verl,vllm]'; else "
            "write vllm for a server that the trainer starts"
        ) from error


def _nearest(path: str, tree: DictConfig) -> str:
    known = dict(leaves(OmegaConf.to_container(tree, resolve=False)))
    name = path.rpartition(".")[2]
    near = (
        difflib.get_close_matches(path, known, n=1) or [key for key in known if key.endswith(f".{name}")][:1]
    )
    return f"; the nearest is verl.{near[0]}" if near else ""
