"""The model: its files are whole, its tokenizer has a chat template, it can be had without a network."""

from collections.abc import Iterator
from pathlib import Path

from harness.doctor import model_files
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch

_TRUE = ("1", "true", "yes", "on")
_GATED = ("meta-llama/", "google/gemma", "mistralai/mistral-large")
_JSON = ("config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json")
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "tokenizer_config.json",
    "tekken.json",
    "spiece.model",
)
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates")
_OWN_TOKENIZER = ("tokenizer", "tokenizer_name_or_path", "actor_rollout_ref.model.tokenizer_path")
_OWN_TEMPLATE = ("actor_rollout_ref.model.custom_chat_template", "chat_template", "chat_template_path")


def config_is_whole(launch: PlannedLaunch) -> Iterator[Finding]:
    """A local model's folder has a config and a tokenizer that can be read, for chats with a template."""
    folder = _local(launch)
    if folder is None or (folder / "adapter_config.json").exists():
        return
    configs = {}
    for name in _JSON:
        try:
            configs[name] = model_files.read_json(folder / name)
        except (ValueError, OSError) as error:
            family = "tokenizer_template" if name.startswith("token") else "config_error"
            yield problem(f"{folder / name} cannot be read: {error}", "copy the model's files again", family)
            return
    if not (folder / "config.json").exists():
        fix = "name the folder that config.json is in (a training's checkpoint has to be merged first)"
        yield problem(f"the model folder {folder} has no config.json", fix, "path_not_found")
        return
    if not any((folder / name).exists() for name in _TOKENIZERS):
        if launch.settings.get(*_OWN_TOKENIZER) is None:
            text = f"the model folder {folder} has no tokenizer"
            yield warning(text, "copy the tokenizer's files into it", "tokenizer_template")
        return
    chats = launch.is_bundled or launch.settings.has_tree("actor_rollout_ref")
    has_template = configs["tokenizer_config.json"].get("chat_template") or launch.settings.get(
        *_OWN_TEMPLATE
    )
    if chats and not has_template and not any((folder / name).exists() for name in _TEMPLATES):
        fix = "use the instruct version's tokenizer files, or add a chat_template.jinja"
        yield warning(f"the tokenizer of {folder} has no chat template", fix, "tokenizer_template")
    else:
        yield fine(f"the config and tokenizer of {folder} can be read")


def weights_are_whole(launch: PlannedLaunch) -> Iterator[Finding]:
    """Weight files are as long as their headers say, and all of them are there."""
    folder = model_files.model_folder(launch)
    if folder is None:
        return
    bad = list(model_files.faults(folder))
    for name, why in bad:
        yield problem(f"{folder / name} {why}", "copy or download that file again", "corrupt_weights")
    weights = model_files.weight_files(folder)
    if not weights and (folder / "config.json").exists() and _local(launch) is not None:
        fix = "copy its *.safetensors files into it"
        yield problem(f"the model folder {folder} has no weights", fix, "path_not_found")
    if weights and not bad:
        yield fine(f"{len(weights)} weight file(s) of {folder} are whole")


def can_be_had(launch: PlannedLaunch) -> Iterator[Finding]:
    """A model or dataset of the hub is cached where the hub cannot be asked."""
    variables, settings = launch.environment, launch.settings
    switches = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    offline = [name for name in switches if variables.get(name, "").lower() in _TRUE]
    named = model_files.model_name(launch)
    wanted = [("models", *named)] if named else []
    reads_hub = settings.get("ajet.task_reader.type") == "huggingface_dat_repo"
    keys = ("ajet.task_reader.huggingface_dat_repo.dataset_path",) if reads_hub else ()
    for key in keys if launch.is_bundled else ("dataset_name", "data.dataset_name"):
        if text := settings.text(key):
            wanted.append(("datasets", key, text))
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
        elif name.lower().startswith(_GATED) and not _has_token(launch):
            text = f"{key}: {name} is only given to people who are logged in, and there is no token"
            fix = "accept its licence on the hub, then set HF_TOKEN or run `hf auth login`"
            yield warning(text, fix, "auth")


def _has_token(launch: PlannedLaunch) -> bool:
    if any(launch.environment.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")):
        return True
    home = launch.environment.get("HF_HOME") or "~/.cache/huggingface"
    return (Path(home).expanduser() / "token").exists()


def _local(launch: PlannedLaunch) -> Path | None:
    """The model's folder, where a person named a folder."""
    named = model_files.model_name(launch)
    if named is None or model_files.is_hub_name(launch, named[1]):
        return None
    folder = launch.codebase / Path(named[1]).expanduser()
    return folder if folder.is_dir() else None
