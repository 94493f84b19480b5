"""What only the machine can tell about a blueprint: do its paths exist, does its config parse, does the
trainer take it."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from harness.blueprint import names
from harness.blueprint.trainer import TIMEOUT_S, ask_trainer
from harness.blueprint.types import Blueprint, Problem
from harness.config import edit as config_edit


def check_surroundings(blueprint: Blueprint) -> Blueprint:
    """The same blueprint with the problems of its paths and its config added. Starts no process."""
    if not blueprint.lines:
        return blueprint
    found = [
        *_codebase(blueprint),
        *_interpreter(blueprint),
        *_config(blueprint),
        *_result_dir(blueprint),
        *_host(blueprint),
    ]
    return _with(blueprint, found)


def check_trainer(blueprint: Blueprint, timeout_s: float = TIMEOUT_S) -> Blueprint:
    """The same blueprint with the bundled trainer's objections to the config added.

    Asks the trainer itself, in the blueprint's Python and codebase, and only when it is the trainer that
    will run: the blueprint has no launch command. Does nothing for a blueprint that has errors.
    """
    config = blueprint.yaml_path
    if blueprint.launch_command is not None or not blueprint.can_run:
        return blueprint
    line = blueprint.lines.get(names.YAML, 1)
    if config is not None and "ajet" not in config_edit.load(config.read_text(encoding="utf-8")):
        message = f"{config.name} has no `ajet:` tree, and no command says what else runs it"
        return _with(blueprint, [Problem(line, message, "write the command under [exp_launch_command]")])
    verdict = ask_trainer(blueprint.venv_exe, config, blueprint.codebase_dir, timeout_s)
    found = [Problem(line, text, mend, severity) for text, mend, severity in verdict.remarks]
    if verdict.failure:
        mend = "install this package there, name another Python, or write the training's own command"
        found.append(Problem(blueprint.lines.get(names.VENV, 1), verdict.failure, mend))
    return _with(blueprint, found)


def _with(blueprint: Blueprint, found: list[Problem]) -> Blueprint:
    problems = sorted([*blueprint.problems, *found], key=lambda problem: problem.line)
    return replace(blueprint, problems=tuple(problems))


def _line(blueprint: Blueprint, section: str) -> int:
    return blueprint.lines.get(section, 1)


def _codebase(blueprint: Blueprint) -> list[Problem]:
    folder = blueprint.codebase_dir
    if os.access(folder, os.R_OK | os.X_OK) and folder.is_dir():
        return []
    what = "is not a folder" if os.path.lexists(folder) else "does not exist"
    return [
        Problem(
            _line(blueprint, names.CODEBASE), f"the codebase {folder} {what}", "name the folder with the code"
        )
    ]


def _interpreter(blueprint: Blueprint) -> list[Problem]:
    exe = blueprint.venv_exe
    if exe.is_file() and os.access(exe, os.X_OK):
        return []
    line = _line(blueprint, names.VENV)
    if not os.path.lexists(exe):
        return [Problem(line, f"the Python {exe} does not exist", _other_python(blueprint))]
    what = "is a folder" if exe.is_dir() else "cannot be executed"
    return [Problem(line, f"the Python {exe} {what}", "name the executable, as /path/to/venv/bin/python")]


def _other_python(blueprint: Blueprint) -> str:
    """Where the interpreter that was meant probably is."""
    exe = blueprint.venv_exe
    try:
        relative = exe.relative_to(blueprint.path.parent)
    except ValueError:
        relative = None
    if relative and (blueprint.codebase_dir / relative).exists():
        return f"relative paths start at the blueprint's folder: write {blueprint.codebase_dir / relative}"
    on_path = shutil.which(exe.name)
    return f"write {on_path}, or make the environment first" if on_path else "make the environment first"


def _config(blueprint: Blueprint) -> list[Problem]:
    config = blueprint.yaml_path
    if config is None:
        return []
    line = _line(blueprint, names.YAML)
    if not os.path.lexists(config):
        return [Problem(line, f"the config {config} does not exist", "write it, or NA to have one rendered")]
    try:
        config_edit.load(config.read_text(encoding="utf-8"))
    except OSError as error:
        return [
            Problem(
                line, f"the config {config} cannot be read: {error.strerror}", "name a readable YAML file"
            )
        ]
    except UnicodeDecodeError:
        return [Problem(line, f"the config {config} is no text in UTF-8", "name a YAML file")]
    except config_edit.ConfigEditError as error:
        return [Problem(line, f"the config {config} is no YAML mapping: {error}", "correct it there")]
    return []


def _result_dir(blueprint: Blueprint) -> list[Problem]:
    folder = blueprint.result_dir
    existing = next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent)), Path("/"))
    line = _line(blueprint, names.RESULT)
    if not existing.is_dir():
        return [Problem(line, f"results cannot go to {folder}: {existing} is a file", "name another folder")]
    if not os.access(existing, os.W_OK | os.X_OK):
        return [
            Problem(line, f"results cannot go to {folder}: {existing} is not writable", "name another folder")
        ]
    return []


def _host(blueprint: Blueprint) -> list[Problem]:
    if blueprint.host is None:
        return []
    message = f"this version runs on this machine only, not on {blueprint.host}"
    return [Problem(_line(blueprint, names.HOST), message, "write `local`, or leave the section out")]
