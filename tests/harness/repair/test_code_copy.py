"""A copy is the code as its author left it, and the author's folder never notices."""

import os
import subprocess
from pathlib import Path

import pytest

from harness.repair import code_copy
from harness.repair.code_copy import CodeCopy, CopyError, freeze, installed_from, remove

TRAIN = "import model\n\nlr = 1\n\n\ndef main():\n    print(model.name, lr)\n\n\nmain()\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def _no_settings_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose codebase is its folder `project`, with work that is not committed."""
    folder = tmp_path / "repo"
    code = folder / "project"
    (code / "src").mkdir(parents=True)
    (code / "train.py").write_text(TRAIN)
    (code / "model.py").write_text("name = 'committed'\n")
    (code / "src" / "dead.py").write_text("")
    (folder / ".gitignore").write_text("data/\n__pycache__/\n.venv/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (code / "model.py").write_text("name = 'edited'\n")
    (code / "src" / "dead.py").unlink()
    (code / "new.py").write_text("new = True\n")
    (code / ".env").write_text("KEY=1\n")
    (code / "data").mkdir()
    (code / "data" / "train.jsonl").write_text("{}\n")
    return folder


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a folder with its time and content, git's own included, but for the list of worktrees."""
    return {
        str(file.relative_to(folder)): (file.lstat().st_mtime_ns, file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".git/worktrees" not in str(file)
    }


def copied(codebase: Path, tmp_path: Path, results: Path | None = None) -> CodeCopy:
    return freeze(codebase, tmp_path / "copy", results)


def test_the_copy_is_as_the_author_left_it_who_never_notices(repository: Path, tmp_path: Path) -> None:
    git(repository, "stash", "list")
    before = everything(repository)
    copy = copied(repository / "project", tmp_path)
    assert everything(repository) == before
    assert copy.commit == git(repository, "rev-parse", "HEAD").strip()
    assert (copy.codebase / "train.py").read_text() == TRAIN
    assert (copy.codebase / "model.py").read_text() == "name = 'edited'\n"
    assert (copy.codebase / "new.py").is_file()
    assert not (copy.codebase / "src" / "dead.py").exists()
    assert (copy.codebase / "data" / "train.jsonl").read_text() == "{}\n"
    assert copy.left_out == ("project/.env",) and copy.links() == ["project/.env", "project/data"]
    assert [str(file.relative_to(copy.root)) for file in copy.files()] == [
        ".gitignore", "project/model.py", "project/new.py", "project/train.py",
    ]  # fmt: skip
    changed = set(git(copy.root, "diff", "--name-only").split())
    assert changed == {"project/model.py", "project/src/dead.py"}
    remove(copy.root, repository)
    assert everything(repository) == before and not copy.root.exists()
    assert git(repository, "worktree", "list").count("\n") == 1


def test_no_hook_or_filter_is_run(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks" / hook).write_text(trap.read_text())
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    (repository / ".gitattributes").write_text("*.py filter=trap diff=trap\n")
    for key in ("filter.trap.clean", "filter.trap.smudge", "core.fsmonitor", "diff.external"):
        git(repository, "config", key, str(trap))
    (tmp_path / "sprung").unlink(missing_ok=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    copy = copied(repository, tmp_path)
    assert copy.commit
    remove(copy.root, repository)
    assert not (tmp_path / "sprung").exists()


def test_what_is_large_is_linked(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_copy, "LARGEST_FILE", 1000)
    code = repository / "project"
    (code / "corpus.txt").write_text("x" * 2000)
    (code / "images").mkdir()
    for number in range(3):
        (code / "images" / f"{number}.png").write_text("x" * 500)
    (code / "results").mkdir()
    (code / "results" / "journal.jsonl").write_text("")
    nested = code / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "code.py").write_text("x = 1\n")
    git(nested, "add", ".")
    git(nested, "commit", "-q", "-m", "x")
    copy = copied(code, tmp_path, code / "results")
    for name in ("corpus.txt", "images", "results"):
        assert (copy.codebase / name).is_symlink() and (copy.codebase / name).resolve() == code / name
    assert len(copy.notes) == 2 and "results" not in "".join(copy.notes)
    assert [file.name for file in copy.files()].count("code.py") == 1, "a repository in it is code as well"
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "project/nested")
    remove(copy.root, repository)
    assert "project/nested is a submodule: linked, not copied" in copied(code, tmp_path).notes


def test_a_copy_inside_of_the_codebase_holds_neither_itself_nor_its_folder(repository: Path) -> None:
    results = repository / "project" / "results"
    copy = freeze(repository / "project", results / "sweep" / "code", results)
    assert (copy.codebase / "new.py").is_file() and not (copy.codebase / "results").exists()


@pytest.mark.parametrize("kind", ["no repository", "no commit", "ignored"])
def test_without_git_sources_are_copied_and_the_rest_is_linked(tmp_path: Path, kind: str) -> None:
    code = tmp_path / "outer" / "plain"
    (code / "lib").mkdir(parents=True)
    (code / "data").mkdir()
    for name in ("train.py", "lib/model.py", "api_key.json", "data/big.bin", "weights.pt", "run.yaml"):
        (code / name).write_text(name)
    if kind != "no repository":
        (tmp_path / "outer" / ".gitignore").write_text("plain/\n")
        git(tmp_path / "outer", "init", "-q")
    if kind == "ignored":
        git(tmp_path / "outer", "add", ".")
        git(tmp_path / "outer", "commit", "-qm", "x")
    copy = copied(code, tmp_path)
    assert copy.commit == "" and copy.codebase == copy.root
    assert [file.name for file in copy.files()] == ["run.yaml", "train.py", "model.py"]
    assert copy.links() == ["api_key.json", "data", "weights.pt"] and copy.left_out == ("api_key.json",)
    assert "is in no git repository" in copy.notes[0]


def test_what_is_no_folder_of_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / "nowhere", Path.home()):
        with pytest.raises(CopyError, match="no copy is made"):
            copied(folder, tmp_path)
    monkeypatch.setattr(code_copy, "MOST_FILES", 1)
    (tmp_path / "code").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "code" / name).write_text("")
    with pytest.raises(CopyError, match="git init"):
        copied(tmp_path / "code", tmp_path)
    assert not (tmp_path / "copy").exists()


def test_a_path_into_the_codebase_is_found_in_the_copy(repository: Path, tmp_path: Path) -> None:
    home, named = repository / "project", tmp_path / "named"
    named.symlink_to(home)
    copy = copied(named, tmp_path)
    for text in (f"{home}/train.py", f"{named}/train.py", f"{home}/src/../train.py"):
        assert copy.moved(text) == str(copy.codebase / "train.py")
    assert copy.moved(f"{home}/") == f"{copy.codebase}/"
    for text in ("{home}2/train.py", "{home}/data/train.jsonl", "{home}/runs/new", "{home}/../x.py", "x.py"):
        assert copy.moved(text.format(home=home)) is None


def test_folders_of_editable_installs_are_known(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "a.pth").write_text("/code/a\nimport x\n")
    (site / "__editable___b_finder.py").write_text("MAPPING = {'b': '/code/b/src/b'}\n")
    assert sorted(installed_from(tmp_path / "bin" / "python")) == ["/code/a", "/code/b/src"]
