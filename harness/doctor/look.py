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


def spec_of(module):  # type: ignore[no-untyped-def]
    try:
        return importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None


def folder_of(module):  # type: ignore[no-untyped-def]
    """The folder of an installed package; None when it is not there."""
    spec = spec_of(module)
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None


class Sources:
    """The files that a program imports from its own folders: `missing` modules and where they are asked for,
    `broken` files, `text` of all."""

    def __init__(self, search):  # type: ignore[no-untyped-def]
        self.search, self.seen, self.missing, self.broken, self.text = search, set(), {}, [], ""

    def module(self, name, where):  # type: ignore[no-untyped-def]
        """Follow a module that is a local file, note any other that is not installed."""
        top = name.partition(".")[0]
        for folder in self.search:
            base = os.path.join(folder, *name.split("."))
            files = [os.path.join(folder, top + ".py"), os.path.join(folder, top, "__init__.py")]
            files += [base + ".py", os.path.join(base, "__init__.py"), os.path.join(base, "__main__.py")]
            local = [file for file in files if os.path.isfile(file)]
            if local:
                for file in local:
                    self.read(file)
                return
        if top and spec_of(top) is None:
            self.missing.setdefault(top, where)

    def read(self, file):  # type: ignore[no-untyped-def]
        """Note what one file asks for."""
        if file in self.seen or len(self.seen) >= MOST_FILES or not os.path.isfile(file):
            return
        self.seen.add(file)
        if os.path.getsize(file) > MOST_BYTES:
            return
        try:
            with open(file, "rb") as stream:
                source = stream.read()
            tree = ast.parse(source, file)
        except (SyntaxError, ValueError) as error:
            self.broken.append([file, getattr(error, "lineno", None), str(getattr(error, "msg", error))])
            return
        except OSError:
            return
        self.text += source.decode("utf-8", "replace")
        for statement in tree.body:
            where = f"{os.path.basename(file)}:{statement.lineno}"
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    self.module(alias.name, where)
            elif isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
                self.module(statement.module, where)


def look(asked):  # type: ignore[no-untyped-def]
    sources = Sources(asked["search"])
    for script in asked["scripts"]:
        sources.read(script)
    for name, where in asked["modules"].items():
        sources.module(name, where)
    text = sources.text
    parser = "hydra" if "hydra.main" in text or asked["is_hydra"] else ""
    return {
        "version": list(sys.version_info[:3]),
        "folders": {name: folder_of(name) for name in asked["folders"]},
        "missing": sources.missing,
        "broken": sources.broken,
        "files": len(sources.seen),
        "changes_path": "sys.path" in text or "addsitedir" in text,
        "parser": parser or ("argparse" if "parse_args" in text or "parse_known_args" in text else ""),
    }


question = json.load(sys.stdin)
sys.path[:] = question["search"] + [entry for entry in sys.path if entry]
sys.stdout.write("\n" + MARK + json.dumps(look(question)) + "\n")
