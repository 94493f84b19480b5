"""The model: its files are whole, its tokenizer has a chat template, it can be had without a network."""

from collections.abc import Iterator
from pathlib import Path

from harness.doctor import model_files
from harness.doctor.launch import PlannedLaunch
from harness.doctor.script_data import hub_names
from harness.doctor.types import Finding, fine, problem, warning

_TRUE = ("1", "true", "yes", "on")
_GATED = ("meta-llama/", "google/gemma", "mistralai/mistral-large")
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "tokenizer_config.json",
    "tekken.json",
    "spiece.model",
)


def config_is_whole(launch: PlannedLaunch) -> Iterator[Finding]:
    """A local model's folder has a config and a tokenizer that can be read."""
    folder = _local(launch)
    if folder is None:
        return
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json"):
        try:
            model_files.read_json(folder / name)
        except (ValueError, OSError) as error:
            family = "tokenizer_template" if name.startswith("token") else "config_error"
            yield problem(f"{folder / name} cannot be read: {error}", "copy the model's files again", family)
            return
    if not (folder / "config.json").exists():
        if (folder / "adapter_config.json").exists():
            return
        mend = "name the folder that config.json is in (a training's checkpoint has to be merged first)"
        yield problem(f"the model folder {folder} has no config.json", mend, "path_not_found")
    elif not any((folder / name).exists() for name in _TOKENIZERS):
        if (
            launch.settings.get(
                "tokenizer", "tokenizer_name_or_path", "actor_rollout_ref.model.tokenizer_path"
            )
            is None
        ):
            yield warning(
                f"the model folder {folder} has no tokenizer",
                "copy the tokenizer's files into it",
                "tokenizer_template",
            )
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
        yield problem(
            f"the model folder {folder} has no weights",
            "copy its *.safetensors files into it",
            "path_not_found",
        )
    if weights and not bad:
        yield fine(f"{len(weights)} weight file(s) of {folder} are whole")


def chat_template(launch: PlannedLaunch) -> Iterator[Finding]:
    """A tokenizer of a training on chats has a chat template."""
    folder = model_files.model_folder(launch)
    if folder is None or not _chats(launch) or not any((folder / name).exists() for name in _TOKENIZERS):
        return
    given = launch.settings.get(
        "actor_rollout_ref.model.custom_chat_template", "chat_template", "chat_template_path"
    )
    try:
        config = model_files.read_json(folder / "tokenizer_config.json")
    except ValueError:
        return
    files = [
        folder / "chat_template.jinja",
        folder / "chat_template.json",
        folder / "additional_chat_templates",
    ]
    if given or config.get("chat_template") or any(file.exists() for file in files):
        yield fine(f"the tokenizer of {folder} has a chat template")
        return
    yield warning(
        f"the tokenizer of {folder} has no chat template",
        "use the instruct version's tokenizer files, or add a chat_template.jinja",
        "tokenizer_template",
    )


def can_be_had(launch: PlannedLaunch) -> Iterator[Finding]:
    """A model or dataset of the hub is cached where the hub cannot be asked."""
    offline = [
        name
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
        if launch.environment.get(name, "").lower() in _TRUE
    ]
    named = model_files.model_name(launch)
    wanted = [("models", *named)] if named else []
    for key in ("dataset_name", "data.dataset_name", "ajet.task_reader.huggingface_dat_repo.dataset_path"):
        value = launch.settings.get(key)
        if isinstance(value, str) and (
            not launch.is_bundled or (key.startswith("ajet.") and _reads_hub(launch))
        ):
            wanted.append(("datasets", key, value))
    for file, tree in launch.wanted().trees.items():
        wanted += [(kind, launch.shown(file), name) for kind, name in hub_names(tree)]
    for kind, key, name in wanted:
        if not model_files.is_hub_name(launch, name):
            continue
        if model_files.cached_repository(launch.environment, kind, name) is not None:
            yield fine(f"{name} is in the hub's cache")
        elif offline:
            cache = model_files.hub_cache(launch.environment)
            mend = f"download it first (`hf download {name}`), or unset {offline[0]}"
            yield problem(
                f"{key}: {name} is not in {cache}, and {offline[0]} forbids to download it",
                mend,
                "hub_offline",
            )
        elif name.lower().startswith(_GATED) and not _has_token(launch):
            mend = "accept its licence on the hub, then set HF_TOKEN or run `hf auth login`"
            yield warning(
                f"{key}: {name} is only given to people who are logged in, and there is no token",
                mend,
                "auth",
            )


def _reads_hub(launch: PlannedLaunch) -> bool:
    return bool(launch.settings.get("ajet.task_reader.type") == "huggingface_dat_repo")


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


def _chats(launch: PlannedLaunch) -> bool:
    return launch.is_bundled or launch.settings.has_tree("actor_rollout_ref")
