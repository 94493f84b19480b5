"""The training's interpreter and programs: they start, find what they import, and take their arguments."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.command import PythonProgram
from harness.config import edit, flatten
from harness.config.packages import package_of
from harness.config.reader import UnreadableConfigError, text_of
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch, Start
from harness.doctor.settings import BUNDLED, FLASH_ATTENTION
from harness.wording import did_you_mean

_OLDEST_FOR_THE_TRAINER = (3, 11)
_RAISED = {
    "ModuleNotFoundError": "module_not_found",
    "ImportError": "version_skew",
    "FileNotFoundError": "path_not_found",
    "PermissionError": "permission",
    "MemoryError": "host_oom",
}
"""Class of what a program raises → the family of the failure; else `config_error`."""
_MODULE = re.compile(r"No module named '(\w+)")
_HYDRA_KEY = re.compile(r"Could not override '([^'\n]+)'")
_MOST_CONFIGS = 200
_CORRECT = "correct what it names"


def runs(launch: PlannedLaunch) -> Iterator[Finding]:
    """The interpreter of the training starts and is of a usable version."""
    python = launch.python
    if not launch.is_bundled and not launch.programs and not python.exists():
        return  # the command runs no Python that we can see
    is_file = python.is_file()
    if not is_file or not os.access(python, os.X_OK):
        missing = "is no file" if os.path.lexists(python) else "does not exist"
        text = f"the Python {python} {'cannot be executed' if is_file else missing}"
        family = "permission" if is_file else "path_not_found"
        yield problem(text, "name the executable under [exp_venv_exe]", family)
        return
    seen = launch.look
    if seen.failure:
        fix = "make its environment again, or name another"
        yield problem(f"the Python {python} {seen.failure}", fix, "path_not_found")
        return
    shown = f"{python} is Python {'.'.join(map(str, seen.version))}"
    if launch.is_bundled and seen.version[:2] < _OLDEST_FOR_THE_TRAINER:
        yield problem(shown, "the bundled trainer needs 3.11 or newer: name another", "version_skew")
    else:
        yield fine(shown)


def modules(launch: PlannedLaunch) -> Iterator[Finding]:
    """The program's files are valid Python; every module that they, or a setting, ask for is there."""
    seen = launch.look
    for file, line, why in seen.broken:
        text = f"{launch.shown(Path(file))} is no valid Python: line {line}: {why}"
        yield problem(text, "correct it there", "config_error")
    for name, where in seen.missing.items():
        text = f"{where} imports {name}, which {launch.python} does not find"
        yield _missing(launch, text, name, where)
    for where, name, module, there in seen.absent:
        text = f"{where} imports {name} from {module}, which has no such name"
        make = warning if launch.prepares or seen.changes_path else problem
        meant = did_you_mean(name, there, "did you mean {}?")
        yield make(text, meant or "correct the import, or the module", "version_skew")
    is_whole = not (seen.failure or seen.missing or seen.broken or seen.absent)
    if is_whole and (launch.question.scripts or launch.question.modules):
        yield fine("the program's sources parse, and what they import is installed")


def _missing(launch: PlannedLaunch, text: str, module: str, where: str = "") -> Finding:
    """A module that is not there, and its repair: the setting that asks for it, else its package, installed
    where the training runs. A package is named only where it is known: somebody else may have put anything
    under the module's name. `where`: who wants it, where it was only looked for and not imported."""
    package = package_of(module)
    fix = "install the package that brings it; if it is your own code, put its folder on PYTHONPATH"
    if where == BUNDLED:
        fix = (
            f"install its extra: `{launch.python} -m pip install '.[trainer]'` in the checkout of the harness"
        )
    elif package is not None:
        fix = f"install it there: `{launch.python} -m pip install {package}`"
    if launch.prepares or (where and launch.look.changes_path):
        return warning(text, f"{fix}, unless it is put in place before the import", "module_not_found")
    found = problem(text, fix, "module_not_found")
    if where.startswith(FLASH_ATTENTION):
        return found.fixed_by("without_flash_attention")
    is_planned = launch.python == launch.blueprint.venv_exe
    return found.fixed_by("install_package", module=module) if is_planned else found


def starts(launch: PlannedLaunch) -> Iterator[Finding]:
    """The program comes as far as its arguments, and takes them; a Hydra program composes its config."""
    program, start = launch.started, launch.look.start
    if program is None:
        return
    name = program.script.name if program.script else program.module or ""
    is_hydra = launch.look.parser == "hydra"
    surely = warning if launch.prepares else problem
    if start.outcome == "not_contained" and launch.look.parser:
        yield fine(f"{name} was not started: this system cannot keep it from writing (no Landlock)")
    elif start.outcome == "refused":
        yield surely(f"{name}: {start.message}", _meant(program.arguments, start), "config_error")
    elif start.outcome == "raised" and "RuntimeError" not in start.kinds:  # as where it may not write
        yield _raised(launch, name, start)
    elif start.outcome == "ended" and start.status not in (0, ""):
        lines = start.errors.splitlines() if is_hydra else start.errors.splitlines()[-1:]
        said = str(start.status) if isinstance(start.status, str) else " ".join(lines)[:400]
        text = f"{name} ends at its start: {said or f'status {start.status}'}"
        meant = _nearest_of_hydra(program, said) if is_hydra else ""
        if meant:  # Hydra's own advice, to append the key with `+`, only makes one that nobody reads
            text = text.partition("To append")[0].rstrip()
        yield (surely if is_hydra else warning)(text, meant or _CORRECT, "config_error")
    elif is_hydra and (left_open := _left_open(start.printed)):
        text = f"{', '.join(left_open)} is ??? in the config of {name}, and the command does not give it"
        yield warning(text, f"add {left_open[0]}=VALUE", "config_error")
    elif start.outcome in ("read", "ended"):
        yield fine(f"{name} starts and takes its arguments")


def _meant(words: tuple[str, ...], start: Start) -> str:
    """The flag of the program that a word of the command is nearest to."""
    for flag in (word.partition("=")[0] for word in words):
        is_unknown = flag.startswith("--") and flag not in start.flags and flag in start.message
        if is_unknown and (meant := did_you_mean(flag, start.flags, "did you mean {}?")):
            return meant
    return "correct the launch command; `--help` of the program lists its flags"


def _nearest_of_hydra(program: PythonProgram, said: str) -> str:
    """The key of the program's config files that is nearest to one that Hydra refused."""
    refused = _HYDRA_KEY.search(said)
    if refused is None or program.script is None:
        return ""
    key = refused[1].partition("=")[0]
    section, known = key.rpartition(".")[0], _keys_of_configs(program.script.parent)
    beside = [each for each in known if section and each.rpartition(".")[0] == section]
    return did_you_mean(key, known, "did you mean {}?", 0.8) or did_you_mean(
        key, beside or known, "did you mean {}?"
    )


def _keys_of_configs(folder: Path) -> set[str]:
    """The keys of YAML files below the program, also as groups of configs have them."""
    files = [path for pattern in ("*.yaml", "*/*.yaml", "*/*/*.yaml") for path in folder.glob(pattern)]
    keys: set[str] = set()
    for path in files[:_MOST_CONFIGS]:
        with suppress(OSError, UnreadableConfigError):
            own = flatten(edit.load(text_of(path)))
            keys |= {*own, *(f"{path.parent.name}.{key}" for key in own)}
    return keys


def _raised(launch: PlannedLaunch, name: str, start: Start) -> Finding:
    """What a program raises before it has read its arguments."""
    if start.is_of_variables:
        variable = start.message.strip("'\"")
        fix = f"export {variable} before the start (keys of language models need `--pass-key {variable}`)"
        family = "auth" if variable.endswith(("KEY", "TOKEN")) else "config_error"
        return warning(f"{name} reads the variable {variable}, which is not set", fix, family)
    place = f" ({start.where})" if start.where else ""
    text = f"{name} fails at its start{place}: {start.kinds[0]}: {start.message}"
    family = next((_RAISED[kind] for kind in start.kinds if kind in _RAISED), "config_error")
    if family == "module_not_found" and (module := _MODULE.search(start.message)):
        return _missing(launch, text, module[1])
    is_sure = family == "version_skew" and not launch.prepares
    return (problem if is_sure else warning)(text, _CORRECT, family)


def _left_open(printed: str) -> list[str]:
    """Keys that are `???` in the config that a Hydra program composed, but for parts switched off."""
    try:
        values = flatten(edit.load(printed))
    except UnreadableConfigError:
        return []
    switches = (key for key, value in values.items() if re.search(r"\.enabled?$", key) and value is False)
    off = tuple(f"{key.rpartition('.')[0]}." for key in switches)
    return [key for key, value in values.items() if value == "???" and not key.startswith(off)]
