"""Sessions on a real tmux server of the test's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from monitors.tmux import Session, TmuxError, session_name
from tests.monitors.tmux_world import until


def tmux(*arguments: str) -> str:
    command = ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("purpose", "name"),
    [
        ("Math: top.k ablation", "ajet_math_top_k_ablation-7f3a-01"),
        ("ajet_math", "ajet_math-7f3a-01"),
        ("Größe — 数学", "ajet_grosse-7f3a-01"),
        ("数学", "ajet_experiment-7f3a-01"),
        ("x" * 500, f"ajet_{'x' * 40}-7f3a-01"),
    ],
)
def test_names(purpose: str, name: str) -> None:
    assert session_name(purpose, "7f3a", 1) == name


def test_targets_are_exact(tmp_path: Path) -> None:
    longer = Session.create("ajet_one_two", tmp_path)
    assert Session.find("ajet_one") is None
    assert Session.find("ajet_one_two") is not None
    shorter = Session.create("ajet_one", tmp_path)
    shorter.kill()
    assert longer.exists() and not shorter.exists()


def test_d15_a_session_is_found_on_another_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.create("ajet_far", tmp_path)
    (path,) = tmux("display-message", "-p", "#{socket_path}").split()
    assert session.switch_argv(f"{path},12,0") == ["tmux", "switch-client", "-t", "=ajet_far"]
    assert session.switch_argv(f"{path}-of-another,12,0") is None
    there = os.environ["AJET_TMUX_SOCKET"]
    monkeypatch.setenv("AJET_TMUX_SOCKET", f"{there}-nothing-here")
    assert Session.find("ajet_far") is None
    found = Session.find_anywhere("ajet_far")
    assert found is not None and found.attach_argv()[1:3] == ["-L", there]
    assert Session.find_anywhere("ajet_nowhere") is None


def test_create_refuses_what_cannot_work(tmp_path: Path) -> None:
    Session.create("ajet_x", tmp_path)
    with pytest.raises(TmuxError, match="already there"):
        Session.create("ajet_x", tmp_path)
    with pytest.raises(TmuxError, match="use letters"):
        Session.create("a.b", tmp_path)
    with pytest.raises(TmuxError, match=r"missing: No such file or directory"):
        Session.create("ajet_y", tmp_path / "missing")


def test_only_our_sessions_are_killed(tmp_path: Path) -> None:
    ours = Session.create("ajet_ours", tmp_path)
    tmux("new-session", "-d", "-s", "theirs")
    theirs = Session.find("theirs")
    assert theirs is not None
    with pytest.raises(TmuxError, match="not created by us"):
        theirs.kill()
    assert theirs.exists()
    ours.kill()
    ours.kill()
    assert not ours.exists()


def test_history_is_large_and_the_users_setting_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmux("new-session", "-d", "-s", "first")
    tmux("set-option", "-g", "history-limit", "1234")
    Session.create("ajet_h", tmp_path)
    assert int(tmux("display-message", "-p", "-t", "=ajet_h:", "#{history_limit}")) >= 100_000
    assert tmux("show-options", "-gv", "history-limit").strip() == "1234"
    monkeypatch.setattr(Session, "exists", lambda _: False)  # the name is taken in between
    with pytest.raises(TmuxError, match="duplicate"):
        Session.create("first", tmp_path)
    assert tmux("show-options", "-gv", "history-limit").strip() == "1234"


@pytest.mark.parametrize(
    "name", ["#(touch pwned)", "#{pid} %H #S", "ends in ;", "a\nb", "\udce9\x1b[31m", "-x"]
)
async def test_a_path_is_no_expression(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    folder.mkdir()
    session = Session.create("ajet_p", folder)
    session.type_line("echo > here")
    await until(lambda: (folder / "here").exists(), "the shell in its folder")
    assert not (tmp_path / "pwned").exists()


def test_nothing_of_our_environment_stays_in_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-model")
    monkeypatch.setenv("LC_TIME", "C")
    Session.create("ajet_first", tmp_path)
    tmux("set-option", "-g", "update-environment", "ANTHROPIC_API_KEY")
    Session.create("ajet_second", tmp_path)
    assert "LC_TIME=C" in tmux("show-environment", "-g")
    for scope in ("-g", "-t=ajet_first", "-t=ajet_second"):
        assert "sk-model" not in tmux("show-environment", scope)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("echo 'a b' > out;", "a b\n"),
        ("printf '%s' '; $HOME -x' > out", "; $HOME -x"),
        ("echo C-c Enter > out", "C-c Enter\n"),
    ],
)
async def test_typed_line_arrives_as_it_is(tmp_path: Path, text: str, printed: str) -> None:
    session = Session.create("ajet_t", tmp_path)
    session.type_line(f"{text} touch done;" if text.endswith(";") else f"{text}; touch done;")
    await until(lambda: (tmp_path / "done").exists(), "the typed line")
    assert (tmp_path / "out").read_text() == printed
    await until(lambda: "touch done;" in "\n".join(session.capture(20)), "the screen")
    with pytest.raises(TmuxError, match="one line"):
        session.type_line("a\nb")


def test_missing_tmux_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TmuxError, match="apt-get install tmux"):
        Session.create("ajet_x", tmp_path)
