"""Says which objects a Python program unpickles that can run code of whoever wrote the pickle.

Python imports this at its start where PYTHONPATH names this folder. Each object is a line on the descriptor
that `HARNESS_SAYS_ON` names, or on standard error. Data are passed over: arrays, tensors, collections,
numbers, models of the usual libraries, classes of the program itself. Standard library only.
"""

import contextlib
import importlib
import os
import re
import sys

_SAYS = "harness: unpickled "
_DATA = re.compile(
    r"(?:builtins|__builtin__)\.(?:(?:frozen)?set|list|dict|tuple|int|float|complex|bool|str|bytes|bytearray|slice"
    r"|x?range|object)|collections\.(?:OrderedDict|defaultdict|Counter|deque)|_codecs\.encode"
    r"|copy_?reg\.(?:_reconstructor|__newobj__)"
)
_LIBRARY = re.compile(
    r"numpy|numpy\._?core\..*|numpy\.(?:random|ma|matrixlib)(?:\..*)?|scipy\.sparse\..*|pandas\.(?:core|_libs)\..*"
    r"|torch|torch\.(?:nn|optim)\..*|torch\.(?:storage|_utils|_tensor)|jax\._src\..*|joblib\.numpy_pickle"
    r"|xgboost\.(?:core|sklearn)|lightgbm\.(?:basic|sklearn)|catboost\.core|datetime|decimal|fractions|pathlib"
    r"|transformers\.(?:models\..*|configuration_utils|trainer_utils|tokenization_.*)"
    r"|sklearn\.(?:linear_model|ensemble|tree|svm|neighbors|naive_bayes|neural_network|cluster|decomposition"
    r"|preprocessing|pipeline|compose|impute|feature_\w+|gaussian_process|_loss|calibration|mixture)\b.*"
)
"""Modules of which classes, and functions of these names, hold data."""
_MAKER = re.compile(
    r"_rebuild_\w+|__pyx_unpickle_\w+|_(?:ma)?reconstruct|scalar|_frombuffer|__\w+_ctor|_new_Index|_unpickle_block"
)


def _is_data(module: str, name: str) -> bool:
    if _DATA.fullmatch(f"{module}.{name}"):
        return True
    is_of_library = bool(_LIBRARY.fullmatch(module))
    if is_of_library and _MAKER.fullmatch(name):
        return True
    return "." not in name and (is_of_library or _is_own(module)) and _is_class(module, name)


def _is_own(module: str) -> bool:
    """True for a module of the program: `__main__`, or one below the working directory."""
    if module == "__main__":
        return True
    file = getattr(sys.modules.get(module) or importlib.import_module(module), "__file__", None) or ""
    return os.path.realpath(file).startswith(os.path.realpath(os.getcwd()) + os.sep)  # noqa: PTH109


def _is_class(module: str, name: str) -> bool:
    found = sys.modules.get(module) or importlib.import_module(module)
    return isinstance(getattr(found, name, None), type)


def _watch(event: str, given: tuple[object, ...]) -> None:
    if event != "pickle.find_class":
        return
    module, name = map(str, given[:2])
    try:
        is_data = _is_data(module, name)
    except Exception:  # noqa: BLE001, what cannot be looked up is no known data
        is_data = False
    if not is_data:
        line = f"{_SAYS}{module}.{name}\n".encode(errors="replace")
        try:
            os.write(int(os.environ.get("HARNESS_SAYS_ON", "2")), line)
        except (OSError, ValueError):
            os.write(2, line)


def _hand_over() -> None:
    """To the `sitecustomize` that Python would have found without this one."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != here]  # noqa: PTH100
    own = sys.modules.pop("sitecustomize")
    with contextlib.suppress(ImportError):
        importlib.import_module("sitecustomize")
    sys.modules.setdefault("sitecustomize", own)


sys.addaudithook(_watch)
_hand_over()
