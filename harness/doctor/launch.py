"""One launch as it is planned: all that the checks look at, read once.

In: the plan of a blueprint (as the journal keeps it), the result folder, the config of the next launch and
the variables that repairs have set. Out: `PlannedLaunch`. What takes time (a look into the interpreter, a
question to the GPUs) is done when first asked for, once.
"""

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness import launching
from harness.command import Call, PythonProgram, calls, python_programs
from harness.config import edit as config_edit
from harness.doctor.interpreter_probe import Probe, ProbeError, look_into
from harness.doctor.nvidia import GpuState, ask_gpus
from harness.doctor.settings import Settings, gather
from harness.doctor.sources import Wanted, wanted_modules
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
    """Whether the text differs from the file at `config_path`."""
    calls: tuple[Call, ...]
    programs: tuple[PythonProgram, ...]
    settings: Settings
    environment: Mapping[str, str]
    """The variables of the program: the caller's, those of repairs, those that the command sets."""
    given: Mapping[str, str]
    """The same before the command sets any."""
    python: Path
    """The interpreter that the training runs in."""
    wanted: Once[Wanted] = field(repr=False)
    probe: Once["Probe | ProbeError"] = field(repr=False)
    gpus: Once[GpuState | None] = field(repr=False)

    @property
    def is_bundled(self) -> bool:
        """Whether the bundled trainer is what runs."""
        return self.plan["launch_command"] is None

    @property
    def prepares(self) -> bool:
        """Whether a command of the blueprint's own runs before, and may mend what is missing now."""
        return self.plan.get("prepare_command") is not None

    @property
    def uses_cluster(self) -> bool:
        """Whether Ray, vLLM or the like does the work: many processes, many files, GPUs."""
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
        return (
            self.settings.whole(
                "trainer.n_gpus_per_node",
                "ajet.trainer_common.n_gpus_per_node",
                "n_gpus_per_node",
                "num_gpus",
            )
            or 0
        )

    @property
    def workers(self) -> int:
        """Processes per machine that a launcher starts; each takes a GPU where there are any."""
        return self.gpus_asked or max((_workers(program) for program in self.programs), default=0)

    def shown(self, path: Path) -> str:
        """A path as people read it: from the codebase where it is inside."""
        try:
            return str(path.relative_to(self.codebase))
        except ValueError:
            return str(path)


def _workers(program: PythonProgram) -> int:
    """Workers per machine that a launcher starts, where it is told a number."""
    words = list(program.call.words)
    for position, word in enumerate(words):
        name, _, value = word.partition("=")
        if name.replace("_", "-") in ("--nproc-per-node", "--num-processes", "--num-gpus"):
            value = value or (words[position + 1] if position + 1 < len(words) else "")
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
    found = calls(plan["launch_command"] or "", codebase, environment)
    programs = tuple(python_programs(found))
    config = parse(text, path)
    arguments = [word for call in found for word in call.words[1:] if call.is_known(word) or "=" in word]
    python = _interpreter(Path(plan["venv_exe"]), programs)
    bundled = plan["launch_command"] is None
    settings = gather(config, arguments)
    wanted = Once(lambda: wanted_modules(programs, settings, bundled))

    variables = programs[-1].call.variables if programs else found[-1].variables if found else environment

    def look() -> "Probe | ProbeError":
        return look_into(python, wanted(), variables, codebase)

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
        wanted=wanted,
        probe=Once(look),
        gpus=Once(lambda: ask_gpus(variables)),
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
    """The mapping in a config text; {} where there is none."""
    if text is None:
        return {}
    try:
        if path is not None and path.suffix == ".json":
            found = json.loads(text)
            return found if isinstance(found, dict) else {}
        return config_edit.load(text)
    except (config_edit.ConfigEditError, ValueError, RecursionError):
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


def uses_config(launch: PlannedLaunch) -> bool:
    """Whether the attempt's copy of the config is what the command reads."""
    return launching.uses_config(launch.plan)
