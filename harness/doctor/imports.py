"""Modules that no program names, because a setting asks for them.

In: the settings and the programs of a launch. Out: module → who wants it.
"""

from typing import Any

from harness.command import PythonProgram
from harness.doctor.settings import Settings

TRAINER_MODULES = ("numpy", "pydantic", "ruamel.yaml", "safetensors", "tokenizers", "torch", "transformers")
"""What the bundled trainer imports in every training."""
FLASH_ATTENTION = "attn_implementation"
"""The setting that asks for a kernel of its own package."""
_LAUNCHER_MODULES = {"torchrun": "torch", "accelerate": "accelerate", "deepspeed": "deepspeed"}
_TRACKERS = ("wandb", "swanlab", "mlflow", "tensorboard")
_FOR_A_SETTING: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("actor_rollout_ref.rollout.name", "vllm", ("vllm",)),
    ("actor_rollout_ref.rollout.name", "sglang", ("sglang",)),
    (FLASH_ATTENTION, "flash_attention_2", ("flash_attn",)),
    ("use_vllm", True, ("vllm",)),
    ("use_peft", True, ("peft",)),
    ("load_in_4bit", True, ("bitsandbytes",)),
    ("load_in_8bit", True, ("bitsandbytes",)),
    ("ajet.backbone", "verl", ("verl", "ray", "vllm")),
    ("ajet.backbone", "trinity", ("trinity", "ray", "vllm")),
    ("ajet.task_reader.type", "huggingface_dat_repo", ("datasets",)),
    *((key, name, (name,)) for key in ("trainer.logger", "report_to") for name in _TRACKERS[:3]),
    *(("ajet.trainer_common.logger", name, (name,)) for name in ("swanlab", "wandb", "tensorboard")),
)
"""(key, value, modules): with this value of this key the modules are imported, late and often in a worker."""


def modules_of_settings(
    settings: Settings, programs: tuple[PythonProgram, ...], bundled: bool
) -> dict[str, str]:
    """Module → who wants it: the bundled trainer, a launcher, a setting of verl, TRL or transformers."""
    found = dict.fromkeys(TRAINER_MODULES, "the bundled trainer") if bundled else {}
    if not bundled and not (programs and all(program.call.certain for program in programs)):
        return found
    for program in programs:
        if program.launcher in _LAUNCHER_MODULES:
            found.setdefault(_LAUNCHER_MODULES[program.launcher], "the launch command")
    if settings.has_tree("actor_rollout_ref"):
        found.setdefault("ray", "verl")
    for key, value, modules in _FOR_A_SETTING:
        given = settings.get(key)
        is_asked = value in given if isinstance(given, list) else value == given
        if is_asked and key.startswith("ajet.") == bundled:
            found = dict.fromkeys(modules, f"{key}: {value}") | found
    return found
