"""The frozen code and environment: what the author does afterwards must not reach a run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.blueprint import Blueprint
from harness.repair.code_copy import CopyError
from harness.sweep import snapshot
from harness.sweep.plan import SweepError, SweepFolder
from harness.sweep.points import write_runs
from tests.harness.sweep.varied import experiment, plan


@pytest.fixture
def base(tmp_path: Path) -> Blueprint:
    """A blueprint whose code imports a library beside it, and reads data."""
    made = experiment(tmp_path, "python train.py --config conf/run.yaml --lr 1")
    for name, text in {
        "lib/__init__.py": "SAYS = 'committed'\n",
        "train.py": "import lib; print(lib.SAYS, open('data/big.bin').read())\n",
        "data/big.bin": "data",
        "__pycache__/x.pyc": "\0",
    }.items():
        (made.codebase_dir / name).parent.mkdir(exist_ok=True)
        (made.codebase_dir / name).write_text(text)
    return made


def git(folder: Path, *words: str) -> list[str]:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()


def in_git(code: Path) -> None:
    (code / ".gitignore").write_text("data/\n__pycache__/\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        git(code, *words)


def trained(codebase: Path) -> str:
    command = [sys.executable, "train.py"]
    return subprocess.run(command, cwd=codebase, capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_sees_the_code_as_it_was(base: Blueprint, folder: SweepFolder) -> None:
    code = base.codebase_dir
    in_git(code)
    (code / "lib" / "__init__.py").write_text("SAYS = 'edited'\n")
    (code / "new.py").write_text("")
    taken = snapshot.take(base, folder)
    assert git(code, "status", "--porcelain") == [" M lib/__init__.py", "?? new.py"]
    (code / "lib" / "__init__.py").write_text("SAYS = 'too late'\n")
    (code / "train.py").unlink()
    assert trained(taken.codebase) == "edited data"
    assert taken.linked == ("data",)
    assert not (taken.codebase / "__pycache__" / "x.pyc").exists()
    assert taken.git is not None and taken.git["dirty"]
    assert len(git(code, "worktree", "list")) == 2
    assert taken.copy.commit and (taken.codebase / "new.py").exists()


@pytest.mark.parametrize("ignored", [None, "*\n"])
def test_code_without_git_is_copied(base: Blueprint, folder: SweepFolder, ignored: str | None) -> None:
    code = base.codebase_dir
    if ignored:  # the codebase lies in a repository that ignores it
        git(code.parent, "init", "-q")
        (code.parent / ".gitignore").write_text(ignored)
    taken = snapshot.take(base, folder)
    (code / "lib" / "__init__.py").write_text("SAYS = 'too late'\n")
    assert trained(taken.codebase) == "committed data"
    assert taken.linked == ("data",)
    assert not taken.copy.commit and "no git repository" in taken.copy.notes[0]


def test_too_much_to_copy_is_refused(base: Blueprint, folder: SweepFolder) -> None:
    with pytest.raises(CopyError, match="name the folder with the training's code"):
        snapshot.take(replace(base, codebase_dir=Path.home()), folder)
    assert not list(folder.snapshot.glob("*.json"))


def test_an_editable_install_is_imported_from_the_copy(
    base: Blueprint, folder: SweepFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "other.py").write_text("x = 1\n")
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "__editable__.mine.pth").write_text(f"{base.codebase_dir}\n{outside}\n")
    exe = tmp_path / "venv" / "bin" / "python"
    exe.parent.mkdir()
    exe.symlink_to(sys.executable)
    monkeypatch.setenv("PYTHONPATH", f"{base.codebase_dir}/lib:/else")
    in_git(base.codebase_dir)
    taken = snapshot.take(replace(base, venv_exe=exe), folder)
    path = snapshot.environment(folder)["PYTHONPATH"].split(":")
    assert path == [str(taken.codebase), str(taken.codebase / "lib"), f"{base.codebase_dir}/lib", "/else"]
    assert list(taken.watched) == [str(outside)]
    (outside / "other.py").write_text("x = 2\n")
    assert any(str(outside) in said for said in snapshot.changed(folder))


def test_what_changes_later_is_named(base: Blueprint, folder: SweepFolder) -> None:
    in_git(base.codebase_dir)
    taken = snapshot.take(base, folder)
    (taken.codebase / "output.txt").write_text("a training writes beside its code")
    (taken.codebase / "train.py").touch()
    assert snapshot.changed(folder) == ()
    (taken.codebase / "lib" / "__init__.py").write_text("SAYS = 'patched by a run'\n")
    (taken.codebase / "conf" / "run.yaml").unlink()
    (said,) = snapshot.changed(folder)
    assert "lib/__init__.py" in said and "conf/run.yaml" in said and "train.py" not in said
    record = folder.snapshot / "snapshot.json"
    record.write_text(record.read_text().replace('"packages": {', '"packages": {"gone-package": "1.0",', 1))
    assert any("gone-package 1.0 → absent" in said for said in snapshot.changed(folder))
    (folder.snapshot / "files.json").write_text("torn")
    assert "cannot be compared" in snapshot.changed(folder)[0]


def test_a_copy_that_was_cut_off_is_made_anew(base: Blueprint, folder: SweepFolder) -> None:
    half = folder.snapshot / "code"
    half.mkdir(parents=True)
    (half / "stale.py").write_text("")
    with pytest.raises(SweepError, match="not known what the runs share"):
        snapshot.load(folder)
    first = snapshot.take(base, folder)
    assert not (half / "stale.py").exists()
    (base.codebase_dir / "train.py").write_text("later")
    assert snapshot.take(base, folder) == first == snapshot.load(folder)


def test_absolute_paths_lead_to_the_copy(
    base: Blueprint, folder: SweepFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = base.codebase_dir
    in_git(code)
    (code / "conf" / "run.yaml").write_text(f"seed: 0\nlr: 1\nscript: {code}/train.py\nfiles: {code}/data\n")
    command = f"cd {code} && python {code}/train.py --config {code}/conf/run.yaml --data {code}/data"
    base = replace(base, launch_command=command, prepare_command=f"bash {code}/lib/__init__.py")
    monkeypatch.setenv("HOME", str(tmp_path))
    taken = snapshot.take(base, folder)
    write_runs(plan({"lr": [1, 2]}), snapshot.base_of(base, folder, taken), folder)
    run = folder.run_blueprint("p02-s0").read_text()
    copy, config = taken.codebase, folder.run_config("p02-s0")
    assert f"cd {copy} && python {copy}/train.py --config {config} --data {code}/data" in run
    assert f"bash {copy}/lib/__init__.py" in run
    assert f"script: {copy}/train.py\nfiles: {code}/data\n" in config.read_text()
    hidden = replace(base, launch_command='python "$HOME/code/train.py" --config conf/run.yaml')
    with pytest.raises(SweepError, match="author's own folder"):
        write_runs(plan({"lr": [1, 2]}), snapshot.base_of(hidden, folder, taken), folder)


def test_the_environment_is_that_of_the_start(
    base: Blueprint, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MODE": "old", "WANDB_API_KEY": "first-secret", "SSH_AUTH_SOCK": "/tmp/x"}.items():
        monkeypatch.setenv(name, value)
    snapshot.take(base, folder)
    for name, value in {"MODE": "new", "WANDB_API_KEY": "second-secret", "LATER": "1"}.items():
        monkeypatch.setenv(name, value)
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
    given = {"PROJ": f"{code}", "DATA": f"{code}/data", "XDG_STATE_HOME": f"{code}/lib"}
    given |= {"LINKED": f"{elsewhere}/code/lib", "PATHS": f"/usr/bin:{code}/lib:{code}/gone"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    copy = snapshot.take(base, folder).codebase
    found = snapshot.environment(folder)
    assert {name: found[name] for name in given} == given | {
        "PROJ": f"{copy}", "LINKED": f"{copy}/lib", "PATHS": f"/usr/bin:{copy}/lib:{code}/gone"
    }  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "cd $BASE/code && python train.py",
        "export HERE={home}\ncd ${{HERE}}/code && python train.py",
        "export HERE=$BASE/code\npython $HERE/train.py",
        "bash -c 'cd $ALSO/code; python train.py'",
    ],
)
def test_no_variable_reaches_the_authors_code(
    base: Blueprint, folder: SweepFolder, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    home = base.codebase_dir.parent
    monkeypatch.setenv("BASE", str(home))
    monkeypatch.setenv("ALSO", str(elsewhere))
    base = replace(base, launch_command=f"{command.format(home=home)} --config conf/run.yaml")
    point = snapshot.base_of(base, folder, snapshot.take(base, folder)).relocate
    with pytest.raises(SweepError, match="author's own folder"):
        point(base.launch_command or "")
    harmless = "cd $PROJ && BASE=/else && python train.py --data $BASE/code/train.py --out $NOWHERE/x"
    assert point(harmless) == harmless
