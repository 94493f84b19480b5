"""What a training's own source files ask for before they do anything: modules and variables.

In: the Python programs of a command. Out: `Wanted`. Files are parsed, never run. Only statements that are
certain to run are believed: top level, not inside `try`, `if` or a function.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.command import PythonProgram
from harness.doctor.settings import Settings

TRAINER_MODULES = ("numpy", "pydantic", "ruamel.yaml", "safetensors", "tokenizers", "torch", "transformers")
"""What the bundled trainer imports in every training."""
_FOR_A_LOGGER = {"swanlab": "swanlab", "wandb": "wandb", "tensorboard": "tensorboard"}
_FOR_A_BACKBONE = {"verl": ("verl", "ray", "vllm"), "trinity": ("trinity", "ray", "vllm")}
_TRACKERS = ("wandb", "swanlab", "mlflow")
FLASH_ATTENTION = "attn_implementation"
"""The setting that asks for a kernel of its own package."""
_FOR_A_SETTING: tuple[tuple[str, Any, str], ...] = (
    ("actor_rollout_ref.rollout.name", "vllm", "vllm"),
    ("actor_rollout_ref.rollout.name", "sglang", "sglang"),
    (FLASH_ATTENTION, "flash_attention_2", "flash_attn"),
    ("use_vllm", True, "vllm"),
    ("use_peft", True, "peft"),
    ("load_in_4bit", True, "bitsandbytes"),
    ("load_in_8bit", True, "bitsandbytes"),
    *((key, name, name) for key in ("trainer.logger", "report_to") for name in _TRACKERS),
)
"""(key, value, module): with this value of this key the module is imported."""
_GIVEN = (
    r"environ\[['\"]{name}['\"]\]\s*=|['\"]{name}['\"] (?:not )?in os\.environ"
    r"|environ\.setdefault\(['\"]{name}"
)
"""Source that gives or tests a variable itself."""
_MOST_FILES = 60
_MOST_BYTES = 1_000_000


@dataclass
class Wanted:
    """`modules`: top-level module → where it is asked for (`file:line`). `search`: folders that the program
    puts first on its path. `changes_path`: the sources change `sys.path` themselves. `variables`: environment
    variables read without a default → where. `unreadable`: (file, why) of sources that are no Python.
    `trees`: the parsed files.
    """

    modules: dict[str, str] = field(default_factory=dict)
    search: list[Path] = field(default_factory=list)
    changes_path: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    trees: dict[Path, ast.Module] = field(default_factory=dict)


def wanted_modules(programs: tuple[PythonProgram, ...], settings: Settings, bundled: bool) -> Wanted:
    """Read the programs and the local files they import."""
    wanted = Wanted()
    if bundled:
        _of_trainer(wanted, settings)
    for program in programs:
        if not program.call.certain:
            continue
        if program.script is not None:
            wanted.search.append(program.script.parent)
            _read(program.script, wanted)
        elif program.module is not None:
            if program.call.folder is not None:
                wanted.search.append(program.call.folder)
            _module(program.module, "the launch command", wanted)
        if program.launcher in ("torchrun", "accelerate", "deepspeed"):
            wanted.modules.setdefault(
                {"torchrun": "torch"}.get(program.launcher, program.launcher), "the command"
            )
    if programs and all(program.call.certain for program in programs):
        _of_settings(wanted, settings)
    return wanted


def _of_settings(wanted: Wanted, settings: Settings) -> None:
    """What verl, TRL and transformers import because a setting says so: late, and often in a worker."""
    if settings.has_tree("actor_rollout_ref"):
        wanted.modules.setdefault("ray", "verl")
    for key, value, module in _FOR_A_SETTING:
        given = settings.get(key)
        if value in given if isinstance(given, list) else value == given:
            wanted.modules.setdefault(module, f"{key}: {value}")


def _of_trainer(wanted: Wanted, settings: Settings) -> None:
    """What the bundled trainer needs for this config."""
    where = "the bundled trainer"
    wanted.modules.update(dict.fromkeys(TRAINER_MODULES, where))
    logger = settings.get("ajet.trainer_common.logger")
    if logger in _FOR_A_LOGGER:
        wanted.modules[_FOR_A_LOGGER[logger]] = f"ajet.trainer_common.logger: {logger}"
    backbone = settings.get("ajet.backbone")
    for module in _FOR_A_BACKBONE.get(backbone, ()):
        wanted.modules[module] = f"ajet.backbone: {backbone}"
    if settings.get("ajet.task_reader.type") == "huggingface_dat_repo":
        wanted.modules["datasets"] = "ajet.task_reader.type: huggingface_dat_repo"


def _read(file: Path, wanted: Wanted) -> None:
    """Note what one file asks for, and go on with the local files it imports."""
    if file in wanted.trees or len(wanted.trees) >= _MOST_FILES:
        return
    try:
        if file.stat().st_size > _MOST_BYTES:
            return
        tree = ast.parse(file.read_bytes(), str(file))
    except OSError:
        return
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        wanted.unreadable.append(
            (file, f"line {line}: {getattr(error, 'msg', error)}" if line else str(error))
        )
        return
    wanted.trees[file] = tree
    text = ast.unparse(tree)
    wanted.changes_path |= bool(
        re.search(r"sys\.path\.(?:insert|append|extend)|sys\.path\s*[+\[=]|addsitedir", text)
    )
    for statement in tree.body:
        for name in _imported(statement):
            _module(name, f"{file.name}:{statement.lineno}", wanted)
        for name, line in _variables(statement):
            if not re.search(_GIVEN.format(name=re.escape(name)), text):
                wanted.variables.setdefault(name, f"{file.name}:{line}")


def _module(name: str, where: str, wanted: Wanted) -> None:
    """Follow a module that is a local file, note any other."""
    top = name.partition(".")[0]
    if not top or top in sys.stdlib_module_names:
        return
    for folder in wanted.search:
        if (folder / f"{top}.py").is_file() or any((folder / top).glob("*.py")):
            for file in _files(folder, name):
                _read(file, wanted)
            return
    wanted.modules.setdefault(top, where)


def _files(folder: Path, name: str) -> Iterator[Path]:
    """The files that importing a dotted local module runs."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        base = folder.joinpath(*parts[:length])
        for file in (base / "__init__.py", base.with_suffix(".py")):
            if file.is_file():
                yield file
    main = folder.joinpath(*parts) / "__main__.py"
    if main.is_file():
        yield main


def _imported(statement: ast.stmt) -> Iterator[str]:
    """Absolute modules that a top-level statement imports."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
        yield statement.module


def _variables(statement: ast.stmt) -> Iterator[tuple[str, int]]:
    """Variables that a top-level statement takes by `os.environ["X"]`."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)):
        return
    for node in ast.walk(statement):
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(name, str) and ast.unparse(node.value) in ("os.environ", "environ"):
            yield name, node.lineno
