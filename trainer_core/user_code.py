"""Code of the user's that a config names: `package.module->Name` or `path/to/file.py->Name`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from trainer_core.types import TrainingError


def load_named(protocol: str, key: str, what: Literal["class", "function"] = "class") -> Any:
    """The class or function that `protocol` names; `key` is where it stands in the config, `what` is for
    messages.

    Raises:
        TrainingError: the module or the name is not there, or importing it fails.
    """
    where, arrow, name = (part.strip() for part in protocol.partition("->"))
    if not arrow or not where or not name:
        raise TrainingError(
            f"{key}: {protocol!r} is not of the form `package.module->{what}` or `file.py->{what}`"
        )
    module = _import(where, key)
    if not hasattr(module, name):
        is_such = inspect.isclass if what == "class" else inspect.isfunction
        known = ", ".join(each for each, value in vars(module).items() if is_such(value))
        raise TrainingError(f"{key}: {where} has no {what} {name!r}; it has {known or 'none'}")
    return getattr(module, name)


def _import(where: str, key: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            if (here := str(Path.cwd())) not in sys.path:
                sys.path.insert(0, here)  # as `python -m` would, so that a module beside the data is found
            return importlib.import_module(where)
        path = Path(where)
        name = f"file_{path.stem}"  # not the name of a library's module
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise TrainingError(f"{key}: there is no file {path.absolute()}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where dataclasses look for the names in their annotations
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        raise TrainingError(
            f"{key}: cannot import {where!r} ({error}). It must lie on PYTHONPATH or in the folder "
            "the training starts in"
        ) from error
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(f"{key}: {where} raised {type(error).__name__}: {error}") from error
