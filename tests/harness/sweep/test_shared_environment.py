"""The variables that all runs share: frozen, and pointing into the copy."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.blueprint import Blueprint
from harness.sweep import snapshot
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepError
from tests.harness.sweep.varied import experiment


@pytest.fixture
def base(tmp_path: Path) -> Blueprint:
    """A blueprint with a library and data beside its code."""
    made = experiment(tmp_path, "python train.py --config conf/run.yaml --lr 1")
    (made.codebase_dir / "lib").mkdir()
    (made.codebase_dir / "lib" / "__init__.py").write_text("")
    (made.codebase_dir / "data").mkdir()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    made = SweepFolder(tmp_path / "results" / "trial-sweep")
    made.dir.mkdir(parents=True)
    return made


def test_the_environment_is_that_of_the_start_with_the_secrets_of_today(
    base: Blueprint, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "old")
    monkeypatch.setenv("WANDB_API_KEY", "first-secret")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/socket-of-this-login")
    snapshot.take(base, folder)
    monkeypatch.setenv("MODE", "new")
    monkeypatch.setenv("LATER", "1")
    monkeypatch.setenv("WANDB_API_KEY", "second-secret")
    monkeypatch.delenv("SSH_AUTH_SOCK")
    found = snapshot.environment(folder)
    assert (found["MODE"], found["WANDB_API_KEY"], "LATER" in found) == ("old", "second-secret", False)
    assert "first-secret" not in (folder.snapshot / "environment.json").read_text()
    assert (folder.snapshot / "environment.json").stat().st_mode & 0o777 == 0o600
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(SweepError, match=r"WANDB_API_KEY.*export"):
        snapshot.environment(folder)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another way to the folder that the codebase lies in."""
    link = tmp_path.with_name(f"{tmp_path.name}-link")
    link.symlink_to(tmp_path)
    return link


def test_variables_that_name_the_authors_code_name_the_copy(
    base: Blueprint, folder: SweepFolder, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = base.codebase_dir
    given = {
        "PROJ": f"{code}",
        "LINKED": f"{elsewhere}/code/lib",
        "PATHS": f"/usr/bin:{code}/lib:{code}/gone",
        "DATA": f"{code}/data",
        "XDG_STATE_HOME": f"{code}/lib",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    taken = snapshot.take(base, folder)
    found = snapshot.environment(folder)
    copy = taken.codebase
    assert {name: found[name] for name in given} == given | {
        "PROJ": f"{copy}", "LINKED": f"{copy}/lib", "PATHS": f"/usr/bin:{copy}/lib:{code}/gone"
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", "cd $PROJ && pwd -P"], env=found, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(copy.resolve())


@pytest.mark.parametrize(
    "command",
    [
        "cd $BASE/code && python train.py",
        "export HERE={home}\ncd ${{HERE}}/code && python train.py",
        "export HERE=$BASE/code\npython $HERE/train.py",
        "bash -c 'cd $ALSO/code; python train.py'",
    ],
)
def test_a_command_that_reaches_the_authors_code_by_variables_is_refused(
    base: Blueprint, folder: SweepFolder, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    home = base.codebase_dir.parent
    monkeypatch.setenv("BASE", str(home))
    monkeypatch.setenv("ALSO", str(elsewhere))
    base = replace(base, launch_command=f"{command.format(home=home)} --config conf/run.yaml")
    taken = snapshot.take(base, folder)
    with pytest.raises(SweepError, match="author's own folder"):
        snapshot.relocated(folder, taken, base, base.launch_command or "")
    harmless = "cd $PROJ && BASE=/else && python train.py --data $BASE/code/train.py --out $NOWHERE/x"
    assert snapshot.relocated(folder, taken, base, harmless) == harmless
