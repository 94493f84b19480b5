"""Packages go only where they are the experiment's own."""

import sys
from pathlib import Path

from harness.guard.installs import is_there, refuse


def test_only_known_packages_into_an_environment_of_its_own(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    assert "virtual environment" in str(refuse("tqdm", python))
    (tmp_path / "pyvenv.cfg").touch()
    assert refuse("tqdm", python) is None
    for name in ("tqdm==1", "torch", "reqeusts", "--index-url=http://x", "git+https://x/y"):
        assert "not one of the packages" in str(refuse(name, python))


def test_never_into_the_harness_itself_nor_through_a_link_to_it(tmp_path: Path) -> None:
    if not (Path(sys.prefix) / "pyvenv.cfg").exists():  # the tests run outside of an environment
        assert "virtual environment" in str(refuse("tqdm", Path(sys.prefix) / "bin" / "python"))
        return
    (tmp_path / "venv").symlink_to(sys.prefix)
    for home in (Path(sys.prefix), tmp_path / "venv"):
        assert "harness's own" in str(refuse("tqdm", home / "bin" / "python"))


def test_what_is_there_already_is_not_what_is_missing(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    assert is_there("python-dotenv", python) is None
    (tmp_path / "lib" / "python3.11" / "site-packages" / "python_dotenv-1.0.1.dist-info").mkdir(parents=True)
    assert is_there("Python-dotenv", python) == "Python-dotenv 1.0.1 is installed already"
    assert is_there("python-dotenv-extra", python) is None
