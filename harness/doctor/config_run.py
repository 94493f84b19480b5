"""The config: the trainer takes it, the command reads it, other files that it names parse."""

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness import launching
from harness.blueprint.trainer import Verdict, ask_trainer
from harness.config import edit
from harness.doctor.asking import NoAnswer
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch

_LARGEST_CONFIG = 1_000_000


def trainer_takes_it(launch: PlannedLaunch) -> Iterator[Finding]:
    """The bundled trainer's own dry run of the config that would be launched."""
    if not launch.is_bundled or not launch.codebase.is_dir():
        return
    verdict = _ask(launch)
    if verdict.failure:
        if not isinstance(launch.look, NoAnswer):  # else the interpreter's own finding says it
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
    remarks = (
        (text.replace(str(config), config.name), fix, severity) for text, fix, severity in verdict.remarks
    )
    return replace(verdict, remarks=tuple(remarks))


def is_read(launch: PlannedLaunch) -> Iterator[Finding]:
    """The command names the config, so that the attempt's own copy is what it reads."""
    if launch.config_path is not None and not launching.uses_config(launch.blueprint):
        yield warning(
            f"the launch command does not name {launch.config_path}: it reads its config by itself, and its "
            "outputs are not pointed into the result folder",
            "name the config file in the command, if the training reads it",
        )


def files_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """YAML and JSON files that the command names parse, such as a DeepSpeed config."""
    words = {(call.folder, word.rpartition("=")[2]) for call in launch.calls for word in call.words[1:]}
    named = {folder / word for folder, word in words if folder and word.endswith((".yaml", ".yml", ".json"))}
    for path in sorted(named - {launch.config_path}):
        if not path.is_file() or path.stat().st_size > _LARGEST_CONFIG:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            json.loads(text) if path.suffix == ".json" else edit.load(text)
        except (edit.ConfigEditError, ValueError, RecursionError) as error:
            if isinstance(error, ValueError) or error.__cause__:  # a list is a config, too
                why = f"{launch.shown(path)} cannot be parsed: {error}"
                yield warning(why, "correct it there", "config_error")
