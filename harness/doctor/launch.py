"""One launch as it is planned: all that the checks look at, read once.

In: a blueprint, the result folder, the config of the next launch and the variables that repairs have set.
Out: `PlannedLaunch`; a look into the interpreter and a question to the GPUs take time, and are made once,
when first asked for.
"""

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from harness import environment, launching
from harness.blueprint.types import Blueprint
from harness.command import Call, PythonProgram, calls, python_programs, values_of
from harness.config import flatten
from harness.config.reader import UnreadableConfigError, text_of
from harness.config.training import TrainingConfig
from harness.doctor.settings import Settings, modules_of, spellings
from harness.installation import own_text
from harness.machine.gpus import GpuError, GpuState, read_gpus
from harness.options import RunOptions
from monitors.files import AttemptFiles

LIMIT_S = 20.0
_MARK = "harness-doctor:"
_PROBE = Path(__file__).with_name("probe.py")
_UNKNOWN_ATTEMPT = AttemptFiles(Path("$HARNESS_ATTEMPT_DIR"))
"""Its folder is known when it is launched; words of the command that name it stay unknown till then."""
_HYDRA_MODULES = ("verl.trainer.main_ppo", "recipe.dapo.main_dapo")
_CLUSTER_MODULES = ("verl", "ray", "vllm", "sglang", "deepspeed", "trinity")
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """`search`: folders that the programs put first on their path. `modules`: name → who wants it. `program`:
    what is started: its script or else its module, and its words."""

    scripts: tuple[str, ...]
    modules: Mapping[str, str]
    search: tuple[str, ...]
    is_hydra: bool
    program: tuple[str, str, tuple[str, ...]] | None


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


@dataclass(frozen=True)
class Look:
    """What the interpreter answered. `missing`: module → who wants it. `broken`: (file, line, why) of sources
    that are no Python to it. `absent`: (place, name, module, names there are) of names that sources import
    from local modules which do not have them. `changes_path`: the sources change `sys.path` themselves.
    `parser`: what reads the arguments, or "". `failure`: why there is no answer, "" where there is one."""

    version: tuple[int, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[tuple[str, int | None, str], ...] = ()
    absent: tuple[tuple[str, str, str, tuple[str, ...]], ...] = ()
    changes_path: bool = False
    parser: str = ""
    failure: str = ""
    start: Start = Start()


def ask(python: Path, asked: Question, environment: Mapping[str, str], cwd: Path) -> Look:
    """Start the interpreter and ask it. Takes as long as the imports of the program. Never raises."""
    try:
        done = subprocess.run(
            [str(python), "-c", own_text(_PROBE)],
            input=json.dumps(asdict(asked)).encode(),
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            cwd=cwd if cwd.is_dir() else None,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        output, errors, why = done.stdout, done.stderr, f"ends with status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output, errors, why = error.stdout or b"", b"", f"did not answer within {LIMIT_S:g} s"
    except OSError as error:
        return Look(failure=f"does not start: {error.strerror}")
    said = errors.decode(errors="replace").strip()
    answers = output.decode(errors="replace").split(f"\n{_MARK}")[1:]
    if not answers:
        return Look(failure=f"{why}: {(said.splitlines() or ['it says nothing'])[-1][:300]}")
    answer, _, printed = answers[0].partition("\n")
    found = json.loads(answer)
    if len(answers) > 1:
        found["start"] = {**json.loads(answers[-1]), "printed": printed.strip(), "errors": said}
    return TypeAdapter(Look).validate_python(found)


# --- the launch ---------------------------------------------------------------------------------------------


class Once(cached_property[T]):
    """A property worked out by the first thread that asks; the others wait for it."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        super().__init__(work_out)
        self._working = threading.RLock()

    def __get__(self, instance: object, owner: type[Any] | None = None) -> T:  # type: ignore[override]
        with self._working:
            return super().__get__(instance, owner)


@dataclass(frozen=True)
class PlannedLaunch:
    """What would be launched, where and with what.

    `given`: the variables of the caller and of repairs. `config_text`: what the training would read, None
    when there is no config or it cannot be read; `config`: the mapping in it (JSON is YAML, too), {} where it
    is broken. `is_drafted`: it differs from the file at `config_path`. `calls`: what the command starts, and
    `programs` the Python programs among them. `settings`: all that config and command set; known variables
    are put in, words that are not known left out. `moved`: where a source lies in a private copy of the code
    that is launched instead; it is read there, and not started.
    """

    blueprint: Blueprint
    result_dir: Path
    given: Mapping[str, str]
    config_text: str | None
    is_drafted: bool
    config: Mapping[str, Any]
    calls: tuple[Call, ...]
    programs: tuple[PythonProgram, ...]
    settings: Settings
    moved: Callable[[str], str | None] | None = None

    @property
    def codebase(self) -> Path:
        """The working directory."""
        return self.blueprint.codebase_dir

    @property
    def config_path(self) -> Path | None:
        """The config that the blueprint names."""
        return self.blueprint.yaml_path

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the program: those given, and those that the command sets."""
        last = [*self.calls[-1:], *(program.call for program in self.programs[-1:])]
        return last[-1].variables if last else self.given

    @property
    def python(self) -> Path:
        """The interpreter of the last Python program; a bare `python` is the plan's."""
        planned_python = self.blueprint.venv_exe
        if not self.programs:
            return planned_python
        call = self.programs[-1].call
        if "/" not in call.program:
            return call.python or planned_python
        path = call.path(call.program)
        return path if path is not None and path.name.startswith("python") else planned_python

    @property
    def started(self) -> PythonProgram | None:
        """The last program that is started with these very words. Brackets and braces of a value are nearly
        always meant as they stand: `files=[a,b]`, `'{"a": 1}'`."""
        certain = [each for each in self.programs if each.call.certain]
        sure = [each for each in certain if not re.search(r"[$`*?]", " ".join(each.arguments))]
        return sure[-1] if sure else None

    @Once
    def question(self) -> Question:
        """What its interpreter is asked of the programs that are certain to be started."""
        certain = [program for program in self.programs if program.call.certain]
        scripts = [program.script for program in certain if program.script is not None]
        named = {program.module: program.call.folder for program in certain if program.module is not None}
        folders = [*(script.parent for script in scripts), *filter(None, named.values())]
        wanted = modules_of(self.settings, self.programs, self.is_bundled)
        started = self.started
        words = (str(started.script or ""), started.module or "", started.arguments) if started else None
        return Question(
            scripts=tuple(map(self._place, scripts)),
            modules={**dict.fromkeys(named, "the launch command"), **wanted},
            search=tuple(dict.fromkeys(map(self._place, folders))),
            is_hydra=any(module in _HYDRA_MODULES for module in named),
            program=words if self.moved is None else None,
        )

    def _place(self, path: Path) -> str:
        """Where a source is read."""
        return (self.moved(str(path)) if self.moved else None) or str(path)

    @Once
    def look(self) -> Look:
        """What its interpreter answers."""
        call = self.started.call if self.started else None
        variables, folder = (call.variables, call.folder) if call else (self.environment, None)
        return ask(self.python, self.question, variables, folder or self.codebase)

    @Once
    def gpus(self) -> tuple[GpuState, ...]:
        """The GPUs of this machine; none where their driver does not answer."""
        try:
            return read_gpus().gpus
        except GpuError:
            return ()

    @property
    def is_bundled(self) -> bool:
        """True if the bundled trainer is what runs."""
        return self.blueprint.launch_command is None

    @property
    def prepares(self) -> bool:
        """True if a command of the blueprint's own runs before, and may bring what is missing now."""
        return self.blueprint.prepare_command is not None

    @property
    def uses_cluster(self) -> bool:
        """True if Ray, vLLM or the like does the work: many processes, many files, GPUs."""
        if self.settings.get("ajet.backbone") in ("verl", "trinity"):
            return True
        named = {program.module.partition(".")[0] for program in self.programs if program.module}
        named |= {call.program for call in self.calls}
        return bool(named & set(_CLUSTER_MODULES)) or self.settings.is_of_verl

    @property
    def gpus_asked(self) -> int:
        """GPUs of this machine that the settings ask for; 0 where they say nothing."""
        on_cpu = self.settings.get("ajet.trainer_common.device") == "cpu"
        if self.is_bundled and (on_cpu or not self.uses_cluster):
            return 0
        return self.settings.whole(*spellings("gpus_per_node"), "n_gpus_per_node", "num_gpus") or 0

    @property
    def workers(self) -> int:
        """Processes per machine that a launcher starts; each takes a GPU where there are any."""
        has_launcher = any(program.launcher != "python" for program in self.programs)
        started = self.settings.whole("nproc_per_node", "num_processes") if has_launcher else None
        return self.gpus_asked or started or 0

    def shown(self, path: Path) -> str:
        """A path as people read it: from the codebase where it is inside."""
        return str(path.relative_to(self.codebase)) if path.is_relative_to(self.codebase) else str(path)


def planned(
    blueprint: Blueprint,
    result_dir: Path,
    draft: str | None = None,
    repairs: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    moved: Callable[[str], str | None] | None = None,
) -> PlannedLaunch:
    """Put together what would be launched. Starts nothing and never raises for what a person wrote."""
    if variables is None:
        variables = environment.of_training(None, RunOptions().hidden)
    given = launching.environment(blueprint, _UNKNOWN_ATTEMPT, variables, repairs)
    text = draft
    if draft is None and blueprint.yaml_path is not None:
        with suppress(OSError, UnreadableConfigError):
            text = text_of(blueprint.yaml_path)
    config = TrainingConfig.of_text(text or "").data
    started = calls(blueprint.launch_command or "", blueprint.codebase_dir, given)
    known = ((word for word in call.words if call.is_known(word) or "=" in word) for call in started)
    settings = Settings(flatten(config) | values_of("\n".join(map(shlex.join, known))))
    programs = tuple(python_programs(started))
    return PlannedLaunch(
        blueprint, result_dir, given, text, draft is not None, config, started, programs, settings, moved
    )


def this_machine(folder: Path) -> PlannedLaunch:
    """A launch of nothing, to examine the machine alone."""
    python = Path(sys.executable)
    nothing = Blueprint(folder, "", "", folder, python, None, "true", folder, 0.0, 0.0, notes="")
    return planned(nothing, folder)
