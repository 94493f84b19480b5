"""The model: its files are whole, its tokenizer has a chat template, it can be had without a network."""

from collections.abc import Iterator
from pathlib import Path

from harness.doctor import model_files
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch

_TRUE = ("1", "true", "yes", "on")
_TEMPLATES = {"chat_template.jinja", "chat_template.json", "additional_chat_templates"}
_OWN_TEMPLATE = ("actor_rollout_ref.model.custom_chat_template", "chat_template", "chat_template_path")
_TOKENIZER_CONFIG = "tokenizer_config.json"


def config_is_whole(launch: PlannedLaunch) -> Iterator[Finding]:
    """A local model's folder has a config and a tokenizer that can be read, for chats with a template."""
    folder = _named_folder(launch)
    if folder is None or (folder / "adapter_config.json").exists():
        return
    there = {path.name for path in folder.iterdir()}
    for name in ("config.json", _TOKENIZER_CONFIG, "tokenizer.json", "generation_config.json"):
        try:
            config = model_files.read_json(folder / name)
        except (ValueError, OSError) as error:
            family = "tokenizer_template" if name.startswith("token") else "config_error"
            yield problem(f"{folder / name} cannot be read: {error}", "copy the model's files again", family)
            return
        if name == _TOKENIZER_CONFIG and config.get("chat_template"):
            there |= _TEMPLATES
    chats = launch.is_bundled or launch.settings.is_of_verl
    if "config.json" not in there:
        fix = "name the folder that config.json is in (a training's checkpoint has to be merged first)"
        yield problem(f"the model folder {folder} has no config.json", fix, "path_not_found")
    elif chats and launch.settings.get(*_OWN_TEMPLATE) is None and not there & _TEMPLATES:
        fix = "use the instruct version's tokenizer files, or add a chat_template.jinja"
        yield warning(f"the tokenizer of {folder} has no chat template", fix, "tokenizer_template")
    else:
        yield fine(f"the config files of {folder} can be read")


def weights_are_whole(launch: PlannedLaunch) -> Iterator[Finding]:
    """Weight files are as long as their headers say, and all of them are there."""
    folder = model_files.model_folder(launch)
    if folder is None:
        return
    bad = list(model_files.faults(folder))
    for name, why in bad:
        yield problem(f"{folder / name} {why}", "copy or download that file again", "corrupt_weights")
    weights = model_files.weight_files(folder)
    if not weights and (folder / "config.json").exists() and folder == _named_folder(launch):
        fix = "copy its *.safetensors files into it"
        yield problem(f"the model folder {folder} has no weights", fix, "path_not_found")
    if weights and not bad:
        yield fine(f"{len(weights)} weight file(s) of {folder} are whole")


def can_be_had(launch: PlannedLaunch) -> Iterator[Finding]:
    """A model or dataset of the hub is cached where the hub must not be asked."""
    variables, settings = launch.environment, launch.settings
    switches = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    offline = [name for name in switches if variables.get(name, "").lower() in _TRUE]
    keys: tuple[str, ...] = ("dataset_name", "data.dataset_name")
    if launch.is_bundled:
        reads_hub = settings.get("ajet.task_reader.type") == "huggingface_dat_repo"
        keys = ("ajet.task_reader.huggingface_dat_repo.dataset_path",) if reads_hub else ()
    wanted = [("models", *model_files.model_name(launch))]
    wanted += [("datasets", key, settings.text(key)) for key in keys]
    for kind, key, name in wanted:
        if not model_files.is_hub_name(launch, name):
            continue
        if model_files.cached_repository(variables, kind, name) is not None:
            yield fine(f"{name} is in the hub's cache")
        elif offline:
            cache = model_files.hub_cache(variables)
            text = f"{key}: {name} is not in {cache}, and {offline[0]} forbids to download it"
            fix = f"download it first (`hf download {name}`), or unset {offline[0]}"
            yield problem(text, fix, "hub_offline")


def _named_folder(launch: PlannedLaunch) -> Path | None:
    """The model's folder, where a person named a folder."""
    _, name = model_files.model_name(launch)
    return None if model_files.is_hub_name(launch, name) else model_files.model_folder(launch)
