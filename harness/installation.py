"""The files that the product itself consists of: its modules, templates and tables.

Most of them are read when they are first needed, and a run takes days, in which the installation may be
upgraded. A process that keeps the installation goes on with the files that were there then, so that it never
mixes two versions; processes that it starts later are of the version that they find.
"""

import hashlib
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import yaml

from monitors.metrics import families, names

_ROOT = Path(__file__).parents[1]
_IN_A_WHEEL = {"harness": ("templates/", "blueprints/")}
_SUFFIXES = {".py", ".yaml", ".json", ".j2", ".md", ".js", ".css"}
_kept: dict[str, bytes] = {}
"""Contents by path, once they are kept."""


@cache
def templates_dir() -> Path:
    """The folder that holds the templates: `harness/templates` when installed, `templates/` in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


def own_files(folder: Path, suffix: str) -> list[Path]:
    """The files of the product in one of its folders that have this suffix, sorted."""
    known = map(Path, _kept) if _kept else folder.iterdir()
    return sorted(path for path in known if path.parent == folder and path.suffix == suffix)


def own_text(path: Path) -> str:
    """The text of a file of the product. Raises OSError."""
    return (_kept[str(path)] if str(path) in _kept else path.read_bytes()).decode()


@cache
def own_table(path: Path) -> Any:
    """What a YAML file of the product holds. Raises OSError."""
    return yaml.load(own_text(path), Loader=names.LOADER)


def keep() -> None:
    """Go on with the files that are there now, whatever becomes of them, until this process ends."""
    if not _kept:
        _kept.update((str(path), path.read_bytes()) for path in _files().values())
        families.families()  # `monitors` reads its tables itself
        names.splits()
        version()
        sys.meta_path.insert(0, _KeptModule)


@cache
def version() -> str:
    """Such as `0.1.0 (3f2a9c1d)`: code that has the same number and is another differs in the digest."""
    from harness import __version__

    digest = hashlib.sha256()
    for name, path in sorted(_files().items()):
        digest.update(f"{name}\0{own_text(path)}\0".encode())
    return f"{__version__} ({digest.hexdigest()[:8]})"


def _files() -> dict[str, Path]:
    """Each file by a name that does not depend on how the product was installed."""
    return {
        f"{folder.name}/{name}": path
        for folder in (_ROOT / "harness", _ROOT / "monitors", templates_dir())
        for path in folder.rglob("*")
        if path.suffix in _SUFFIXES
        and not (name := path.relative_to(folder).as_posix()).startswith(_IN_A_WHEEL.get(folder.name, ()))
    }


class _KeptModule(SourceFileLoader):
    """Finds and loads the modules of the product as they were kept."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        place = _ROOT.joinpath(*name.split("."))
        for file in (f"{place}.py", f"{place}/__init__.py"):
            if file in _kept:
                return spec_from_file_location(name, file, loader=cls(name, file))
        return None

    def get_data(self, path: str) -> bytes:
        return _kept[path]

    def path_stats(self, path: str) -> dict[str, Any]:
        raise OSError("the compiled files are of the version that is there now")
