"""Python files of libraries: downloads releases with pip and reads the archives without installing them."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

Format = Literal["wheel", "mac", "source"]
STANDARD_LIBRARY = "Python"
_IN_DATA = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
MOST_BYTES = 3_000_000
LEFT_OUT = {
    *("test", "tests", "testing", "_internal", "benchmark", "benchmarks", "example", "examples", "docs"),
    *("third_party", "thirdparty", "_vendor", "vendor", "site-packages", "stubs"),
    *("distutils", "ensurepip", "idlelib", "lib2to3", "mypy", "tkinter", "turtledemo"),
}
"""Folders whose messages no training raises."""


@dataclass(frozen=True)
class Release:
    """A version ("" is the newest) of a library, and which of its archives to take."""

    library: str
    version: str
    format: Format


@dataclass(frozen=True)
class Source:
    """A Python file of a library; `path` is the one below `site-packages`."""

    library: str
    version: str
    path: str
    text: str


def releases() -> list[Release]:
    """All releases of `libraries.yaml`."""
    return [
        Release(name, version, entry.get("format", "wheel"))
        for name, entry in _table()["libraries"].items()
        for version in entry["versions"]
    ]


def fetch(wanted: list[Release], cache: Path) -> list[tuple[Release, Path]]:
    """Download what is not in the cache yet. A release that cannot be had is named on stderr and left out."""
    with ThreadPoolExecutor(4) as pool:
        archives = pool.map(lambda release: _archive(release, cache), wanted)
        return [(release, path) for release, path in zip(wanted, archives, strict=True) if path is not None]


def _archive(release: Release, cache: Path) -> Path | None:
    folder = cache / release.library / (release.version or "newest")
    if not (found := _in(folder)):
        name = f"{release.library}=={release.version}" if release.version else release.library
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
        ended = subprocess.run([*command, *_choice(release), name], capture_output=True, text=True)
        found = _in(folder)
        if not found:
            print(f"{name}: {ended.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return found


def _choice(release: Release) -> list[str]:
    if release.format == "source":
        return ["--no-binary", ":all:", "--no-build-isolation"]
    systems = ("macosx_14_0_arm64", "macosx_12_0_arm64") if release.format == "mac" else ()
    mac = [word for system in systems for word in ("--platform", system)]
    return ["--only-binary", ":all:", "--python-version", "3.11", *mac]


def _in(folder: Path) -> Path | None:
    return next((file for file in sorted(folder.glob("*")) if file.suffix in (".whl", ".gz", ".zip")), None)


def read(release: Release, archive: Path) -> Iterator[Source]:
    """The files of an archive."""
    version = archive.name.split("-")[1].removesuffix(".tar.gz")
    files = _of_wheel(archive) if archive.suffix in (".whl", ".zip") else _of_sdist(archive)
    for path, data in ((_IN_DATA.sub("", path), data) for path, data in files):
        yield Source(release.library, version, path, data.decode(errors="replace"))


def standard_library() -> Iterator[Source]:
    """The files of the Python that runs this."""
    root, version = Path(sysconfig.get_paths()["stdlib"]), sysconfig.get_python_version()
    for file in sorted(root.rglob("*.py")):
        if counts(path := file.relative_to(root).as_posix()):
            yield Source(STANDARD_LIBRARY, version, path, file.read_text(errors="replace"))


def _of_wheel(archive: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as wheel:
        for entry in wheel.infolist():
            if counts(entry.filename) and entry.file_size < MOST_BYTES:
                yield entry.filename, wheel.read(entry)


def _of_sdist(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as sdist:
        for entry in sdist:
            path = entry.name.partition("/")[2].removeprefix("src/").removeprefix("python/")
            if entry.isfile() and counts(path) and "/" in path and entry.size < MOST_BYTES:
                content = sdist.extractfile(entry)
                assert content is not None
                yield path, content.read()


@cache
def _table() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("libraries.yaml").read_text())


def counts(path: str) -> bool:
    """True for a file below `site-packages` whose messages a training may raise."""
    if path.startswith(tuple(f"{folder}/" for folder in _table()["left_out"])):
        return False
    parts = path.split("/")
    is_test = parts[-1].startswith("test_") or parts[-1] in ("conftest.py", "setup.py")
    return path.endswith(".py") and not is_test and LEFT_OUT.isdisjoint(parts)
