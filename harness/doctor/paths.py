"""Files and folders that the blueprint, its command or its config name: they are there and can be used."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.blueprint import names
from harness.blueprint.surroundings import faults_of
from harness.command import BUILTINS, Call
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.settings import local_path
from harness.wording import did_you_mean

_ARE_READ = re.compile(
    r"(?:^|[._])(?:(?:train|val|valid|validation|test|eval|data|dataset|prompt|input)"
    r"[._]?(?:files?|path|file_path|data|dir|root)"
    r"|(?:model|tokenizer|reward_model|adapter|config|reward_function|custom_cls|deepspeed)_?(?:path|file)"
    r"|^(?:data|dataset|input|config|train|val|test)|(?<!markdown_)file_path"
    r"|resume_from_path|resume_from_checkpoint|init_from|data_files)$",
    re.IGNORECASE,
)
_OF_DATA = re.compile(r"train|val|test|eval|data|prompt|input", re.IGNORECASE)
_IS_WRITTEN = re.compile(r"out|save|log|dump|export|cache|result|predict", re.IGNORECASE)
_DATA_FILE = re.compile(r".+\.(?:jsonl?|parquet|csv|tsv|txt|arrow|npy|npz|h5|hdf5|pt|bin)")
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
    named = {text: key for key, text in reversed(list(launch.settings.texts())) if _ARE_READ.search(key)}
    good = 0
    for text, key in reversed(named.items()):
        path = local_path(text, launch.codebase) if _LOOKS_LOCAL.match(text) else None
        if path is None:
            continue
        if not any((folder / path).exists() for folder in _bases(launch)):
            fix = "correct the path, or put the file there; if the training makes it, name the command in "
            fix = _meant(path) or f"{fix}[exp_prepare_command]"
            is_sure = not launch.prepares and _is_needed(launch, key, text)
            make = problem if is_sure else warning
            yield make(f"{key}: {text} does not exist", fix, "path_not_found")
        elif not os.access(path, os.R_OK):
            yield problem(f"{key}: {text} cannot be read", f"run `chmod u+r {path}`", "permission")
        else:
            good += 1
    if good:
        yield fine(f"{good} file(s) and folder(s) that the settings name are there")


def _bases(launch: PlannedLaunch) -> list[Path]:
    """Where a relative path may be looked for."""
    if launch.is_bundled or launch.settings.is_of_verl:
        return [launch.codebase]
    started = [program.call.folder for program in launch.programs]
    scripts = [program.script.parent for program in launch.programs if program.script is not None]
    beside = [launch.config_path.parent] if launch.config_path is not None else []
    return [launch.codebase, *filter(None, started), *scripts, *beside]


def _is_needed(launch: PlannedLaunch, key: str, text: str) -> bool:
    """True if the training surely reads the file; Hydra may start it in a folder of its own."""
    if text.startswith("/") or launch.is_bundled or launch.settings.is_of_verl:
        return True
    is_data = _OF_DATA.search(key) and not _IS_WRITTEN.search(key) and _DATA_FILE.fullmatch(text)
    return bool(is_data) and launch.look.parser != "hydra"


def near(path: Path) -> str:
    """The name beside it that is most like it; "" for none."""
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return did_you_mean(path.name, beside, "{}")


def _meant(path: Path) -> str:
    return f"did you mean {meant}?" if (meant := near(path)) else ""
