"""Only files of the experiment are read, and only code that the blueprint names is changed."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.actions import PatchCode, ReadFile
from harness.agent import disk_access
from harness.agent.disk_access import resolve_reading
from harness.agent.excerpts import NotShownError
from harness.blueprint.names import UNATTENDED
from harness.blueprint.types import Blueprint
from harness.guard import file_access
from harness.guard.file_access import looks_private, matches
from harness.state import ExperimentState


def planned(plan: dict[str, Any]) -> Blueprint:
    return replace(ExperimentState().blueprint, codebase_dir=Path(plan["codebase_dir"]))


def refuse_reading(path: str, result: Path, plan: dict[str, Any]) -> str | None:
    """What the guard and then the disk say."""
    action = ReadFile.model_construct(path=path)
    return file_access.refuse_reading(path) or disk_access.refuse(action, result, planned(plan))


def refused_patch(path: str, plan: dict[str, Any]) -> str | None:
    action = PatchCode.model_construct(path=path)
    named = file_access.refuse_patching(path, plan.get("code_changes") or ())
    return named or disk_access.refuse(action, Path("/nowhere"), planned(plan))


class Home:
    """A home folder with a codebase, a result folder, and secrets around them."""

    def __init__(self, root: Path) -> None:
        self.root, self.codebase, self.result = root, root / "code", root / "results" / "run"
        self.plan = {"codebase_dir": str(self.codebase), "code_changes": ("**",)}
        code = """train.py src/data_loader.py src/reward.py eval/run.py conf.yaml README rows.jsonl .env
            .git/config secrets.yaml hf_token.txt conftest.py sitecustomize.py setup.py Makefile
            venv/lib/site-packages/torch.py"""
        run = """attempts/01/pane.log attempts/01/metrics.jsonl attempts/01/launch.sh
            transcript.jsonl journal.jsonl key.pem"""
        files = [f"code/{name}" for name in code.split()] + [f"results/run/{name}" for name in run.split()]
        for path in (*files, "other.py", "outside/other.py"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("x = 1")
        (self.codebase / "binary.txt").write_text("a\0b")

    def refusal(self, path: str) -> str | None:
        return refuse_reading(path, self.result, self.plan)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


READ = """attempts/01/pane.log attempts/01/metrics.jsonl ./attempts//01/pane.log journal.jsonl train.py
    src/data_loader.py conf.yaml README Makefile"""


def test_files_of_the_experiment_are_read(home: Home) -> None:
    for path in READ.split():
        assert home.refusal(path) is None, path
        assert resolve_reading(path, home.result, home.codebase).is_file()
    assert home.refusal(str(home.codebase / "train.py")) is None
    assert "leads out" in str(home.refusal(str(home.root / "other.py")))


REFUSED = """../other.py attempts/../../../other.py src/../train.py ~/other.py ~root/.bashrc /etc/passwd
    /proc/self/environ /dev/zero ..\\other.py .env .git/config secrets.yaml hf_token.txt key.pem rows.jsonl
    binary.txt transcript.jsonl attempts/01/launch.sh attempts src nothing.py %2e%2e/other.py
    \uff0e\uff0e/other.py file:///etc/passwd train.py\u202e $HOME/other.py"""


def test_everything_else_is_refused(home: Home) -> None:
    for path in (*REFUSED.split(), "a\0b", "a\nb", "", "x" * 600):
        assert home.refusal(path) is not None, path
        with pytest.raises(NotShownError):
            resolve_reading(path, home.result, home.codebase)


@pytest.mark.parametrize("name", ["attempts/01/launch.sh", "launch.sh"])
def test_private_files_of_other_experiments_are_refused_too(home: Home, name: str) -> None:
    earlier = home.codebase / "exp_results" / "earlier"
    (earlier / name).parent.mkdir(parents=True)
    (earlier / name).write_text("export A=1")
    assert home.refusal(f"exp_results/earlier/{name}") is None, "a script of the author's"
    (earlier / "journal.jsonl").write_text("")
    assert "own record" in str(home.refusal(f"exp_results/earlier/{name}"))
    assert "own record" in str(home.refusal(str(earlier / name)))


LINKS = "link.py up/other.py up/outside/other.py readme.txt circle broken harmless.txt"


def test_links_are_followed_before_the_judgement(home: Home) -> None:
    (home.codebase / "link.py").symlink_to(home.root / "other.py")
    (home.codebase / "up").symlink_to(home.root)
    (home.result / "readme.txt").symlink_to("/etc/passwd")
    (home.result / "circle").symlink_to("circle")
    (home.result / "broken").symlink_to("nowhere")
    (home.codebase / "harmless.txt").symlink_to(home.codebase / ".env")
    (home.codebase / "inside.py").symlink_to(home.codebase / "train.py")
    for path in LINKS.split():
        assert home.refusal(path) is not None, path
    assert home.refusal("inside.py") is None


def test_a_pipe_is_refused_without_being_opened_and_a_large_file_names_the_tools_for_it(home: Home) -> None:
    os.mkfifo(home.result / "pipe")
    (home.result / "zero").symlink_to("/dev/zero")
    assert "pipe" in str(home.refusal("pipe"))
    assert home.refusal("zero") is not None
    with (home.result / "big.log").open("wb") as file:
        file.truncate(30_000_000)
    assert "search_log" in str(home.refusal("big.log"))


def test_a_result_folder_inside_the_codebase_is_read_by_its_own_rules(home: Home) -> None:
    plan = {"codebase_dir": str(home.root)}
    assert refuse_reading("results/run/attempts/01/metrics.jsonl", home.result, plan) is None
    assert refuse_reading("results/run/transcript.jsonl", home.result, plan) is not None


@pytest.mark.parametrize("wide", ["/", "~", "~/.."])
def test_a_codebase_around_home_is_not_read(home: Home, wide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home.codebase))
    plan = {"codebase_dir": str(Path(wide).expanduser()), "code_changes": ("**",)}
    assert "home folder" in str(refuse_reading("train.py", home.result, plan))
    assert refuse_reading("attempts/01/pane.log", home.result, plan) is None
    assert "home folder" in str(refused_patch("train.py", plan))


_NAMES = ".. . ~ attempts 01 pane.log up outside other.py link.py train.py src"
_PARTS = st.sampled_from([*_NAMES.split(), "", "a\0"])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PARTS, min_size=1, max_size=6), st.booleans())
def test_nothing_outside_is_ever_accepted(home: Home, parts: list[str], absolute: bool) -> None:
    for name, target in {"up": home.root, "link.py": home.root / "other.py"}.items():
        for folder in (home.codebase, home.result):
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(target)
    path = "/".join(parts)
    try:
        found = resolve_reading(f"{home.codebase}/{path}" if absolute else path, home.result, home.codebase)
    except NotShownError:
        return
    assert found == found.resolve()
    assert found.is_relative_to(home.codebase) or found.is_relative_to(home.result)


PRIVATE = """.env .ssh id_rsa id_ed25519.bak server.pem my.key credentials aws_credentials.json secrets.py
    api_keys.py apiKeys.json token HF_TOKEN gcp-service-account.json passwd harness.toml db-password.txt"""
OPEN = """train.py tokenizer.json token_loss.py special_tokens_map.json keys.py monkey.py keyboard.yaml
    pane.log id_card.py environment.yaml src"""


def test_private_names() -> None:
    assert [name for name in PRIVATE.split() if not looks_private(name)] == []
    assert [name for name in OPEN.split() if looks_private(name)] == []


class TestPatching:
    def test_nothing_without_the_authors_leave(self, home: Home) -> None:
        for changes in ((), None, (UNATTENDED,)):
            refusal = refused_patch("train.py", {**home.plan, "code_changes": changes})
            assert "exp_code_changes" in str(refusal)
        assert refused_patch("train.py", {"codebase_dir": str(home.codebase)}) is not None

    NEVER = """../other.py /etc/profile.sh .git/hooks.py conf.yaml rows.jsonl README nothing.py conftest.py
        sitecustomize.py setup.py venv/lib/site-packages/torch.py src secrets.py train.py\0 ~/other.py"""

    def test_nothing_but_source_code_of_the_codebase(self, home: Home) -> None:
        assert [path for path in self.NEVER.split() if refused_patch(path, home.plan) is None] == []
        for path in ("train.py", "src/data_loader.py", "./train.py"):
            assert refused_patch(path, home.plan) is None
        only = {**home.plan, "code_changes": ("src/*.py",)}
        assert refused_patch("src/data_loader.py", only) is None
        assert "src/*.py" in str(refused_patch("train.py", only))

    def test_no_links(self, home: Home) -> None:
        (home.codebase / "link.py").symlink_to(home.root / "other.py")
        (home.codebase / "up").symlink_to(home.root / "outside")
        assert "symbolic link" in str(refused_patch("link.py", home.plan))
        assert "symbolic link" in str(refused_patch("up/other.py", home.plan))

    @pytest.mark.parametrize("path", ["src/reward.py", "eval/run.py"])
    def test_what_computes_results_has_to_be_named(self, home: Home, path: str) -> None:
        for glob in ("**", "*/*.py", "src/*", "**/*.py", "?rc/r*.py"):
            assert refused_patch(path, {**home.plan, "code_changes": (glob,)}) is not None
        named = "src/reward.py" if "reward" in path else "eval/*.py"
        assert refused_patch(path, {**home.plan, "code_changes": (named,)}) is None

    def test_a_name_is_held_for_its_words(self, home: Home) -> None:
        held = ["grader.py", "math_grade.py", "MathGrader.py", "autograder.py"]
        for name in ("upgrade_cache.py", "gradient.py", *held):
            (home.codebase / name).write_text("")
            assert (refused_patch(name, home.plan) is not None) is (name in held), name


def test_globs() -> None:
    hits = "a.py:** a/b/c.py:** a.py:*.py a/b.py:**/*.py b.py:**/*.py a/x/y/b.py:a/**/b.py a/b.py:a/**/b.py"
    misses = "a/b.py:*.py a/b.py:a A/b.py:a/*.py"
    for pair in f"{hits} a/b.py:a/ a/b.py:./a/*.py a/b.py:a/?.py {misses}".split():
        path, glob = pair.split(":")
        assert matches(Path(path), glob) is (pair not in misses.split()), pair
