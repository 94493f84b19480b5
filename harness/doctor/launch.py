"""One launch as it is planned: all that the checks look at, read once.

In: the plan of a blueprint (as the journal keeps it), the result folder, the config of the next launch and
the variables that repairs have set. Out: `PlannedLaunch`. What takes time (a look into the interpreter, a
question to the GPUs) is done when first asked for, once.
"""

import re
import shlex
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness import launching
from harness.command import Call, PythonProgram, calls, python_programs
from harness.config import edit, keys
from harness.doctor import asking
from harness.doctor.asking import Look, NoAnswer, Question, Start
from harness.doctor.imports import modules_of_settings
from harness.doctor.settings import Settings, gather
from harness.machine.gpus import GpuError, GpuReading, read_gpus
from harness.options import RunOptions
from monitors.files import AttemptFiles

T = TypeVar("T")

_UNKNOWN_ATTEMPT = AttemptFiles(Path("$HARNESS_ATTEMPT_DIR"))
"""Its folder is known when it is launched; words of the command that name it stay unknown till then."""
_CLUSTER_MODULES = ("verl", "ray", "vllm", "sglang", "deepspeed", "trinity")
_WORKER_FLAGS = ("--nproc-per-node", "--num-processes", "--num-gpus")


class Once(Generic[T]):
    """A value worked out by the first thread that asks; the others wait for it."""

    def __init__(self, work_out: Callable[[], T]) -> None:
        self._work_out = work_out
        self._lock = threading.Lock()
        self._found: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._found:
                self._found.append(self._work_out())
            return self._found[0]


@dataclass(frozen=True)
class PlannedLaunch:
    """What would be launched, where and with what.

    `config_text`: what the training would read, None when there is no config or it cannot be read; `config`:
    the same parsed, {} where it is broken. `is_drafted`: the text differs from the file at `config_path`.
    `given`: the variables of the caller and of repairs; `environment`: with those that the command sets.
    `python`: the interpreter that the training runs in. `starts`: how far each program with a parser of
    arguments comes. `gpus`: none where their driver does not answer.
    """

    plan: Mapping[str, Any]
    result_dir: Path
    codebase: Path
    config_path: Path | None
    config_text: str | None
    config: Mapping[str, Any]
    is_drafted: bool
    calls: tuple[Call, ...]
    programs: tuple[PythonProgram, ...]
    settings: Settings
    environment: Mapping[str, str]
    given: Mapping[str, str]
    python: Path
    question: Question = field(repr=False)
    look: Once[Look | NoAnswer] = field(repr=False)
    starts: Once[tuple[tuple[PythonProgram, Start], ...]] = field(repr=False)
    gpus: Once[GpuReading] = field(repr=False)

    @property
    def is_bundled(self) -> bool:
        """True if the bundled trainer is what runs."""
        return self.plan["launch_command"] is None

    @property
    def prepares(self) -> bool:
        """True if a command of the blueprint's own runs before, and may bring what is missing now."""
        return self.plan.get("prepare_command") is not None

    @property
    def uses_cluster(self) -> bool:
        """True if Ray, vLLM or the like does the work: many processes, many files, GPUs."""
        if self.settings.get("ajet.backbone") in ("verl", "trinity"):
            return True
        named = {program.module.partition(".")[0] for program in self.programs if program.module}
        named |= {call.program for call in self.calls}
        return bool(named & set(_CLUSTER_MODULES)) or self.settings.has_tree("actor_rollout_ref")

    @property
    def gpus_asked(self) -> int:
        """GPUs of this machine that the settings ask for; 0 where they say nothing."""
        if self.is_bundled and not self.uses_cluster:
            return 0
        return self.settings.whole(*spellings("gpus_per_node"), "n_gpus_per_node", "num_gpus") or 0

    @property
    def workers(self) -> int:
        """Processes per machine that a launcher starts; each takes a GPU where there are any."""
        return self.gpus_asked or max((_workers(program) for program in self.programs), default=0)

    def shown(self, path: Path) -> str:
        """A path as people read it: from the codebase where it is inside."""
        return str(path.relative_to(self.codebase)) if path.is_relative_to(self.codebase) else str(path)


def spellings(parameter: str) -> tuple[str, ...]:
    """The keys of a setting in all known trees."""
    return keys.parameter(parameter).spellings


def _workers(program: PythonProgram) -> int:
    """Workers per machine that a launcher starts, where it is given a number."""
    words = list(program.call.words)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, _, value = word.partition("=")
        if name.replace("_", "-") in _WORKER_FLAGS:
            value = value or after
            return int(value) if value.isdigit() else 0
    return 0


def planned(
    plan: Mapping[str, Any],
    result_dir: Path,
    draft: str | None = None,
    repairs: Mapping[str, str] | None = None,
    hidden: frozenset[str] = RunOptions().hidden,
) -> PlannedLaunch:
    """Put together what would be launched. Starts nothing and never raises for what a person wrote."""
    given = launching.environment(plan, _UNKNOWN_ATTEMPT, hidden, repairs)
    codebase = Path(plan["codebase_dir"])
    path = Path(plan["yaml_path"]) if plan["yaml_path"] else None
    text = draft if draft is not None else _read(path)
    found = calls(plan["launch_command"] or "", codebase, given)
    programs = tuple(python_programs(found))
    config = _parsed(text)
    python = _interpreter(Path(plan["venv_exe"]), programs)
    settings = gather(config, _expanded(found))
    asked = asking.question(
        programs, modules_of_settings(settings, programs, bundled=plan["launch_command"] is None)
    )
    environment = programs[-1].call.variables if programs else found[-1].variables if found else given
    look = Once(lambda: asking.look(python, asked, environment, codebase))

    def starts() -> tuple[tuple[PythonProgram, Start], ...]:
        seen = look()
        if isinstance(seen, NoAnswer) or not seen.parser or seen.missing or seen.broken:
            return ()
        # brackets and braces of a value are nearly always meant as they stand: `files=[a,b]`, `'{"a": 1}'`
        sure = [p for p in programs if p.call.certain and not re.search(r"[$`*?]", " ".join(p.arguments))]
        return tuple(
            (each, asking.dry_start(python, each, seen.parser, asked.search, each.call.variables))
            for each in sure[-1:]
        )

    return PlannedLaunch(
        plan=plan,
        result_dir=result_dir,
        codebase=codebase,
        config_path=path,
        config_text=text,
        config=config,
        is_drafted=draft is not None,
        calls=found,
        programs=programs,
        settings=settings,
        environment=environment,
        given=given,
        python=python,
        question=asked,
        look=look,
        starts=Once(starts),
        gpus=Once(_gpus),
    )


def this_machine(folder: Path) -> PlannedLaunch:
    """A launch of nothing, to examine the machine alone."""
    plan = {"codebase_dir": folder, "venv_exe": sys.executable, "yaml_path": None, "launch_command": "true"}
    return planned(plan, folder)


def _parsed(text: str | None) -> Mapping[str, Any]:
    """The mapping in a config text (JSON is YAML, too); {} where there is none, or it is broken."""
    try:
        return edit.load(text or "")
    except edit.ConfigEditError:
        return {}


def _read(path: Path | None) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path is not None else None
    except (OSError, UnicodeDecodeError):
        return None


def _gpus() -> GpuReading:
    try:
        return read_gpus()
    except GpuError:
        return GpuReading()


def _interpreter(planned_python: Path, programs: tuple[PythonProgram, ...]) -> Path:
    """The interpreter of the last Python program; a bare `python` is the plan's."""
    if not programs:
        return planned_python
    call = programs[-1].call
    if call.python is not None and "/" not in call.program:
        return call.python
    is_path = "/" in call.program and Path(call.program).name.startswith("python")
    return (
        call.folder / call.program
        if is_path and call.folder and call.is_known(call.program)
        else planned_python
    )


def _expanded(found: tuple[Call, ...]) -> str:
    """The commands as shell text, known variables put in; words that are not known are left out."""
    lines = ((word for word in call.words if call.is_known(word) or "=" in word) for call in found)
    return "\n".join(map(shlex.join, lines))
