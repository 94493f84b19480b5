"""Code is corrected in a private copy, and the author's repository never notices."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.repair import private_copy, worktree

ID = "7f3a00000000"
TRAIN = "import model\n\nlr = 1\n\n\ndef main():\n    print(model.name, lr)\n\n\nmain()\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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
    (code / "data").mkdir()
    (code / "data" / "train.jsonl").write_text("{}\n")
    return folder


@pytest.fixture
def plan(repository: Path, tmp_path: Path) -> dict[str, Any]:
    return {
        "codebase_dir": str(repository / "project"),
        "result_dir": str(tmp_path / "results"),
        "venv_exe": sys.executable,
    }


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a folder with its time and content, git's own included, but for the list of worktrees."""
    return {
        str(file.relative_to(folder)): (file.lstat().st_mtime_ns, file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".git/worktrees" not in str(file)
    }


def test_author_never_notices_and_the_copy_is_as_the_author_left_it(
    repository: Path, plan: dict[str, Any]
) -> None:
    git(repository, "stash", "list")
    before = everything(repository)
    shown = worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    assert "-lr = 1\n+lr = 2\n" in shown
    assert "@@" in shown
    assert everything(repository) == before
    copy = worktree.folder(plan, ID)
    assert (copy / "train.py").read_text() == TRAIN.replace("lr = 1", "lr = 2")
    assert (copy / "model.py").read_text() == "name = 'edited'\n"
    assert (copy / "new.py").exists()
    assert not (copy / "src" / "dead.py").exists()
    assert (copy / "data" / "train.jsonl").read_text() == "{}\n"
    assert git(copy, "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")
    assert set(git(copy, "diff", "--name-only").split()) == {
        "project/model.py",
        "project/src/dead.py",
        "project/train.py",
    }
    worktree.remove(plan, ID)
    assert everything(repository) == before
    assert git(repository, "worktree", "list").count("\n") == 1


def test_nothing_of_the_repository_is_run(repository: Path, plan: dict[str, Any], tmp_path: Path) -> None:
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
    worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    worktree.remove(plan, ID)
    assert not (tmp_path / "sprung").exists()


def test_git_variables_of_the_caller_do_not_lead_elsewhere(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert "+lr = 2" in worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")


def test_patching_again_after_a_kill_finds_it_done(plan: dict[str, Any]) -> None:
    first = worktree.patch(plan, ID, "train.py", "lr = 1\n", "lr = 1\nprint(lr)\n")
    again = worktree.patch(plan, ID, "train.py", "lr = 1\n", "lr = 1\nprint(lr)\n")
    assert again == f"train.py holds this change already\n{first}"
    assert (worktree.folder(plan, ID) / "train.py").read_text().count("print(lr)") == 1
    removed = worktree.patch(plan, ID, "train.py", "print(lr)\n", "")
    assert worktree.patch(plan, ID, "train.py", "print(lr)\n", "").endswith(removed)


def test_kill_before_the_file_was_written_is_made_good(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(worktree, "write_atomically", die)
        with pytest.raises(Killed):
            worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    assert "lr = 2" in (worktree.folder(plan, ID) / "train.py").read_text()
    assert worktree.diffs(ID, [{"path": "train.py", "old": "lr = 1", "new": "lr = 2"}]).count("+lr = 2") == 1


def test_half_made_copy_is_made_anew(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(private_copy, "_copy_file", die)
        with pytest.raises(KeyboardInterrupt):
            worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    assert private_copy.place_of(ID).exists()
    assert "+lr = 2" in worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")


def test_launch_gets_all_patches_even_when_the_cache_was_emptied(plan: dict[str, Any]) -> None:
    patches = [
        {"path": "train.py", "old": "lr = 1", "new": "lr = 2"},
        {"path": "train.py", "old": "lr = 2", "new": "lr = 3"},
        {"path": "train.py", "old": "lr = 2", "new": "lr = 3"},
    ]
    for item in patches:
        worktree.patch(plan, ID, item["path"], item["old"], item["new"])
    copy = worktree.folder(plan, ID, patches)
    (copy / "mark").write_text("still the same copy")
    assert (worktree.folder(plan, ID, patches) / "mark").exists()
    private_copy.forget(private_copy.place_of(ID), Path(plan["codebase_dir"]))
    assert "lr = 3" in (worktree.folder(plan, ID, patches) / "train.py").read_text()
    assert worktree.diffs(ID, patches[1:]).count("@@") == 2


def refused(plan: dict[str, Any], path: str, old: str, new: str = "x") -> str:
    with pytest.raises(worktree.PatchError) as raised:
        worktree.patch(plan, ID, path, old, new)
    return str(raised.value)


def test_refusals_say_what_would_do(plan: dict[str, Any], repository: Path, tmp_path: Path) -> None:
    code = repository / "project"
    (code / "link.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "outside.py").write_text("lr = 1\n")
    (code / "latin.py").write_bytes(b"caf\xe9\n")
    assert "spaces and line breaks count" in refused(plan, "train.py", "def  main():")
    assert "line 6: def main():" in refused(plan, "train.py", "def  main():")
    assert "stands 2 times in train.py (lines 6, 10)" in refused(plan, "train.py", "main()")
    assert "did you mean train.py?" in refused(plan, "trian.py", "lr = 1")
    assert "no valid Python any more (line 3" in refused(plan, "train.py", "lr = 1", "lr = (")
    assert "leads out of the private copy" in refused(plan, "link.py", "lr = 1")
    assert "leads out of the private copy" in refused(plan, "data/train.jsonl", "{}")
    assert "inside the codebase" in refused(plan, "../.git/config", "[core]")
    assert "no UTF-8 text" in refused(plan, "latin.py", "caf")
    assert "nothing would change" in refused(plan, "train.py", "lr = 1", "lr = 1")
    assert (tmp_path / "outside.py").read_text() == "lr = 1\n"


def test_without_a_repository_or_a_commit_nothing_can_be_patched(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "train.py").write_text("lr = 1\n")
    plan = {"codebase_dir": str(plain), "venv_exe": sys.executable}
    assert "only in a git repository" in refused(plan, "train.py", "lr = 1")
    git(plain, "init", "-q")
    assert "no commit yet" in refused(plan, "train.py", "lr = 1")


def test_line_breaks_of_the_file_are_kept(plan: dict[str, Any], repository: Path) -> None:
    (repository / "project" / "dos.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    worktree.patch(plan, ID, "dos.py", "a = 1\nb = 2", "a = 1\nb = 3")
    assert (worktree.folder(plan, ID) / "dos.py").read_bytes() == b"a = 1\r\nb = 3\r\n"


def test_what_is_large_or_no_code_is_linked_and_said(
    plan: dict[str, Any], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_copy, "LARGEST_COPIED", 1000)
    code = repository / "project"
    (code / "corpus.txt").write_text("x" * 2000)
    (code / "images").mkdir()
    for number in range(3):
        (code / "images" / f"{number}.png").write_text("x" * 500)
    (code / "env").mkdir()
    (code / "env" / "pyvenv.cfg").write_text("")
    (code / "results").mkdir()
    (code / "results" / "journal.jsonl").write_text("")
    shown = worktree.patch({**plan, "result_dir": str(code / "results")}, ID, "train.py", "lr = 1", "lr = 2")
    copy = worktree.folder(plan, ID)
    for name in ("corpus.txt", "images", "env", "results"):
        assert (copy / name).is_symlink()
        assert (copy / name).resolve() == code / name
    assert "project/corpus.txt is 0 MB large: linked, not copied" in shown
    assert "project/env/ is a virtual environment" in shown
    assert "results" not in shown


def test_submodules_and_nested_repositories_are_linked(repository: Path, plan: dict[str, Any]) -> None:
    nested = repository / "project" / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "code.py").write_text("x = 1\n")
    git(nested, "add", ".")
    git(nested, "commit", "-q", "-m", "x")
    shown = worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    assert "project/nested/ is a repository of its own: linked" in shown
    assert (worktree.folder(plan, ID) / "nested" / "code.py").exists()
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "project/nested")
    worktree.remove(plan, ID)
    assert "project/nested is a submodule: linked" in worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")


def test_command_points_into_the_copy_where_the_copy_has_its_own(
    repository: Path, plan: dict[str, Any]
) -> None:
    worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    home, copy = repository / "project", worktree.folder(plan, ID)
    swapped = {
        f"python {home}/train.py --lr 1": f"python {copy}/train.py --lr 1",
        f"cd {home} && python train.py": f"cd {copy} && python train.py",
        f"cd {home}/; python x": f"cd {copy}/; python x",
        f'python "{home}/train.py"': f'python "{copy}/train.py"',
        f"bash -c 'cd {home} && python train.py'": f"bash -c 'cd {copy} && python train.py'",
        f"PYTHONPATH={home}:/opt python --config={home}/model.py": (
            f"PYTHONPATH={copy}:/opt python --config={copy}/model.py"
        ),
        f"python {repository}/project/train.py": f"python {copy}/train.py",
    }
    for command, expected in swapped.items():
        assert worktree.relocate(command, plan, ID) == expected
    for command in (
        f"python {home}2/train.py",
        f"python /mnt{home}/train.py",
        f"python train.py --data {home}/data/train.jsonl --out {home}/runs/new",
        f"python {home}/../secret.py",
    ):
        assert worktree.relocate(command, plan, ID) == command


def test_patched_code_is_what_runs_even_if_installed_from_the_authors_folder(
    repository: Path, plan: dict[str, Any], tmp_path: Path
) -> None:
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "_project.pth").write_text(f"{repository}/project\n")
    plan["venv_exe"] = str(tmp_path / "venv" / "bin" / "python")
    worktree.patch(plan, ID, "model.py", "'edited'", "'mended'")
    given = {"PYTHONPATH": f"/opt/x:{repository}/project/src"}
    variables = worktree.variables(plan, ID, given)
    assert variables["PYTHONPATH"].split(":")[0] == str(worktree.folder(plan, ID))
    done = subprocess.run(
        [sys.executable, "-c", "import model; print(model.name)"],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "mended\n"
    assert worktree.variables({**plan, "venv_exe": "/usr/bin/none"}, ID, {}) == {}


def test_copy_is_removed_but_not_what_only_it_has(plan: dict[str, Any]) -> None:
    worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    copy = worktree.folder(plan, ID)
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"x")
    (copy / "model.pt").write_text("weights")
    assert worktree.remove(plan, ID) == copy
    assert (copy / "model.pt").exists()
    (copy / "model.pt").unlink()
    assert worktree.remove(plan, ID) is None
    assert not copy.exists()
    assert "+lr = 2" in private_copy.place_of(ID).with_name(f"{ID}.diff").read_text()
    assert worktree.remove(plan, ID) is None


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("run.sh", "set -e\ncd {home} && python train.py\n", "run.sh:2"),
        ("main.py", "import sys\nsys.path.insert(0, '{home}')\n", "main.py:2"),
        ("main.py", "import sys\nsys.path.insert(0, '{home}/src/../')\n", "main.py:2"),
        ("conf/run.yaml", "entry: {home}/train.py\n", "conf/run.yaml:1"),
        ("Makefile", "train:\n\tpython {home}/train.py\n", "Makefile:2"),
    ],
)
def test_code_that_leads_back_to_the_authors_folder_is_not_launched(
    plan: dict[str, Any], repository: Path, name: str, text: str, where: str
) -> None:
    file = repository / "project" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text.format(home=repository / "project"))
    git(repository, "add", ".")
    why = refused(plan, "train.py", "lr = 1", "lr = 2")
    assert why.startswith(f"{where} ({repository / 'project'}")
    assert "write it relative to the codebase" in why
    file.write_text(text.format(home="."))
    private_copy.forget(private_copy.place_of(ID), repository)
    assert "+lr = 2" in worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    file.write_text(text.format(home=repository / "project"))
    private_copy.forget(private_copy.place_of(ID), repository)
    with pytest.raises(worktree.PatchError, match=where):
        worktree.folder(plan, ID, [{"path": "train.py", "old": "lr = 1", "new": "lr = 2"}])


def test_lines_that_lead_back_can_be_corrected_one_after_the_other(
    plan: dict[str, Any], repository: Path
) -> None:
    home = repository / "project"
    for name in ("a.sh", "b.sh"):
        (home / name).write_text(f"python {home}/train.py\n")
    patches = [{"path": name, "old": f"{home}/", "new": ""} for name in ("a.sh", "b.sh")]
    assert "b.sh:1" in refused(plan, "train.py", "lr = 1", "lr = 2")
    for item in patches:
        worktree.patch(plan, ID, **item)
    assert "+lr = 2" in worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    patches.append({"path": "train.py", "old": "lr = 1", "new": "lr = 2"})
    assert (worktree.folder(plan, ID, patches) / "a.sh").read_text() == "python train.py\n"


def test_what_the_copy_only_links_to_may_be_named_by_its_absolute_path(
    plan: dict[str, Any], repository: Path
) -> None:
    home = repository / "project"
    (home / "run.sh").write_text(
        f"# cd {home}\npython train.py --data {home}/data/train.jsonl --out {home}/runs/1 --also {home}2\n"
    )
    (home / "earlier" / "attempts").mkdir(parents=True)
    (home / "earlier" / "journal.jsonl").write_text("")
    (home / "earlier" / "attempts" / "launch.sh").write_text(f"cd {home}\n")
    assert "+lr = 2" in worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")


def test_command_and_config_that_lead_back_are_refused(
    plan: dict[str, Any], repository: Path, tmp_path: Path
) -> None:
    home = repository / "project"
    config = tmp_path / "config.yaml"
    config.write_text(f"lr: 1\nreward: {home}/model.py\n")
    assert "config.yaml:2" in refused({**plan, "yaml_path": str(config)}, "train.py", "lr = 1", "lr = 2")
    hidden = f"python ${{X:-{home}/train.py}}"
    why = refused({**plan, "launch_command": hidden}, "train.py", "lr = 1", "lr = 2")
    assert why.startswith("the launch command (")
    worktree.patch(plan, ID, "train.py", "lr = 1", "lr = 2")
    with pytest.raises(worktree.PatchError, match="launch command"):
        worktree.relocate(hidden, plan, ID)
    assert worktree.relocate(f"python {home}/src/../train.py", plan, ID).endswith(
        "ktrees/7f3a00000000/project/train.py"
    )
