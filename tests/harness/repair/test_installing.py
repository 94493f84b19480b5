"""A package comes into the experiment's environment, and nothing there changes: real pip, no index."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.repair.installing import InstallError, install, refuse


def wheel(folder: Path, name: str, version: str, requires: str = "") -> Path:
    """A package with one empty module."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", "")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return file


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks, instead of an index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def test_a_package_is_installed_and_others_keep_their_version(python: Path, shelf: Path) -> None:
    wheel(shelf, "plainpkg", "1.0")
    assert install(python, "plainpkg") == "1.0"
    wheel(shelf, "plainpkg", "2.0")
    with pytest.raises(InstallError, match=r"plainpkg 1\.0 is there already"):
        install(python, "plainpkg")
    wheel(shelf, "greedypkg", "1.0", "plainpkg>=2.0")
    with pytest.raises(InstallError, match="conflicting"):
        install(python, "greedypkg")
    with pytest.raises(InstallError, match=r"plainpkg 1\.0 is there"):
        install(python, "plainpkg")
    with pytest.raises(InstallError, match="nowherepkg"):
        install(python, "nowherepkg")
    with pytest.raises(InstallError, match="No such file"):
        install(python.with_name("no-python"), "plainpkg")


def test_only_into_an_environment_of_its_own_never_the_harness_s_nor_through_a_link(tmp_path: Path) -> None:
    assert "virtual environment" in str(refuse(tmp_path / "bin" / "python"))
    (tmp_path / "pyvenv.cfg").touch()
    assert refuse(tmp_path / "bin" / "python") is None
    if not (Path(sys.prefix) / "pyvenv.cfg").exists():  # the tests run outside of an environment
        assert "virtual environment" in str(refuse(Path(sys.prefix) / "bin" / "python"))
        return
    (tmp_path / "venv").symlink_to(sys.prefix)
    for home in (Path(sys.prefix), tmp_path / "venv"):
        assert "harness's own" in str(refuse(home / "bin" / "python"))
