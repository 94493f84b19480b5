"""What only the machine can say about a blueprint: do its paths exist, does its config parse, does the
trainer take it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.blueprint import names
from harness.blueprint.types import Blueprint, Problem, Severity
from harness.config import edit as config_edit
from harness.config.reader import UnreadableConfigError, text_of

TIMEOUT_S = 60.0

_MODULE = "trainer_core.cli"
_FROM_ELSEWHERE = (
    "import os, runpy, sys; sys.path[:1] = filter(None, sys.path[:1]); os.chdir(sys.argv.pop(1)); "
    f"runpy.run_module({_MODULE!r}, run_name='__main__', alter_sys=True)"
)
"""Starts the trainer where there is nothing to import; it finds a config's relative paths all the same."""
_Found = tuple[str, str, str]
"""(section, message, how to fix it)"""


# --- the bundled trainer, asked as a program: the harness never imports it ----------------------------------


@dataclass(frozen=True)
class Verdict:
    """The trainer's answer."""

    remarks: tuple[tuple[str, str, Severity], ...] = ()
    """(message with file and key, how to fix it, severity) of everything it noted."""
    failure: str = ""
    """Why there is no answer; empty when there is one."""
    about_data: bool = False
    """The config is right, and the data it names is not there or not right (yet)."""


def ask_trainer(python: Path, config: Path | None, cwd: Path) -> Verdict:
    """The verdict of the trainer that `python` finds from the directory `cwd`; without a config, whether
    it is there.

    Takes about a second and trains nothing, but runs code of the directory: its packages come first.
    """
    return _verdict([str(python), "-m", _MODULE], config, cwd)


def ask_own_trainer(config: Path, codebase: Path) -> Verdict:
    """The verdict of the trainer that is installed beside the harness; no code of the codebase is run."""
    if not codebase.is_dir():
        return Verdict(failure=f"the codebase {codebase} is not a folder")
    with tempfile.TemporaryDirectory() as empty:
        program = [sys.executable, "-c", _FROM_ELSEWHERE, str(codebase)]
        return _verdict(program, config, Path(empty))


def explain_keys() -> list[dict[str, Any]]:
    """Every key of the trainer that is installed beside the harness, as it explains them itself. Raises
    SubprocessError, OSError, ValueError."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-m", _MODULE, "--explain", "*", "--json"]
        done = _run(command, Path(empty))
    done.check_returncode()
    return list(json.loads(done.stdout))


def _run(command: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=cwd,
        start_new_session=True,  # Ctrl-C is for the harness, which decides what becomes of the answer
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )


def _verdict(program: list[str], config: Path | None, cwd: Path) -> Verdict:
    arguments = ["--conf", str(config), "--dry-run", "--json"] if config else ["--help"]
    try:
        done = _run([*program, *arguments], cwd)
    except subprocess.TimeoutExpired:
        return Verdict(failure=f"the trainer of {program[0]} did not answer within {TIMEOUT_S:g} s")
    except OSError as error:
        return Verdict(failure=f"{program[0]} does not start: {error.strerror}")
    if config is None and done.returncode == 0:
        return Verdict()
    try:
        answer = json.loads(done.stdout)
        severity: Severity = "warning" if answer["ok"] else "error"
        noted = answer["warnings"] if answer["ok"] else answer["problems"]
        remarks = tuple((*_sentence(remark), severity) for remark in noted)
        return Verdict(remarks, about_data=answer.get("stage") == "data")
    except (ValueError, TypeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Verdict(failure=f"{program[0]} cannot run the bundled trainer: {last}")


def _sentence(remark: dict[str, Any]) -> tuple[str, str]:
    what = " ".join(filter(None, (remark.get("key"), remark["message"]))).rstrip(".")
    where = remark.get("where")
    return (f"{where}: {what}" if where else what), remark.get("fix") or "correct the config"


# --- paths and config ---------------------------------------------------------------------------------------


def check_surroundings(blueprint: Blueprint) -> Blueprint:
    """The same blueprint with the problems of its paths and its config added. Starts no process."""
    found = faults_of(blueprint) if blueprint.lines else ()
    return _with(
        blueprint,
        [Problem(blueprint.lines.get(section, 1), message, fix) for section, message, fix in found],
    )


def faults_of(blueprint: Blueprint) -> Iterator[_Found]:
    """(section, what is wrong, how to fix it) of its paths and its config."""
    for check in (_names, _codebase, _interpreter, _config, _result_dir, _host):
        yield from check(blueprint)


def check_trainer(blueprint: Blueprint, ask: Callable[..., Verdict] = ask_trainer) -> Blueprint:
    """The same blueprint with the bundled trainer's objections to the config added.

    Asks the trainer itself, in the blueprint's Python and codebase, and only when it is the trainer that
    will run: the blueprint has no launch command. Does nothing for a blueprint that has errors.
    """
    config = blueprint.yaml_path
    if blueprint.launch_command is not None or not blueprint.can_run:
        return blueprint
    line = blueprint.lines.get(names.YAML, 1)
    if config is not None and "ajet" not in config_edit.load(text_of(config)):
        message = f"{config.name} has no `ajet:` tree, and no command says what else runs it"
        return _with(blueprint, [Problem(line, message, "write the command under [exp_launch_command]")])
    verdict = ask(blueprint.venv_exe, config, blueprint.codebase_dir)
    made_later = verdict.about_data and blueprint.prepare_command is not None
    found = [
        Problem(line, text, fix, "warning" if made_later else severity)
        for text, fix, severity in verdict.remarks
    ]
    if verdict.failure:
        fix = "install this package there, name another Python, or write the training's own command"
        found.append(Problem(blueprint.lines.get(names.VENV, 1), verdict.failure, fix))
    return _with(blueprint, found)


def _with(blueprint: Blueprint, found: list[Problem]) -> Blueprint:
    problems = sorted([*blueprint.problems, *found], key=lambda problem: problem.line)
    return replace(blueprint, problems=tuple(problems))


def _names(blueprint: Blueprint) -> Iterator[_Found]:
    for section, folder in ((names.CODEBASE, blueprint.codebase_dir), (names.RESULT, blueprint.result_dir)):
        if re.search(r"[\x00-\x1f\x7f-\x9f]", str(folder)):
            message = f"the path {str(folder)!r} has a line break or another control character in it"
            yield section, message, "rename that folder"
            return


def _codebase(blueprint: Blueprint) -> Iterator[_Found]:
    folder = blueprint.codebase_dir
    if not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        what = "is not a folder" if os.path.lexists(folder) else "does not exist"
        yield names.CODEBASE, f"the codebase {folder} {what}", "name the folder with the code"


def _interpreter(blueprint: Blueprint) -> Iterator[_Found]:
    exe = blueprint.venv_exe
    if not os.path.lexists(exe):
        yield names.VENV, f"the Python {exe} does not exist", _other_python(blueprint)
    elif not (exe.is_file() and os.access(exe, os.X_OK)):
        what = "is a folder" if exe.is_dir() else "cannot be executed"
        yield names.VENV, f"the Python {exe} {what}", "name the executable, as /path/to/venv/bin/python"


def _other_python(blueprint: Blueprint) -> str:
    """Where the interpreter that was meant probably is."""
    exe, folder = blueprint.venv_exe, blueprint.path.parent
    if exe.is_relative_to(folder) and (there := blueprint.codebase_dir / exe.relative_to(folder)).exists():
        return f"relative paths start at the blueprint's folder: write {there}"
    on_path = shutil.which(exe.name)
    return f"write {on_path}, or make the environment first" if on_path else "make the environment first"


def _config(blueprint: Blueprint) -> Iterator[_Found]:
    config = blueprint.yaml_path
    if config is None:
        return
    what, fix = "", "name a readable YAML file"
    try:
        config_edit.load(text_of(config))
    except FileNotFoundError:
        what = "does not exist, beside the blueprint or in the codebase"
        fix = "write it, or NA to have one rendered"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    except UnreadableConfigError as error:
        what = f"is {error}"
        fix = "correct it there, or leave it out here: the command reads it all the same"
    if what:
        yield names.YAML, f"the config {config} {what}", fix


def _result_dir(blueprint: Blueprint) -> Iterator[_Found]:
    folder = blueprint.result_dir
    existing = next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent)), Path("/"))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        why = "is not writable" if existing.is_dir() else "is a file"
        yield names.RESULT, f"results cannot go to {folder}: {existing} {why}", "name another folder"


def _host(blueprint: Blueprint) -> Iterator[_Found]:
    if blueprint.host is not None:
        message = f"this version runs on this machine only, not on {blueprint.host}"
        yield names.HOST, message, "write `local`, or leave the section out"
