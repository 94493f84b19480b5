"""Files and folders that the blueprint, its command or its config name: they are there and can be used."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.blueprint import names
from harness.blueprint.surroundings import faults_of
from harness.command import BUILTINS, Call, read_or_empty
from harness.command.launch_command import bare
from harness.config import edit, flatten
from harness.config.reader import UnreadableConfigError
from harness.doctor.configs import named_files
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.model import stands_for
from harness.doctor.settings import Settings, local_path, similar
from harness.wording import did_you_mean

_ARE_READ = re.compile(
    r"(?:^|[._])(?:(?:train|val|valid|validation|test|eval|data|dataset|prompt|input)"
    r"[._]?(?:files?|path|file_path|data|dir|root|csv|jsonl?|parquet)"
    r"|(?:model|tokenizer|reward_model|adapter|config|reward_function|custom_cls|deepspeed)_?(?:path|file)"
    r"|^(?:data|dataset|corpus|csv|input|config|train|val|test)|(?<!markdown_)file_path"
    r"|resume_from_path|resume_from_checkpoint|init_from|data_files)$",
    re.IGNORECASE,
)
_OF_DATA = re.compile(r"train|val|test|eval|data|prompt|input|corpus|csv", re.IGNORECASE)
_IS_WRITTEN = re.compile(r"out|save|log|dump|export|cache|result|predict", re.IGNORECASE)
_DATA_FILE = re.compile(r".+\.(?:jsonl?|parquet|csv|tsv|txt|arrow|npy|npz|h5|hdf5|pt|bin)")
_OF_WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".h5", ".keras", ".onnx", ".gguf", ".npz")
_LOOKS_LOCAL = re.compile(
    r"(?:/|~/|\./|\.\./)\S|\S+\.(?:jsonl?|parquet|csv|tsv|txt|arrow|ya?ml|py|pt|pth|bin|safetensors)$"
)


def surroundings(launch: PlannedLaunch) -> Iterator[Finding]:
    """What the blueprint names is there and can be used, as `harness check` sees it. The interpreter of the
    training may be another than the blueprint's, and has a check of its own."""
    blueprint, config = launch.blueprint, launch.config_path
    families = {
        names.CODEBASE: "permission" if blueprint.codebase_dir.is_dir() else "path_not_found",
        names.YAML: "config_error" if config and config.is_file() else "path_not_found",
        names.RESULT: "permission",
    }
    if launch.is_drafted:
        del families[names.YAML]  # the author's own is not read any more
    if (launch.result_dir / "journal.jsonl").exists():
        del families[names.RESULT]  # of a run that has begun, which is held while nothing can be written
    faults = faults_of(replace(blueprint, result_dir=launch.result_dir))
    found = [problem(text, fix, families[section]) for section, text, fix in faults if section in families]
    yield from found or [fine("the codebase, the config and the result folder can be used")]


def programs(launch: PlannedLaunch) -> Iterator[Finding]:
    """The programs and scripts that the command starts exist and can be executed."""
    make = warning if launch.prepares else problem
    certain = (call for call in launch.calls if call.certain and call.is_known(call.program))
    found = [finding for call in certain for finding in _program(launch, call)]
    for program in launch.programs:
        script = program.script
        if script is not None and program.call.certain and not script.is_file():
            fix = _meant(script) or "correct the path; it is seen from the codebase"
            found.append(make(f"the script {launch.shown(script)} does not exist", fix, "path_not_found"))
    yield from found
    if launch.calls and not found and not launch.is_bundled:
        yield fine("the programs of the command are there")


def _program(launch: PlannedLaunch, call: Call) -> Iterator[Finding]:
    word = call.program
    path = call.folder / word if call.folder is not None else launch.python
    shown = launch.shown(path)
    if word in BUILTINS or word.endswith(".py"):
        return
    if "/" not in word:
        searched = call.variables.get("PATH", "")
        if call.is_known(searched) and shutil.which(word, path=searched) is None:
            make = warning if launch.prepares else problem
            yield make(
                f"the program {word} is not on PATH", f"install {word}, or write its path", "path_not_found"
            )
    elif path == launch.python:
        return
    elif not path.exists():
        yield problem(f"the program {shown} does not exist", "correct its path", "path_not_found")
    elif path.is_file() and not os.access(path, os.X_OK):
        fix = f"run `chmod +x {path}`, or start it by `bash`"
        yield problem(f"{shown} cannot be executed", fix, "permission")


def inputs(launch: PlannedLaunch) -> Iterator[Finding]:
    """Files and folders that the settings say are read exist and can be read. A relative path of a foreign
    program is looked for where it is started, and beside its script and its config."""
    named: dict[str, tuple[str, Path | None]] = {}
    for file, settings in _sources(launch):
        for key, text in settings.texts():
            if _ARE_READ.search(key) and _LOOKS_LOCAL.match(text):
                named.setdefault(text, (key, file))
    good = 0
    for text, (key, file) in named.items():
        path = local_path(text, launch.codebase)
        if path is None:
            continue
        if not any((folder / path).exists() for folder in _bases(launch, file)):
            yield _missing(launch, key, text, file)
        elif not os.access(path, os.R_OK):
            yield problem(f"{key}: {text} cannot be read", f"run `chmod u+r {path}`", "permission")
        elif why := next(filter(None, (_stands_for(folder / path) for folder in _bases(launch, file))), ""):
            fix = "run `git lfs pull` there" if "LFS" in why else "download it again, logged in where needed"
            family = "corrupt_weights" if path.suffix in _OF_WEIGHTS else "dataset_error"
            yield (warning if launch.prepares else problem)(f"{key}: {text} {why}", fix, family)
        else:
            good += 1
    if good:
        yield fine(f"{good} file(s) and folder(s) that the settings name are there")


def _stands_for(path: Path) -> str:
    """What a file that is to hold data or weights is instead; "" where it may be what it should be."""
    is_text = path.suffix in (".html", ".htm", ".xml", ".txt", ".md", "")
    return "" if is_text or not path.is_file() else stands_for(path)


def _sources(launch: PlannedLaunch) -> Iterator[tuple[Path | None, Settings]]:
    """What the launch is given, and each other YAML file that the command names, with where it stands."""
    yield None, launch.settings
    for path, text in named_files(launch.calls).items():
        if path.suffix in (".yaml", ".yml") and path != launch.config_path:
            with suppress(UnreadableConfigError):  # the check of other configs says so
                yield path, Settings(flatten(edit.load(text)))


def _missing(launch: PlannedLaunch, key: str, text: str, file: Path | None) -> Finding:
    """A path that leads to nothing. Where one file is like it, the exact edit, which is the author's to make:
    `correct_path` holds it where it is one of the launch's own settings."""
    is_sure = not launch.prepares and _is_needed(launch, key, text)
    make, said = problem if is_sure else warning, f"{key}: {text} does not exist"
    meant = similar(text, launch.codebase)
    if not meant:
        fix = "correct the path, or put the file there; if the training makes it, name the command in "
        near_it = _meant(launch.codebase / Path(text).expanduser())
        return make(said, near_it or f"{fix}[exp_prepare_command]", "path_not_found")
    where = f"{launch.shown(file)}: {key}" if file else _place(launch, key)
    found = make(
        said, f"one file is like it, so correct {where} {text} → {meant}, if you mean it", "path_not_found"
    )
    is_ours = file is None and launch.settings.get(key) == text
    return found.fixed_by("correct_path", key=key, old=text, new=meant) if is_ours else found


def _place(launch: PlannedLaunch, key: str) -> str:
    """Where one of the launch's settings stands, and its name there."""
    config, given = launch.config_path, read_or_empty(launch.blueprint.launch_command or "").setting_of(key)
    if config is None or given is not None:
        return f"the launch command: {bare(given.name) if given else key}"
    return f"{config.name}: {key}"


def _bases(launch: PlannedLaunch, file: Path | None) -> list[Path]:
    """Where a relative path may be looked for. `file`: the one that names it, if any."""
    if launch.is_bundled or launch.settings.is_of_verl:
        return [launch.codebase]
    started = [program.call.folder for program in launch.programs]
    scripts = [program.script.parent for program in launch.programs if program.script is not None]
    beside = [each.parent for each in (launch.config_path, file) if each is not None]
    return [launch.codebase, *filter(None, started), *scripts, *beside]


def _is_needed(launch: PlannedLaunch, key: str, text: str) -> bool:
    """True if the training surely reads the file; Hydra may start it in a folder of its own."""
    if text.startswith("/") or launch.is_bundled or launch.settings.is_of_verl:
        return True
    is_data = _OF_DATA.search(key) and not _IS_WRITTEN.search(key) and _DATA_FILE.fullmatch(text)
    return bool(is_data) and launch.look.parser != "hydra"


def _meant(path: Path) -> str:
    """The name beside it that is most like it, as a question; "" for none."""
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return did_you_mean(path.name, beside, "did you mean {}?")
