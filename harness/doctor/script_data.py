"""Files and columns that a program's own source names as literals.

In: the parsed sources of the program. Out: findings. `load_dataset("json", data_files="x.jsonl")` tells the
file, `lambda row: row["prompt"]` behind it the column; what is put together at run time is not judged.
"""

import ast
import difflib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.launch import PlannedLaunch
from harness.doctor.rows import READABLE, DataFileError, sample
from harness.doctor.types import Finding, fine, warning

_READERS = (
    "read_csv",
    "read_json",
    "read_parquet",
    "load",
    "open",
    "load_dataset",
    "from_pretrained",
    "from_json",
)
_ROW_BY_ROW = ("map", "filter")


def files_exist(launch: PlannedLaunch) -> Iterator[Finding]:
    """Files that the source opens by a literal name exist."""
    trees = launch.wanted().trees
    texts = Counter(
        node.value for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Constant)
    )
    for source, tree in trees.items():
        for node, text in literal_files(tree):
            if texts[text] > 1 or (launch.codebase / text).exists():
                continue  # what is named twice is probably written, or looked for, before it is read
            yield warning(
                f"{launch.shown(source)}:{node.lineno} reads {text}, which is not in {launch.codebase}",
                "correct the path, or put the file there",
                "path_not_found",
            )


def literal_files(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Calls that read a file, with its literal name; names without a folder or an ending are left alone."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node) not in _READERS or _writes(node):
            continue
        words = [word.value for word in node.keywords if word.arg == "data_files"] or node.args[:1]
        for word in words:
            for text in _texts(word):
                local = text.startswith(("/", "./", "../")) or Path(text).suffix[1:].isalpha()
                if local and "://" not in text and not set(text) & set("*?{}$ \n"):
                    yield node, text


def hub_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """("models" or "datasets", name) of repositories of the hub that the source names literally."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) in ("from_pretrained", "load_dataset"):
            for text in _texts(node.args[0]) if node.args else ():
                yield ("models" if _name(node) == "from_pretrained" else "datasets"), text


def columns_exist(launch: PlannedLaunch) -> Iterator[Finding]:
    """Columns that functions over rows read are in the one data file that the source loads."""
    for source, tree in launch.wanted().trees.items():
        loaded = {text for _, text in literal_files(tree) if Path(text).suffix in READABLE}
        paths = [path for text in loaded if (path := launch.codebase / text).is_file()]
        if len(paths) != 1 or len(loaded) != 1:
            continue
        try:
            there = sample(paths[0]).columns
        except DataFileError:
            continue
        made = _made(tree)
        missing = {name: line for name, line in _read(tree) if name not in there and name not in made}
        for name, line in missing.items():
            close = difflib.get_close_matches(name, there, 1)
            mend = (
                f"did you mean {close[0]}?"
                if there and close
                else "name a column that is there, or prepare the data"
            )
            yield warning(
                f"{launch.shown(source)}:{line} reads the column {name!r}; {launch.shown(paths[0])} has "
                f"{', '.join(there[:12]) or 'none'}",
                mend,
                "dataset_error",
            )
        if not missing and there:
            yield fine(f"{launch.shown(paths[0])} has the columns that {launch.shown(source)} reads")


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _writes(node: ast.Call) -> bool:
    """Whether a file is opened for writing, or `load` is not a function of a library that reads files."""
    mode = [word.value for word in node.keywords if word.arg == "mode"] or node.args[1:2]
    if _name(node) == "open":
        return any(isinstance(word, ast.Constant) and set(str(word.value)) & set("wax") for word in mode)
    return _name(node) == "load" and ast.unparse(node.func) not in ("torch.load", "np.load", "numpy.load")


def _texts(node: ast.expr) -> list[str]:
    """The literal texts of a text, a list, or a mapping's values."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for item in node.elts for text in _texts(item)]
    return [text for item in node.values for text in _texts(item)] if isinstance(node, ast.Dict) else []


def _read(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(column, line) of `row["column"]` in functions given to `map` and `filter` of a data set."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        given = node.args[0]
        function = functions.get(given.id) if isinstance(given, ast.Name) else given
        if node.func.attr not in _ROW_BY_ROW or not isinstance(function, (ast.Lambda, ast.FunctionDef)):
            continue
        row = function.args.args[0].arg if function.args.args else ""
        for inner in ast.walk(function):
            if not isinstance(inner, ast.Subscript) or not isinstance(inner.slice, ast.Constant):
                continue
            if ast.unparse(inner.value) == row and isinstance(inner.slice.value, str):
                yield inner.slice.value, inner.lineno


def _made(tree: ast.Module) -> set[str]:
    """Names that the source itself gives to columns: stored subscripts, literal keys, renames."""
    made: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            made |= set(_texts(node.slice))
        elif isinstance(node, ast.Dict):
            made |= {text for key in node.keys if key is not None for text in _texts(key)}
        elif isinstance(node, ast.Call) and _name(node) in (
            "rename_column",
            "rename_columns",
            "add_column",
            "dict",
        ):
            made |= {text for word in node.args for text in _texts(word)}
            made |= {word.arg for word in node.keywords if word.arg}
    return made
