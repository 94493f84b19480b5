"""The config: the trainer takes it, the command reads it, nothing in it is left open."""

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness import launching
from harness.blueprint.trainer import Verdict, ask_trainer
from harness.config import NOTHING, edit, flatten
from harness.doctor.asking import NoAnswer
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch

_LARGEST_CONFIG = 1_000_000
_INTERPOLATION = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_VARIABLE = re.compile(r"\$\{(?:oc\.env|oc\.decode:\$\{oc\.env):([A-Za-z_]\w*)\}")


def trainer_takes_it(launch: PlannedLaunch) -> Iterator[Finding]:
    """The bundled trainer's own dry run of the config that would be launched."""
    if not launch.is_bundled or not launch.codebase.is_dir():
        return
    verdict = _ask(launch)
    if verdict.failure:
        if not isinstance(launch.look(), NoAnswer):  # else the interpreter's own finding says it
            fix = "install the trainer there, or name another Python under [exp_venv_exe]"
            yield problem(verdict.failure, fix, "module_not_found")
        return
    for text, fix, severity in verdict.remarks:
        yield (problem if severity == "error" else warning)(text, fix, _family(text))
    if not verdict.remarks:
        yield fine("the trainer's dry run takes the config")


def _family(text: str) -> str:
    """What the trainer's objection would be called as a failure."""
    if re.search(r"does not exist|no such|not found|is not a folder", text):
        return "path_not_found"
    return "batch_divisibility" if re.search(r"divide|multiple of|divisible", text) else "config_error"


def _ask(launch: PlannedLaunch) -> Verdict:
    if not launch.is_drafted or launch.config_text is None:
        return ask_trainer(launch.python, launch.config_path, launch.codebase)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(launch.config_text, encoding="utf-8")
        verdict = ask_trainer(launch.python, config, launch.codebase)
    remarks = tuple(
        (text.replace(str(config), config.name), fix, severity) for text, fix, severity in verdict.remarks
    )
    return replace(verdict, remarks=remarks)


def is_read(launch: PlannedLaunch) -> Iterator[Finding]:
    """The command names the config, so that the attempt's own copy is what it reads."""
    if launch.config_path is not None and not launching.uses_config(launch.plan):
        yield warning(
            f"the launch command does not name {launch.config_path}: it reads its config by itself, and its "
            "outputs are not pointed into the result folder",
            "name the config file in the command, if the training reads it",
        )


def files_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """YAML and JSON files that the command names parse, such as a DeepSpeed config."""
    words = {(call.folder, word.rpartition("=")[2]) for call in launch.calls for word in call.words[1:]}
    files = {
        folder / word
        for folder, word in words
        if folder is not None and word.endswith((".yaml", ".yml", ".json")) and "$" not in word
    }
    for path in sorted(files - {launch.config_path}):
        if path.is_file() and path.stat().st_size <= _LARGEST_CONFIG:
            why = _fault(path.read_text(encoding="utf-8", errors="replace"), path)
            if why:
                text = f"{launch.shown(path)} cannot be parsed: {why}"
                yield warning(text, "correct it there", "config_error")


def _fault(text: str, path: Path) -> str:
    """Why a text is no JSON or YAML; "" when it is. A list is a config, too."""
    try:
        json.loads(text) if path.suffix == ".json" else edit.load(text)
    except edit.ConfigEditError as error:
        return str(error) if error.__cause__ else ""
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def nothing_left_open(launch: PlannedLaunch) -> Iterator[Finding]:
    """No `???`, no reference to a key or a variable that is not there, as OmegaConf would find out later."""
    if not launch.config or launch.is_bundled:
        return
    for key, value in flatten(launch.config).items():
        if not isinstance(value, str) or launch.settings.values.get(key) != value:
            continue  # the command gives another
        if value == "???":
            yield warning(
                f"{key} is ??? and the command does not give it", f"add {key}=VALUE", "config_error"
            )
        for name in _VARIABLE.findall(value):
            if name not in launch.environment:
                fix = f"export {name}, or write ${{oc.env:{name},DEFAULT}}"
                yield warning(f"{key} takes the variable {name}, which is not set", fix, "config_error")
        if "defaults" in launch.config:
            continue  # what it refers to may come from another file
        for target in _INTERPOLATION.findall(value):
            is_there = edit.get(launch.config, target, NOTHING) is not NOTHING
            if not is_there and target not in launch.settings.values and not target.startswith("hydra."):
                text = f"{key} refers to ${{{target}}}, which the config has not"
                yield warning(text, "correct the name, or add the key", "config_error")
