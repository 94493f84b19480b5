"""Runs inside the experiment's own interpreter, standard library only: which modules and packages are there.

In: JSON on standard input (`modules`, `packages`, `search`). Out: one line of JSON. Modules are looked for,
not imported.
"""

import importlib.util
import json
import sys

MARK = "harness-doctor:"


def present(module):  # type: ignore[no-untyped-def]
    """Whether the interpreter finds the top-level module."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def package(name):  # type: ignore[no-untyped-def]
    """Version and requirements of an installed package; None when it is not there."""
    try:
        from importlib import metadata

        return {"version": metadata.version(name), "requires": metadata.requires(name) or []}
    except Exception:  # noqa: BLE001  # a broken installation tells nothing
        return None


def folder_of(module):  # type: ignore[no-untyped-def]
    """The folder of an installed package; None when it is not there."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None


asked = json.load(sys.stdin)
sys.path[:] = asked["search"] + [entry for entry in sys.path if entry]
answer = {
    "version": list(sys.version_info[:3]),
    "modules": {name: present(name.split(".")[0]) for name in asked["modules"]},
    "packages": {name: package(name) for name in asked["packages"]},
    "folders": {name: folder_of(name) for name in asked["folders"]},
}
sys.stdout.write("\n" + MARK + json.dumps(answer) + "\n")
