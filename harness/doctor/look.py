"""Runs inside the experiment's own interpreter, standard library only: what it has, and what programs import.

In: JSON on standard input (see `asking.Question`). Out: one line of JSON. Modules are looked for, not
imported; of sources only `import` statements at the top are read, as this very interpreter parses them.
"""

# ruff: noqa: PTH113, PTH118, PTH119, PTH123, PTH202

import ast
import importlib.util
import json
import os
import sys

MARK = "harness-doctor:"
MOST_FILES = 60
MOST_BYTES = 1000000
missing = {}  # type: ignore[var-annotated]
broken = []  # type: ignore[var-annotated]
texts = {}  # type: ignore[var-annotated]


def is_there(module):  # type: ignore[no-untyped-def]
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def follow(name, where):  # type: ignore[no-untyped-def]
    """Read a module that is a local file, note any other that is not installed."""
    top = name.partition(".")[0]
    for folder in asked["search"]:
        base = os.path.join(folder, *name.split("."))
        names = [os.path.join(folder, top) + ".py", os.path.join(folder, top, "__init__.py")]
        names += [base + ".py", os.path.join(base, "__init__.py"), os.path.join(base, "__main__.py")]
        local = [file for file in names if os.path.isfile(file)]
        if local:
            for file in local:
                read(file)
            return
    if top and not is_there(top):
        missing.setdefault(top, where)


def read(file):  # type: ignore[no-untyped-def]
    """Note what one source asks for."""
    is_too_much = len(texts) >= MOST_FILES or not os.path.isfile(file) or os.path.getsize(file) > MOST_BYTES
    if file in texts or is_too_much:
        return
    texts[file] = ""
    try:
        with open(file, "rb") as stream:
            source = stream.read()
        tree = ast.parse(source, file)
    except (SyntaxError, ValueError) as error:
        broken.append([file, getattr(error, "lineno", None), str(getattr(error, "msg", error))])
        return
    except OSError:
        return
    texts[file] = source.decode("utf-8", "replace")
    for statement in tree.body:
        where = f"{os.path.basename(file)}:{statement.lineno}"
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                follow(alias.name, where)
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
            follow(statement.module, where)


asked = json.load(sys.stdin)
sys.path[:] = asked["search"] + [entry for entry in sys.path if entry]
for script in asked["scripts"]:
    read(script)
for module, wanted_by in asked["modules"].items():
    follow(module, wanted_by)
text = "".join(texts.values())
parser = "argparse" if "parse_args" in text or "parse_known_args" in text else ""
found = {
    "version": sys.version_info[:3],
    "missing": missing,
    "broken": broken,
    "changes_path": "sys.path" in text or "addsitedir" in text,
    "parser": "hydra" if "hydra.main" in text or asked["is_hydra"] else parser,
}
sys.stdout.write("\n" + MARK + json.dumps(found) + "\n")
