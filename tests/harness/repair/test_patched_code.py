"""Code is corrected in a private copy, and a launch runs that copy and no other code."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.blueprint import Blueprint
from harness.pending_changes import PendingChanges
from harness.repair import patched_code
from harness.repair.patched_code import PatchedCode, PatchError
from harness.state import ExperimentState
from tests.harness.repair.test_code_copy import TRAIN, everything, git, repository
from tests.harness.runs import planned

__all__ = ["repository"]
ID = "7f3a00000000"
FASTER = {"path": "train.py", "old": "lr = 1", "new": "lr = 2"}


@pytest.fixture(autouse=True)
def _no_settings_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.fixture
def plan(repository: Path, tmp_path: Path) -> Blueprint:
    return planned_in(repository / "project", tmp_path)


def planned_in(codebase: Path, folder: Path) -> Blueprint:
    return planned({"codebase_dir": codebase, "result_dir": folder / "results", "venv_exe": sys.executable})


def the_copy() -> PatchedCode:
    code = patched_code.find(ID)
    assert code is not None
    return code


def folder() -> Path:
    return the_copy().copy.codebase


def relocate(command: str) -> str:
    return the_copy().relocated(command)


def state(plan: Blueprint, *patches: dict[str, str]) -> ExperimentState:
    draft = PendingChanges(patches=patches)
    return ExperimentState(experiment_id=ID, blueprint=plan, draft=draft)


def launched(plan: Blueprint, patches: list[dict[str, str]]) -> Path:
    return patched_code.for_launch(state(plan, *patches))[0].copy.codebase


def patch(plan: Blueprint, path: str, old: str, new: str) -> str:
    """One more correction after those that the copy has had."""
    code = patched_code.find(ID)
    made = [{"path": x.path, "old": x.old, "new": x.new} for x in code.patches] if code else []
    return patched_code.patch(state(plan, *made), path, old, new)


def test_only_the_copy_is_changed(repository: Path, plan: Blueprint) -> None:
    before = everything(repository)
    shown = patch(plan, "train.py", "lr = 1\n", "lr = 1\nprint(lr)\n")
    assert "+print(lr)\n" in shown and "@@" in shown
    assert everything(repository) == before
    copy = folder()
    assert (copy / "train.py").read_text() == TRAIN.replace("lr = 1\n", "lr = 1\nprint(lr)\n")
    again = patch(plan, "train.py", "lr = 1\n", "lr = 1\nprint(lr)\n")
    assert again == f"train.py holds this change already\n{shown}"
    removed = patch(plan, "train.py", "print(lr)\n", "")
    assert patch(plan, "train.py", "print(lr)\n", "").endswith(removed)
    patched_code.remove(ID)
    assert everything(repository) == before


def test_code_outside_of_git_is_corrected_in_a_plain_copy(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "train.py").write_text("lr = 1\n")
    assert "+lr = 2" in patch(planned_in(plain, tmp_path), *FASTER.values())
    assert (plain / "train.py").read_text() == "lr = 1\n"
    assert not the_copy().copy.commit and the_copy().patches[0].path == "train.py"


@pytest.mark.parametrize("moment", ["harness.repair.patched_code.write_atomically", "shutil.copy2"])
def test_a_kill_is_made_good(plan: Blueprint, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(moment, die)
        with pytest.raises(KeyboardInterrupt):
            patch(plan, **FASTER)
    assert patched_code.place_of(ID).exists()
    assert "+lr = 2" in patch(plan, **FASTER)
    assert "lr = 2" in (folder() / "train.py").read_text()
    assert the_copy().diffs([FASTER]).count("+lr = 2") == 1


def test_launch_gets_all_patches_even_when_the_cache_was_emptied(plan: Blueprint) -> None:
    further = {"path": "train.py", "old": "lr = 2", "new": "lr = 3"}
    patches = [FASTER, further, further]
    for item in patches:
        patch(plan, **item)
    copy = launched(plan, patches)
    (copy / "mark").write_text("still the same copy")
    assert (launched(plan, patches) / "mark").exists()
    patched_code.forget(ID, plan.codebase_dir)
    assert "lr = 3" in (launched(plan, patches) / "train.py").read_text()
    assert the_copy().diffs(patches[1:]).count("@@") == 2


def refused(plan: Blueprint, path: str, old: str, new: str = "x") -> str:
    with pytest.raises(PatchError) as raised:
        patch(plan, path, old, new)
    return str(raised.value)


def test_refusals_say_what_would_do(plan: Blueprint, repository: Path, tmp_path: Path) -> None:
    code = repository / "project"
    (code / "link.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "outside.py").write_text("lr = 1\n")
    (code / "latin.py").write_bytes(b"caf\xe9\n")
    (code / "dos.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    assert "spaces and line breaks count" in refused(plan, "train.py", "def  main():")
    assert "stands 2 times in train.py" in refused(plan, "train.py", "main()")
    assert "no source file of the codebase" in refused(plan, "trian.py", "lr = 1")
    assert "no valid Python any more (line 3" in refused(plan, "train.py", "lr = 1", "lr = (")
    for path, old in (("link.py", "lr = 1"), ("data/train.jsonl", "{}"), ("../.git/config", "[core]")):
        assert "only linked there is not changed" in refused(plan, path, old)
    assert "no UTF-8 text" in refused(plan, "latin.py", "caf")
    assert "nothing would change" in refused(plan, "train.py", "lr = 1", "lr = 1")
    assert (tmp_path / "outside.py").read_text() == "lr = 1\n"
    patch(plan, "dos.py", "a = 1\nb = 2", "a = 1\nb = 3")
    assert (folder() / "dos.py").read_bytes() == b"a = 1\r\nb = 3\r\n", "its line breaks are kept"


def test_command_points_into_the_copy_where_the_copy_has_its_own(repository: Path, plan: Blueprint) -> None:
    patch(plan, **FASTER)
    home, copy = repository / "project", folder()
    swapped = (
        "python {home}/train.py --lr 1",
        "cd {home} && python train.py",
        "cd {home}/; python x",
        'python "{home}/train.py"',
        "bash -c 'cd {home} && python train.py'",
        "PYTHONPATH={home}:/opt python --config={home}/model.py",
    )
    for command in swapped:
        assert relocate(command.format(home=home)) == command.format(home=copy)
    for command in (
        f"python {home}2/train.py",
        f"python /mnt{home}/train.py",
        f"python train.py --data {home}/data/train.jsonl --out {home}/runs/new",
        f"python {home}/../secret.py",
    ):
        assert relocate(command) == command


def test_patched_code_runs_even_if_installed(repository: Path, plan: Blueprint, tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "_project.pth").write_text(f"{repository}/project\n")
    plan = replace(plan, venv_exe=tmp_path / "venv" / "bin" / "python")
    patch(plan, "model.py", "'edited'", "'corrected'")
    given = {"PYTHONPATH": f"/opt/x:{repository}/project/src"}
    variables = the_copy().variables(plan.venv_exe, given)
    assert variables["PYTHONPATH"].split(":")[0] == str(folder())
    python = [sys.executable, "-c", "import model; print(model.name)"]
    given = {**os.environ, **variables}
    done = subprocess.run(python, cwd=tmp_path, env=given, capture_output=True, text=True, check=True)
    assert done.stdout == "corrected\n"
    assert the_copy().variables(Path("/usr/bin/none"), {}) == {}


def test_copy_is_removed_but_not_what_only_it_has(plan: Blueprint) -> None:
    patch(plan, **FASTER)
    copy = folder()
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"x")
    (copy / "model.pt").write_text("weights")
    assert patched_code.remove(ID) == copy
    assert (copy / "model.pt").exists()
    (copy / "model.pt").unlink()
    assert patched_code.remove(ID) is None and not copy.exists()
    assert "+lr = 2" in patched_code.place_of(ID).with_name(f"{ID}.diff").read_text()
    assert patched_code.remove(ID) is None


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
def test_no_line_may_lead_back(plan: Blueprint, repository: Path, name: str, text: str, where: str) -> None:
    file = repository / "project" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text.format(home=repository / "project"))
    git(repository, "add", ".")
    why = refused(plan, **FASTER)
    assert why.startswith(f"{where} ({repository / 'project'}")
    assert "write it relative to the codebase" in why
    file.write_text(text.format(home="."))
    patched_code.forget(ID, repository)
    assert "+lr = 2" in patch(plan, **FASTER)
    file.write_text(text.format(home=repository / "project"))
    patched_code.forget(ID, repository)
    with pytest.raises(PatchError, match=where):
        launched(plan, [FASTER])


def test_lines_that_lead_back_can_be_corrected_one_after_the_other(plan: Blueprint, repository: Path) -> None:
    home = repository / "project"
    for name in ("a.sh", "b.sh"):
        (home / name).write_text(f"python {home}/train.py\n")
    patches = [{"path": name, "old": f"{home}/", "new": ""} for name in ("a.sh", "b.sh")]
    assert "b.sh:1" in refused(plan, **FASTER)
    for item in patches:
        patch(plan, **item)
    assert "+lr = 2" in patch(plan, **FASTER)
    patches.append(FASTER)
    assert (launched(plan, patches) / "a.sh").read_text() == "python train.py\n"


def test_what_is_only_linked_may_have_its_absolute_path(plan: Blueprint, repository: Path) -> None:
    home = repository / "project"
    named = f"--data {home}/data/train.jsonl --out {home}/runs/1 --also {home}2"
    (home / "run.sh").write_text(f"# cd {home}\npython train.py {named}\n")
    (home / "earlier" / "attempts").mkdir(parents=True)
    (home / "earlier" / "journal.jsonl").write_text("")
    (home / "earlier" / "attempts" / "launch.sh").write_text(f"cd {home}\n")
    assert "+lr = 2" in patch(plan, **FASTER)


def test_no_command_or_config_may_lead_back(plan: Blueprint, repository: Path, tmp_path: Path) -> None:
    home = repository / "project"
    config = tmp_path / "config.yaml"
    config.write_text(f"lr: 1\nreward: {home}/model.py\n")
    assert "config.yaml:2" in refused(replace(plan, yaml_path=config), **FASTER)
    hidden = f"python ${{X:-{home}/train.py}}"
    why = refused(replace(plan, launch_command=hidden), **FASTER)
    assert why.startswith("the launch command (")
    patch(plan, **FASTER)
    with pytest.raises(PatchError, match="launch command"):
        relocate(hidden)
    assert relocate(f"python {home}/src/../train.py").endswith("ktrees/7f3a00000000/project/train.py")


@given(
    st.lists(st.sampled_from(["a\n", "b\n", "  a\n", "\n"])), st.lists(st.sampled_from(["a\n", "c\n", ""]))
)
def test_the_smallest_change_makes_one_text_of_the_other(before: list[str], after: list[str]) -> None:
    here, there = "".join(before), "".join(after)
    old, new = patched_code.smallest_change(here, there)
    assert here == there or here.count(old) == 1 or not old
    assert here.replace(old, new, 1) == there


def test_what_a_training_makes_of_its_copy_is_put_back_and_shown(plan: Blueprint, tmp_path: Path) -> None:
    """Also where it has put links in the way, through which nothing may be written."""
    (plan.codebase_dir / "src" / "net.py").write_text("depth = 3\n")
    here = launched(plan, [FASTER])
    (outside := tmp_path / "outside").mkdir()
    corrected, weights = (here / "train.py").read_text(), here / "weights.bin"
    (here / "train.py").write_text("print('accuracy 1.0')\n")
    (here / "numpy.py").write_text("forged = 1\n")
    weights.write_bytes(b"learnt")
    (here / "__pycache__").mkdir()
    (here / "__pycache__" / "train.cpython-311.pyc").write_bytes(b"forged")
    inner = here / "src" / "net.py"
    shutil.rmtree(inner.parent)
    inner.parent.symlink_to(outside)
    deeper = {"path": "src/net.py", "old": "depth = 3", "new": "depth = 4"}
    patched_code.patch(state(plan, FASTER), **deeper)
    code, done = patched_code.for_launch(state(plan, FASTER, deeper))
    assert (here / "train.py").read_text() == corrected and inner.read_text() == "depth = 4\n"
    assert not inner.parent.is_symlink() and not list(outside.iterdir())
    assert weights.read_bytes() == b"learnt" and not (here / "__pycache__").exists()
    assert "-print('accuracy 1.0')" in done and "+forged = 1" in done and "train.py" in done
    assert patched_code.find(ID) == code
