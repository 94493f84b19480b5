"""One launch as it is planned: all that the checks look at, read once.

In: the plan of a blueprint (as the journal keeps it), the result folder, the config of the next launch and
the variables that repairs have set. Out: `PlannedLaunch`. What takes time (a look into the interpreter, a
question to the GPUs) is done when first asked for, once.
"""

import json
import re
import shlex
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness import launching
from harness.blueprint.types import Blueprint
from harness.command import Call, PythonProgram, calls, python_programs, read_or_empty
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
CLUSTER_MODULES = ("verl", "ray", "vllm", "sglang", "deepspeed", "trinity")


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
    """What would be launched, where and with what."""

    plan: Mapping[str, Any]
    result_dir: Path
    codebase: Path
    config_path: Path | None
    config_text: str | None
    """What the training would read; None when there is no config or it cannot be read."""
    config: Mapping[str, Any]
    """Parsed; {} when there is none or it is broken."""
    is_drafted: bool
    """True if the text differs from the file at `config_path`."""
    calls: tuple[Call, ...]
    programs: tuple[PythonProgram, ...]
    settings: Settings
    environment: Mapping[str, str]
    """The variables of the program: the caller's, those of repairs, those that the command sets."""
    given: Mapping[str, str]
    """The same before the command sets any."""
    python: Path
    """The interpreter that the training runs in."""
    question: Question = field(repr=False)
    look: Once[Look | NoAnswer] = field(repr=False)
    starts: Once[tuple[tuple[PythonProgram, Start], ...]] = field(repr=False)
    """How far each program with a parser of arguments comes."""
    gpus: Once[GpuReading] = field(repr=False)
    """() where there are none, or their driver does not answer."""

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
        return bool(named & set(CLUSTER_MODULES)) or self.settings.has_tree("actor_rollout_ref")

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

    @property
    def blueprint(self) -> Blueprint:
        """The plan as the rooms of the blueprint know it."""
        return Blueprint.from_json(self.plan)

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
        if name.replace("_", "-") in ("--nproc-per-node", "--num-processes", "--num-gpus"):
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
    environment = launching.environment(plan, _UNKNOWN_ATTEMPT, hidden, repairs)
    codebase = Path(plan["codebase_dir"])
    path = Path(plan["yaml_path"]) if plan["yaml_path"] else None
    text = draft if draft is not None else _read(path)
    command = plan["launch_command"] or ""
    found = calls(command, codebase, environment)
    programs = tuple(python_programs(found))
    config = parse(text, path)
    python = _interpreter(Path(plan["venv_exe"]), programs)
    settings = gather(config, read_or_empty(_expanded(found)).settings)
    bundled = plan["launch_command"] is None
    asked = asking.question(programs, modules_of_settings(settings, programs, bundled))
    variables = programs[-1].call.variables if programs else found[-1].variables if found else environment
    look = Once(lambda: asking.look(python, asked, variables, codebase))

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

    def gpus() -> GpuReading:
        try:
            return read_gpus()
        except GpuError:
            return GpuReading()

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
        environment=variables,
        given=environment,
        python=python,
        question=asked,
        look=look,
        starts=Once(starts),
        gpus=Once(gpus),
    )


def this_machine(folder: Path) -> PlannedLaunch:
    """A launch of nothing, to examine the machine alone."""
    plan = {
        "name": "",
        "path": str(folder),
        "codebase_dir": str(folder),
        "venv_exe": sys.executable,
        "yaml_path": None,
        "launch_command": "true",
    }
    return planned(plan, folder)


def parse(text: str | None, path: Path | None) -> Mapping[str, Any]:
    """The mapping in a config text; {} where there is none, or it is broken."""
    try:
        if path is not None and path.suffix == ".json":
            found = json.loads(text or "{}")
            return found if isinstance(found, dict) else {}
        return edit.load(text or "")
    except (edit.ConfigEditError, ValueError, RecursionError):
        return {}


def _read(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _interpreter(planned_python: Path, programs: tuple[PythonProgram, ...]) -> Path:
    """The interpreter of the last Python program; a bare `python` is the plan's."""
    if not programs:
        return planned_python
    call = programs[-1].call
    word = call.program
    if call.python is not None and "/" not in word:
        return call.python
    if "/" in word and Path(word).name.startswith("python") and call.folder and call.is_known(word):
        return call.folder / word
    return planned_python


def _expanded(found: tuple[Call, ...]) -> str:
    """The commands as shell text, known variables put in; words that are not known are left out."""
    texts = (
        shlex.join([word for word in call.words if call.is_known(word) or "=" in word]) for call in found
    )
    return "\n".join(texts)
