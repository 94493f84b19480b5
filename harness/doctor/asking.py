"""The experiment's own interpreter is asked: what it has, and how far its program comes.

In: the interpreter and the programs of a launch. Out: a `Look`, and a `Start`: the program is started with
its own words and ends once it has read them (`dry_start`), a Hydra program prints its config and ends
(`--cfg job`).
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.command import PythonProgram

LIMIT_S = 20.0
_HYDRA_MODULES = ("verl.trainer.main_ppo", "recipe.dapo.main_dapo")
_MARK = "harness-doctor:"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """`search`: folders that the programs put first on their path. `modules`: name → who wants it."""

    scripts: tuple[str, ...]
    modules: Mapping[str, str]
    search: tuple[str, ...]
    is_hydra: bool = False


@dataclass(frozen=True)
class Look:
    """What the interpreter answered. `missing`: module → who wants it. `broken`: (file, line, why) of sources
    that are no Python to it. `changes_path`: the sources change `sys.path` themselves. `parser`: what reads
    the arguments, or "". `failure`: why there is no answer, "" where there is one."""

    version: tuple[int, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[tuple[str, int | None, str], ...] = ()
    changes_path: bool = False
    parser: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Start:
    """How far a program came: `read` its arguments, `refused` them, `raised`, `ended`, `stopped` before
    anything could be known, or was not started because the system cannot keep it from writing
    (`not_contained`). `printed`: its output; `kinds`: the classes of what it raised."""

    outcome: str = "stopped"
    message: str = ""
    printed: str = ""
    errors: str = ""
    kinds: tuple[str, ...] = ()
    where: str = ""
    status: int | str = 0
    flags: tuple[str, ...] = field(default=(), repr=False)
    is_of_variables: bool = False


def question(programs: tuple[PythonProgram, ...], more: Mapping[str, str]) -> Question:
    """What is asked of the programs that are certain to be started; `more`: modules that settings ask for."""
    certain = [program for program in programs if program.call.certain]
    scripts = [program.script for program in certain if program.script is not None]
    named = {program.module: program.call.folder for program in certain if program.module is not None}
    folders = [*(script.parent for script in scripts), *filter(None, named.values())]
    return Question(
        tuple(map(str, scripts)),
        {**dict.fromkeys(named, "the launch command"), **more},
        tuple(dict.fromkeys(map(str, folders))),
        any(module in _HYDRA_MODULES for module in named),
    )


def look(python: Path, asked: Question, environment: Mapping[str, str], cwd: Path) -> Look:
    """Start the interpreter and ask it. Never raises."""
    done = _run(python, "look.py", json.dumps(asdict(asked)), environment, cwd)
    if isinstance(done, str):
        return Look(failure=done)
    answer = _marked(done.stdout)
    if done.returncode != 0 or answer is None:
        last = (done.stderr.strip().splitlines() or ["it is no Python, or says nothing"])[-1]
        return Look(failure=f"ends with status {done.returncode}: {last[:300]}")
    return TypeAdapter(Look).validate_python(answer)


def dry_start(
    python: Path, program: PythonProgram, parser: str, search: tuple[str, ...], environment: Mapping[str, str]
) -> Start:
    """Start the program until it has read its arguments. Takes as long as its imports. Never raises."""
    asked = {
        "script": str(program.script) if program.script else "",
        "module": program.module or "",
        "arguments": program.arguments,
        "parser": parser,
        "search": search,
    }
    variables = {**environment, "HARNESS_DRY_START": json.dumps(asked), "PYTHONDONTWRITEBYTECODE": "1"}
    done = _run(python, "dry_start.py", "", variables, program.call.folder or Path.cwd())
    answer = None if isinstance(done, str) else _marked(done.stdout)
    if answer is None or isinstance(done, str):
        return Start()
    answer |= {"printed": done.stdout.rpartition(_MARK)[0].strip(), "errors": done.stderr.strip()}
    return TypeAdapter(Start).validate_python(answer)


def _run(
    python: Path, program: str, text: str, environment: Mapping[str, str], cwd: Path
) -> "subprocess.CompletedProcess[str] | str":
    """What the program of that name printed in the interpreter, or why it could not."""
    try:
        return subprocess.run(
            [str(python), "-c", (_HERE / program).read_text(encoding="utf-8")],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
            cwd=cwd if cwd.is_dir() else None,
            env=dict(environment),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {LIMIT_S:g} s"
    except OSError as error:
        return f"does not start: {error.strerror}"


def _marked(printed: str) -> dict[str, Any] | None:
    lines = [line for line in printed.splitlines() if line.startswith(_MARK)]
    return json.loads(lines[-1].removeprefix(_MARK)) if lines else None
