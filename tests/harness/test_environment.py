"""Every launch of a run has the variables of the first; secrets are known again, and kept nowhere."""

import os
from pathlib import Path

import pytest

from harness import environment
from harness.environment import (
    ANOTHER,
    AS_BEFORE,
    LEASED,
    MISSING,
    KeptEnvironment,
    known_secrets,
    remembered,
)
from harness.redaction import MASK, NO_SECRETS, redact

NOT_HIDDEN: frozenset[str] = frozenset()
FIRST = {
    "A": "1",
    "CUDA_VISIBLE_DEVICES": "3",
    "ODD": "\udce9",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/ada/key.json",
    "USE_AUTH": "true",
    "SSH_AUTH_SOCK": "/tmp/first/agent",
    "WANDB_API_KEY": "first-key-zq81",
    "MY_TOKEN": "tok-first-77",
    "PIN_PASS": "1234",
    "DB_PASSWORD": "training",
    "http_proxy": "http://bob:hunter2secret@proxy:3128",
    "LINES_KEY": "-- one line of it --\n-- another line --",
}
LATER = {
    "A": "2",
    "B": "new",
    "SSH_AUTH_SOCK": "/tmp/later/agent",
    "WANDB_API_KEY": "another-key-99",
    "PIN_PASS": "1234",
    "DB_PASSWORD": "training",
    "http_proxy": FIRST["http_proxy"],
    "LINES_KEY": FIRST["LINES_KEY"],
}


def shell(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.setattr(os, "environ", dict(variables))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was started in a shell with FIRST."""
    shell(monkeypatch, FIRST)
    environment.launched(tmp_path, 1, NOT_HIDDEN)
    return tmp_path


def test_a_later_launch_takes_secrets_alone_from_its_own_shell(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell(monkeypatch, LATER)
    environment.launched(run, 2, NOT_HIDDEN)
    found = environment.of_training(run, NOT_HIDDEN)
    own = {"SSH_AUTH_SOCK": LATER["SSH_AUTH_SOCK"], "WANDB_API_KEY": LATER["WANDB_API_KEY"]}
    assert found == {name: value for name, value in {**FIRST, **own}.items() if name != "MY_TOKEN"}
    assert environment.differences(run, 1) == []
    assert environment.differences(run, 2) == [
        ("MY_TOKEN", AS_BEFORE, MISSING),
        ("WANDB_API_KEY", AS_BEFORE, ANOTHER),
    ]
    shell(monkeypatch, FIRST)
    environment.launched(run, 3, NOT_HIDDEN)
    assert environment.differences(run, 3) == [
        ("MY_TOKEN", MISSING, AS_BEFORE),
        ("WANDB_API_KEY", ANOTHER, AS_BEFORE),
    ]


def test_what_was_kept_names_secrets_and_holds_none(run: Path) -> None:
    file = run / "attempts" / "environment.json"
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    secrets = ("WANDB_API_KEY", "MY_TOKEN", "PIN_PASS", "DB_PASSWORD", "http_proxy", "LINES_KEY")
    for name in secrets:
        assert name in text and FIRST[name] not in text
    assert "hunter2secret" not in text
    names = KeptEnvironment.read(file)
    assert names is not None and names.names == {
        "variables": ["A", "CUDA_VISIBLE_DEVICES", "GOOGLE_APPLICATION_CREDENTIALS", "ODD", "USE_AUTH"],
        "secrets": sorted(secrets),
    }


def test_keys_of_the_harness_are_kept_from_the_training_and_are_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = frozenset({"ODDLY_NAMED"})
    shell(monkeypatch, {"A": "1", "ODDLY_NAMED": "model-key-1234"})
    environment.launched(tmp_path, 1, hidden)
    assert environment.of_training(tmp_path, hidden) == {"A": "1"}
    assert "model-key-1234" not in (tmp_path / "attempts" / "environment.json").read_text()
    shell(monkeypatch, {})
    environment.launched(tmp_path, 2, hidden)
    assert environment.differences(tmp_path, 2) == []
    assert redact("it printed model-key-1234", remembered(tmp_path)) == f"it printed {MASK}"


def test_what_a_sweep_leases_is_that_of_the_job(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leased = {"CUDA_VISIBLE_DEVICES": "1", "MASTER_PORT": "4001"}
    shell(monkeypatch, {**FIRST, **leased, LEASED: " ".join(leased)})
    found = environment.of_training(run, NOT_HIDDEN)
    assert {name: found[name] for name in leased} == leased


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("key=first-key-zq81", f"key={MASK}"),
        ("'tok-first-77', (tok-first-77)", f"'{MASK}', ({MASK})"),
        ("password hunter2secret is wrong", f"password {MASK} is wrong"),
        ("http://bob:hunter2secret@proxy:3128/", f"{MASK}/"),
        ("now another-key-99.", f"now {MASK}."),
        ("> -- another line --", f"> {MASK}"),
        ("xtok-first-77 tok-first-778 first tok", "xtok-first-77 tok-first-778 first tok"),
        ("loss 1234, true, /home/ada/key.json", "loss 1234, true, /home/ada/key.json"),
        ("training/loss, DB_PASSWORD=training", f"training/loss, DB_PASSWORD={MASK}"),
    ],
)
def test_secrets_are_known_again_where_no_variable_holds_them(
    run: Path, monkeypatch: pytest.MonkeyPatch, printed: str, shown: str
) -> None:
    shell(monkeypatch, LATER)
    environment.launched(run, 2, NOT_HIDDEN)
    shell(monkeypatch, {})
    assert known_secrets(run) == remembered(run)
    assert redact(printed, known_secrets(run)) == shown


def test_two_runs_remember_the_same_secret_differently(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    environment.launched(other, 1, NOT_HIDDEN)
    one, two = (remembered(folder).memories[0] for folder in (run, other))
    assert not one.digests & two.digests


def test_what_cannot_be_read_stops_no_report(run: Path) -> None:
    (run / "attempts" / "environment.json").write_text("{torn")
    assert remembered(run) == NO_SECRETS


def test_a_retry_of_a_run_that_kept_no_variables_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell(monkeypatch, FIRST)
    for attempt in (2, 3):
        environment.launched(tmp_path, attempt, NOT_HIDDEN)
    ((what, *_),) = environment.differences(tmp_path, 2)
    assert what == "shell variables" and environment.differences(tmp_path, 3) == []


def test_the_names_that_an_earlier_version_kept_are_read(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    path.write_text('{"variables": {"A": "1"}, "secrets": ["MY_TOKEN"]}')
    kept = KeptEnvironment.read(path)
    assert kept is not None and kept.missing({}) == ["MY_TOKEN"]
    assert kept.now({"A": "2", "MY_TOKEN": "t"}) == {"A": "1", "MY_TOKEN": "t"}
