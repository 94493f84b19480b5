"""The model: its files are whole, its tokenizer has a chat template, it can be had without a network."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.settings import spellings

_OTHER_KEYS = """
model_name_or_path model.path model.name_or_path model.model_name_or_path model.pretrained_model_name_or_path
pretrained_model_name_or_path model_path model_name model.name base_model model
"""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,99}(/[A-Za-z0-9][\w.-]{0,99})?")
_LONGEST_NAME = 200
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_LFS_POINTER = b"version https://git-lfs"
_PAGE = (b"<!doctype html", b"<html")


def model_name(launch: PlannedLaunch) -> tuple[str, str]:
    """(key, name) of the model that is trained; empty where the settings name none."""
    for key in (*spellings("model"), *_OTHER_KEYS.split()):
        value = launch.settings.text(key)
        if value and "$" not in value and value != "tiny":
            return key, value
    return "", ""


def is_hub_name(launch: PlannedLaunch, name: str) -> bool:
    """True if a name means a repository of the hub, not a folder."""
    return bool(_HUB_NAME.fullmatch(name)) and not (launch.codebase / name).exists()


def model_folder(launch: PlannedLaunch) -> Path | None:
    """The folder with the model's files on this machine; None where there is none."""
    _, name = model_name(launch)
    if is_hub_name(launch, name):
        return cached_repository(launch.environment, "models", name)
    folder = launch.codebase / Path(name).expanduser()
    return folder if name and folder.is_dir() else None


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Where the hub's files are cached."""
    if given := environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE"):
        return Path(given).expanduser()
    cache = Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(environment.get("HF_HOME") or cache).expanduser() / "hub"


def _repository(environment: Mapping[str, str], kind: str, name: str) -> Path:
    return hub_cache(environment) / f"{kind}--{name.replace('/', '--')}"


def cached_repository(environment: Mapping[str, str], kind: str, name: str) -> Path | None:
    """The newest cached snapshot of a repository (`kind`: models or datasets); None when there is none."""
    found = [each for each in (_repository(environment, kind, name) / "snapshots").glob("*") if each.is_dir()]
    return max(found, key=os.path.getmtime, default=None)


def is_cached(environment: Mapping[str, str], model: str, revision: str) -> bool:
    """True if this revision of a model of the hub can be used without the hub: its config and all parts of
    its weights are cached (links that lead to a file)."""
    if len(model) > _LONGEST_NAME or not _HUB_NAME.fullmatch(model) or not _REVISION.fullmatch(revision):
        return False
    folder = _repository(environment, "models", model)
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    parts = weight_files(snapshot)
    try:
        parts += [snapshot / name for _, names in _indexes(snapshot) for name in names]
    except (ValueError, LookupError, AttributeError):
        return False
    return bool(parts) and all(path.exists() for path in (snapshot / "config.json", *parts))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} where there is none. Raises ValueError for one that is damaged."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def weight_files(folder: Path) -> list[Path]:
    """The model's weight files in its folder."""
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def weights_bytes(launch: PlannedLaunch) -> int:
    """Bytes of the model's weights on disk; 0 where it is not on this machine."""
    folder = model_folder(launch)
    return sum(file.stat().st_size for file in weight_files(folder)) if folder else 0


def _indexes(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(name, the weight files that it lists) of every index. Raises ValueError and others."""
    for index in (*folder.glob("*.safetensors.index.json"), *folder.glob("*.bin.index.json")):
        yield index.name, sorted(set(read_json(index)["weight_map"].values()))


def faults(folder: Path) -> Iterator[tuple[str, str]]:
    """(file name, what is wrong) of every weight file that is damaged or missing."""
    for file in weight_files(folder):
        if why := fault_of_weights(file):
            yield file.name, why
    try:
        for index, names in _indexes(folder):
            for name in names:
                if not (folder / name).exists():
                    yield name, f"is listed in {index} and not there"
    except (ValueError, LookupError, AttributeError) as error:
        yield "*.index.json", f"is damaged: {error}"


def stands_for(file: Path) -> str:
    """What a file is that should hold data or weights and holds neither; "" for none of these."""
    with file.open("rb") as stream:
        start = stream.read(256)
    if start.startswith(_LFS_POINTER):
        return "is a pointer of Git LFS, not the file itself"
    is_page = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_PAGE)
    return "is a web page, such as a login or an error, not the file itself" if is_page else ""


def fault_of_weights(file: Path) -> str:
    """Why a weight file is damaged; empty when its size is what its header says."""
    if why := stands_for(file):
        return why
    with file.open("rb") as stream:
        start = stream.read(64)
    if file.suffix != ".safetensors":
        return "" if start[:2] == b"PK" or start[:1] == b"\x80" else "is no checkpoint of PyTorch"
    try:
        promised = _safetensors_bytes(file)
    except (ValueError, LookupError, TypeError, AttributeError):
        return "was cut off or damaged: its header cannot be read"
    size = file.stat().st_size
    return "" if size == promised else f"was cut off or damaged: {size} bytes, and its header says {promised}"


def _safetensors_bytes(file: Path) -> int:
    """Bytes of a whole .safetensors file by its header: the header's length (8 bytes, little endian), the
    header (JSON), and tensors up to the last of their `data_offsets`. Raises ValueError and others for a
    damaged header."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("no header")
        tensors = json.loads(stream.read(length))
    ends = (tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__")
    return int(8 + length + max(ends, default=0))


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
            config = read_json(folder / name)
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
    folder = model_folder(launch)
    if folder is None:
        return
    bad = list(faults(folder))
    for name, why in bad:
        yield problem(f"{folder / name} {why}", "copy or download that file again", "corrupt_weights")
    weights = weight_files(folder)
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
    wanted = [("models", *model_name(launch))]
    wanted += [("datasets", key, settings.text(key)) for key in keys]
    for kind, key, name in wanted:
        if not is_hub_name(launch, name):
            continue
        if cached_repository(variables, kind, name) is not None:
            yield fine(f"{name} is in the hub's cache")
        elif offline:
            cache = hub_cache(variables)
            text = f"{key}: {name} is not in {cache}, and {offline[0]} forbids to download it"
            fix = f"download it first (`hf download {name}`), or unset {offline[0]}"
            yield problem(text, fix, "hub_offline")


def _named_folder(launch: PlannedLaunch) -> Path | None:
    """The model's folder, where a person named a folder."""
    _, name = model_name(launch)
    return None if is_hub_name(launch, name) else model_folder(launch)
