"""The config: it parses, the trainer takes it, the command reads it, nothing in it is left open."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.blueprint.trainer import Verdict, ask_trainer
from harness.config import edit as config_edit
from harness.config.values import flatten
from harness.doctor.interpreter_probe import ProbeError
from harness.doctor.launch import PlannedLaunch, uses_config
from harness.doctor.script_data import literal_files
from harness.doctor.settings import overrides
from harness.doctor.types import Finding, fine, problem, warning

_NUMBER_TO_PYYAML_A_WORD = re.compile(r"[-+]?\d+[eE][-+]?\d+|[-+]?\d+\.\d*[eE]\d+")
_LARGEST_CONFIG = 1_000_000
_INTERPOLATION = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_VARIABLE = re.compile(r"\$\{(?:oc\.env|oc\.decode:\$\{oc\.env):([A-Za-z_]\w*)\}")


def parses(launch: PlannedLaunch) -> Iterator[Finding]:
    """The config is a mapping, in YAML or JSON, without a key written twice."""
    path = launch.config_path
    if path is None:
        return
    if launch.config_text is None:
        yield problem(
            f"the config {path} cannot be read",
            "name a readable text file under [exp_yaml_path]",
            "path_not_found",
        )
        return
    why = _fault(launch.config_text, path)
    if why:
        mend = "correct it there (indentation is spaces, each key is written once)"
        yield problem(f"the config {path.name} cannot be parsed: {why}", mend, "config_error")
    else:
        yield fine(f"the config {path.name} parses")


def _fault(text: str, path: Path) -> str:
    """Why a config text is no mapping; empty when it is one."""
    try:
        if path.suffix == ".json":
            found = json.loads(text, object_pairs_hook=_once)
            return "" if isinstance(found, dict) else "it is no JSON object"
        config_edit.load(text)
    except (config_edit.ConfigEditError, ValueError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def trainer_takes_it(launch: PlannedLaunch) -> Iterator[Finding]:
    """The bundled trainer's own dry run of the config that would be launched."""
    if not launch.is_bundled or not launch.codebase.is_dir():
        return
    verdict = _ask(launch)
    if verdict.failure:
        if not isinstance(launch.probe(), ProbeError):  # else the interpreter's own finding says it
            mend = "install the trainer there, or name another Python under [exp_venv_exe]"
            yield problem(verdict.failure, mend, "module_not_found")
        return
    for text, mend, severity in verdict.remarks:
        yield (problem if severity == "error" else warning)(text, mend, _family(text))
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
        (text.replace(str(config), "config.yaml"), mend, severity) for text, mend, severity in verdict.remarks
    )
    return replace(verdict, remarks=remarks)


def is_read(launch: PlannedLaunch) -> Iterator[Finding]:
    """The command names the config, so that the attempt's own copy is what it reads."""
    if launch.config_path is not None and not uses_config(launch):
        yield warning(
            f"the launch command does not name {launch.config_path}: it reads its config by itself, and its "
            "outputs are not pointed into the result folder",
            "name the config file in the command, if the training reads it",
        )


def other_files_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """YAML and JSON files that the command or the program's source name parse, such as a DeepSpeed config."""
    for path in sorted(_other_files(launch)):
        if path == launch.config_path or not path.is_file() or path.stat().st_size > _LARGEST_CONFIG:
            continue
        why = _fault(path.read_text(encoding="utf-8", errors="replace"), path)
        if why and "this is a" not in why and "no JSON object" not in why:  # a list is a config, too
            yield warning(f"{launch.shown(path)} cannot be parsed: {why}", "correct it there", "config_error")


def _other_files(launch: PlannedLaunch) -> set[Path]:
    """Config files named by words of the command and by literals of the source."""
    words = [(call.folder, word.rpartition("=")[2]) for call in launch.calls for word in call.words[1:]]
    words += [
        (launch.codebase, text) for tree in launch.wanted().trees.values() for _, text in literal_files(tree)
    ]
    return {
        folder / word
        for folder, word in words
        if folder is not None and word.endswith((".yaml", ".yml", ".json")) and "$" not in word
    }


def nothing_left_open(launch: PlannedLaunch) -> Iterator[Finding]:
    """No `???`, no reference to a key or a variable that is not there, as OmegaConf would find out later."""
    if not launch.config or launch.is_bundled:
        return
    values = flatten(launch.config)
    given = {item.key for item in overrides(word for call in launch.calls for word in call.words)}
    for key, value in values.items():
        if not isinstance(value, str) or key in given:
            continue
        if value == "???":
            yield warning(
                f"{key} is ??? and the command does not give it", f"add {key}=VALUE", "config_error"
            )
        for name in _VARIABLE.findall(value):
            if name not in launch.environment:
                mend = f"export {name}, or write ${{oc.env:{name},DEFAULT}}"
                yield warning(f"{key} takes the variable {name}, which is not set", mend, "config_error")
        if "defaults" in launch.config:
            continue  # what it refers to may come from another file
        for target in _INTERPOLATION.findall(value):
            if (
                target not in given
                and not _is_there(launch.config, target)
                and not target.startswith("hydra.")
            ):
                mend = "correct the name, or add the key"
                yield warning(
                    f"{key} refers to ${{{target}}}, which the config has not", mend, "config_error"
                )


def _is_there(config: Mapping[str, Any], target: str) -> bool:
    nowhere = object()
    return config_edit.get(config, target, nowhere) is not nowhere


def numbers_are_numbers(launch: PlannedLaunch) -> Iterator[Finding]:
    """`1e-6` is a word to PyYAML; a program that reads its config with it compares text with numbers."""
    readers = [
        launch.shown(file)
        for file, tree in launch.wanted().trees.items()
        if any(name in _modules_of(tree) for name in ("yaml",)) and not _modules_of(tree) & _OTHER_READERS
    ]
    if (
        not readers
        or launch.config_text is None
        or (launch.config_path and launch.config_path.suffix == ".json")
    ):
        return
    for number, line in enumerate(launch.config_text.splitlines(), start=1):
        match = re.fullmatch(r"\s*([\w.]+)\s*:\s*(\S+?)\s*(?:#.*)?", line)
        if match and _NUMBER_TO_PYYAML_A_WORD.fullmatch(match[2]):
            name = launch.config_path.name if launch.config_path else "config"
            yield warning(
                f"{name}:{number}: {readers[0]} reads {match[1]}: {match[2]} with PyYAML, as text",
                f"write {_with_a_point(match[2])}",
                "config_error",
            )


_OTHER_READERS = frozenset(("omegaconf", "hydra", "ruamel", "transformers", "trl"))


def _modules_of(tree: Any) -> set[str]:
    import ast

    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _with_a_point(word: str) -> str:
    """The same number as PyYAML reads one: with a point, and a sign behind the `e`."""
    mantissa, _, exponent = word.lower().partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{exponent if exponent[0] in '+-' else '+' + exponent}"
