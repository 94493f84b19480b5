"""Hydra command lines: every override names a key that the composed config has.

In: the calls of the command. Out: findings. The config is found as Hydra finds it (`@hydra.main` of the
program, `--config-path`, `--config-name`, verl's own), and its defaults list is followed; nothing is run.
"""

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.command import PythonProgram
from harness.config import edit as config_edit
from harness.config.values import flatten
from harness.doctor.interpreter_probe import ProbeError
from harness.doctor.launch import PlannedLaunch
from harness.doctor.settings import overrides
from harness.doctor.types import Finding, fine, problem, warning

_OF_VERL = ("trainer/config/_generated_ppo_trainer.yaml", "trainer/config/ppo_trainer.yaml")
_CLOSE = 0.8


@dataclass
class Composed:
    """Dotted keys of a config with its defaults, and their values. `whole`: all parts were found."""

    keys: dict[str, Any] = field(default_factory=dict)
    whole: bool = True

    @property
    def mandatory(self) -> list[str]:
        """Keys that are `???`, those of parts that are switched off left out."""
        return [key for key, value in self.keys.items() if value == "???" and not self._is_off(key)]

    def _is_off(self, key: str) -> bool:
        parts = key.split(".")
        above = [".".join(parts[:length]) for length in range(1, len(parts))]
        return any(
            self.keys.get(f"{tree}.{word}") is False for tree in above for word in ("enable", "enabled")
        )


def overrides_are_known(launch: PlannedLaunch) -> Iterator[Finding]:
    """Overrides without `+` change a key that exists."""
    for program in launch.programs:
        given = overrides(program.arguments)
        source = _config_file(launch, program)
        if source is None:
            continue
        if not source.is_file():
            yield problem(
                f"the Hydra config {source} does not exist",
                "correct --config-path or --config-name",
                "config_error",
            )
            continue
        composed = Composed()
        _compose(source, source.parent, "", composed, 0)
        unknown = [item for item in given if not item.mark and not _knows(composed, item.key)]
        for item in unknown:
            yield from _told(item.key, composed, source)
        set_keys = {item.key for item in given}
        is_own = launch.codebase in source.parents  # a library's config leaves parts open that are not used
        for key in composed.mandatory if is_own else ():
            if key not in set_keys:
                yield warning(
                    f"{key} is ??? in {source.name} and the command does not give it",
                    f"add {key}=VALUE",
                    "config_error",
                )
        if given and not unknown:
            yield fine(f"all {len(given)} overrides name keys of {source.name}")


def _told(key: str, composed: Composed, source: Path) -> Iterator[Finding]:
    close = difflib.get_close_matches(key, composed.keys, 1, _CLOSE)
    if not close and not composed.whole:
        return
    text = f"the override {key}=… names no key of {source.name}"
    mend = f"did you mean {close[0]}?" if close else f"write +{key}=… if it is to be added"
    make = problem if composed.whole else warning
    yield make(text, mend, "config_error")


def _knows(composed: Composed, key: str) -> bool:
    if "/" in key or "@" in key or key.split(".")[0] == "hydra":
        return True  # the choice of a group, or of Hydra itself
    return any(known == key or known.startswith(f"{key}.") for known in composed.keys)


def _config_file(launch: PlannedLaunch, program: PythonProgram) -> Path | None:
    """The primary config of a Hydra program, None where it is no such program or cannot be told."""
    named = _flag(program, "--config-name", "-cn")
    folder = _flag(program, "--config-path", "-cp") or _flag(program, "--config-dir", "-cd")
    declared, script = _declared(launch, program)
    if declared is None and not named:
        return _of_verl(launch, program)
    base = script.parent if script else program.call.folder
    where = folder or (declared or {}).get("config_path")
    name = named or (declared or {}).get("config_name")
    if base is None or not isinstance(where, str) or not isinstance(name, str) or "$" in where + name:
        return None
    return base / where / (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")


def _of_verl(launch: PlannedLaunch, program: PythonProgram) -> Path | None:
    if program.module not in ("verl.trainer.main_ppo", "recipe.dapo.main_dapo"):
        return None
    probe = launch.probe()
    folder = None if isinstance(probe, ProbeError) else probe.folders.get("verl")
    files = [folder / name for name in _OF_VERL] if folder else []
    return next((file for file in files if file.is_file()), None)


def _flag(program: PythonProgram, *names: str) -> str | None:
    for position, word in enumerate(program.arguments):
        name, _, value = word.partition("=")
        if name in names:
            return value or next(iter(program.arguments[position + 1 :]), None)
    return None


def _declared(launch: PlannedLaunch, program: PythonProgram) -> tuple[dict[str, Any] | None, Path | None]:
    """The literal arguments of `@hydra.main` in the program, and the file they are in."""
    trees = launch.wanted().trees
    files = [program.script] if program.script else []
    if program.module and program.call.folder:
        files.append(program.call.folder.joinpath(*program.module.split(".")).with_suffix(".py"))
    for file in files:
        for node in ast.walk(trees[file]) if file in trees else ():
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in ("hydra.main", "main"):
                    return {
                        word.arg: word.value.value
                        for word in decorator.keywords
                        if word.arg and isinstance(word.value, ast.Constant)
                    }, file
    return None, None


def _compose(file: Path, root: Path, package: str, composed: Composed, depth: int) -> None:
    """Add the keys of one file and of everything in its defaults list."""
    try:
        text = file.read_text(encoding="utf-8")
        data = config_edit.load(text)
    except (OSError, UnicodeDecodeError, config_edit.ConfigEditError):
        composed.whole = False
        return
    if "# @package _global_" in text[:500]:
        package = ""
    elif "# @package" in text[:500]:
        composed.whole = False
    before = f"{package}." if package else ""
    composed.keys.update(flatten({key: value for key, value in data.items() if key != "defaults"}, before))
    listed = data.get("defaults")
    for item in listed if isinstance(listed, list) else ():
        _compose_default(item, file, root, package, composed, depth)


def _compose_default(item: Any, file: Path, root: Path, package: str, composed: Composed, depth: int) -> None:
    """One entry of a defaults list: `name`, `group: option`, `group@package: option`."""
    if item == "_self_":
        return
    if isinstance(item, str):
        group, option = "", item
        group, _, option = option.rpartition("/")
    elif isinstance(item, Mapping) and len(item) == 1:
        group, option = (str(part) for part in next(iter(item.items())))
    else:
        composed.whole = False
        return
    group, _, place = group.removeprefix("override ").removeprefix("optional ").partition("@")
    if option in ("None", "null") or group.startswith("hydra"):
        return
    target = {"_here_": package, "_global_": ""}.get(place, place or group.strip("/").replace("/", "."))
    if place not in ("_here_", "_global_") and package:
        target = f"{package}.{target}" if target else package
    folder = root / group.strip("/") if group.startswith("/") or file.parent == root else file.parent / group
    path = folder / (option if option.endswith(".yaml") else f"{option}.yaml")
    if depth > 8 or not path.is_file():
        composed.whole = False
        return
    _compose(path, root, target, composed, depth + 1)
