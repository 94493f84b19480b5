"""Keys that a program's source takes from its config are there.

In: the parsed sources and the config. Out: findings. Only `config["a"]["b"]` on the one variable that a YAML
or JSON file is loaded into is judged, and only keys that the source neither sets nor looks for.
"""

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from harness.config import edit as config_edit
from harness.config.values import flatten
from harness.doctor.launch import PlannedLaunch, uses_config
from harness.doctor.types import Finding, fine, warning

_LOADERS = ("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "json.loads")


def are_there(launch: PlannedLaunch) -> Iterator[Finding]:
    """Every key path that the source reads leads somewhere in the config."""
    if not launch.config or launch.is_bundled or not uses_config(launch):
        return
    for file, tree in launch.wanted().trees.items():
        names = _loaded_into(tree)
        if len(names) != 1:
            continue
        read = list(_read(tree, names[0]))
        missing = {key: line for key, line in read if not _is_there(launch.config, key)}
        for key, line in missing.items():
            close = difflib.get_close_matches(key, flatten(launch.config), 1)
            mend = f"did you mean {close[0]}?" if close else "add it to the config, or correct the name"
            yield warning(
                f"{launch.shown(file)}:{line} reads {key}, which the config has not", mend, "config_error"
            )
        if read and not missing:
            yield fine(f"the config has the {len(read)} key(s) that {launch.shown(file)} reads")


def _loaded_into(tree: ast.Module) -> list[str]:
    """Names of variables that a config file is loaded into."""
    return [
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value.func) in _LOADERS
    ]


def _read(tree: ast.Module, name: str) -> Iterator[tuple[str, int]]:
    """(dotted key, line) of the longest chains of literal subscripts on `name` that are only read."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    looked_for = {
        node.left.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant)
    }
    stored = {
        key
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        for key in [_chain(node, name)]
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or id(node) in inner or not isinstance(node.ctx, ast.Load):
            continue
        key = _chain(node, name)
        if key and key not in stored and not looked_for & set(key.split(".")):
            yield key, node.lineno


def _chain(node: ast.expr, name: str) -> str:
    """The dotted key of `name["a"]["b"]`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Subscript):
        if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str):
            return ""
        parts.insert(0, node.slice.value)
        node = node.value
    return (
        ".".join(parts)
        if isinstance(node, ast.Name) and node.id == name and "." not in "".join(parts)
        else ""
    )


def _is_there(config: Mapping[str, Any], key: str) -> bool:
    nowhere = object()
    return config_edit.get(config, key, nowhere) is not nowhere
