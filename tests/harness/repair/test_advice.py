"""What a person is told to do, with the exact command or edit, and what a run shows of its failure."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.attempt import Diagnosis
from harness.config.packages import known_packages
from harness.diagnosis import diagnose, diagnose_log
from harness.environment import ANOTHER, MISSING
from harness.machine.disk import in_words
from harness.options import RunOptions
from harness.pending_changes import Change, PendingChanges
from harness.repair import advice
from harness.repair.remedies import Machine, Situation, remedies_for
from harness.state import AttemptState, ExperimentState
from monitors.files import AttemptFiles
from tests.harness.runs import end, found, state_with

ACCELERATE = """Traceback (most recent call last):
  File "/exp/train.py", line 12, in <module>
    main()
  File "/exp/train.py", line 9, in main
    args = TrainingArguments(output_dir="out")
  File "<string>", line 117, in __init__
  File "/venv/lib/python3.11/site-packages/transformers/training_args.py", line 1700, in _setup_devices
    raise ImportError(
ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=1.1.0`: Please run `pip install \
transformers[torch]` or `pip install 'accelerate>=1.1.0'`
"""


def run_of(
    folder: Path, command: str = "python train.py", config: str = "", **given: object
) -> ExperimentState:
    plan = {"codebase_dir": folder, "path": folder / "trial.md", "venv_exe": folder / "venv/bin/python"}
    if config:
        (folder / "c.yaml").write_text(config)
        plan["yaml_path"] = folder / "c.yaml"
    return state_with({**plan, "launch_command": command}, **given)


def told(diagnosis: Diagnosis) -> str:
    return "\n".join(f"{each.sentence} {each.why}" for each in diagnosis.what_to_do)


def from_log(folder: Path, text: str) -> Diagnosis:
    (folder / "pane.log").write_text(text)
    return diagnose_log(folder / "pane.log", 1)


def test_d9_what_is_missing_is_named_with_the_command_of_the_runs_own_python(tmp_path: Path) -> None:
    missing = from_log(tmp_path, ACCELERATE)
    python = tmp_path / "venv/bin/python"
    text = told(advice.of_run(missing, run_of(tmp_path), ""))
    assert f"`{python} -m pip install 'accelerate>=1.1.0'`" in text and "--allow-install" in text
    assert "`python -m pip install 'accelerate>=1.1.0'`" in told(advice.of_log(missing))


def test_d9_the_evidence_shows_the_users_own_frame_and_not_a_librarys(tmp_path: Path) -> None:
    cited = [line.text.strip() for line in from_log(tmp_path, ACCELERATE).evidence]
    assert 'File "/exp/train.py", line 9, in main' in cited
    assert not any("site-packages" in line or "<string>" in line for line in cited)


@pytest.mark.parametrize(
    ("has_own", "says"), [(False, "does not belong to a virtual environment"), (True, "")]
)
def test_d17_with_permission_it_says_why_nothing_was_installed(
    tmp_path: Path, has_own: bool, says: str
) -> None:
    missing = from_log(tmp_path, ACCELERATE)
    assert missing.captures["package"] == "accelerate"
    if has_own:
        (tmp_path / "venv").mkdir()
        (tmp_path / "venv" / "pyvenv.cfg").touch()
    text = told(advice.of_run(missing, run_of(tmp_path, options=RunOptions(allow_install=True)), ""))
    assert says in text and "--allow-install" not in text
    assert ("has not installed it" in text) is (not has_own)


def test_d17_an_unknown_package_is_no_package_for_a_run_to_install(tmp_path: Path) -> None:
    missing = from_log(
        tmp_path, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'frob'\n"
    )
    text = told(advice.of_run(missing, run_of(tmp_path, options=RunOptions(allow_install=True)), ""))
    assert "frob is not one of the packages that a run may install" in text


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_d11_a_taken_port_is_named_with_who_holds_it(tmp_path: Path, taken: int) -> None:
    in_use = from_log(
        tmp_path, "Traceback (most recent call last):\nOSError: [Errno 98] Address already in use\n"
    )
    explained = advice.of_run(in_use, run_of(tmp_path, f"python train.py --port {taken}"), "")
    assert explained.family == "port_in_use"
    assert f"Port {taken} (port) is taken by" in explained.cause and "pid" in explained.cause
    assert "`--port " in told(explained) and f"--port {taken}" not in told(explained)


def test_d11_a_missing_file_has_its_whole_path_and_the_setting_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").touch()
    log = "Traceback (most recent call last):\nFileNotFoundError: data/trian.csv not found.\n"
    missing = from_log(tmp_path, log)
    assert missing.cause == "A file or folder does not exist: data/trian.csv."
    explained = advice.of_run(missing, run_of(tmp_path, "python t.py data.path=data/trian.csv"), "")
    assert "named by data.path in the launch command" in explained.cause
    assert "`data.path=data/train.csv`" in told(explained)
    config = "data: {path: data/trian.csv}\n"
    explained = advice.of_run(missing, run_of(tmp_path, config=config), config)
    assert "named by data.path in c.yaml" in explained.cause
    assert "`data.path: data/train.csv`" in told(explained)


@pytest.mark.parametrize("ended", [{"reason": "could_not_start"}, {"reason": "exited", "status": 1}])
def test_a_codebase_that_is_gone_is_named(tmp_path: Path, ended: dict[str, object]) -> None:
    failed = diagnose(AttemptFiles(tmp_path / "attempt"), end(ended))
    explained = advice.of_run(failed, run_of(tmp_path / "code"), "")
    assert f"The codebase {tmp_path}/code is not there" in explained.cause
    assert f"Put {tmp_path}/code back" in told(explained)


def test_d11_a_limit_that_the_command_sets_is_named_and_no_small_request_is_blamed(tmp_path: Path) -> None:
    log = "Traceback (most recent call last):\nMemoryError: Unable to allocate 1.00 MiB for an array\n"
    refused = from_log(tmp_path, log)
    assert "the last one was for 1.00 MiB" in refused.cause and "limit" in refused.cause
    explained = advice.of_run(refused, run_of(tmp_path, "ulimit -v 800000; python t.py"), "")
    assert f"`ulimit -v 800000` ({in_words(800000 * 1024)})" in explained.cause
    assert "Raise `ulimit -v 800000`" in told(explained)


def test_a_small_request_where_memory_is_left_tells_to_look_for_a_limit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("harness.repair.circumstances.memory_limit", lambda: None)
    monkeypatch.setattr("harness.repair.circumstances.memory_available", lambda: 8 << 30)
    log = "Traceback (most recent call last):\nMemoryError: Unable to allocate 1.00 MiB for an array\n"
    explained = advice.of_run(from_log(tmp_path, log), run_of(tmp_path), "")
    assert "look for a limit" in explained.cause and "`ulimit -a`" in told(explained)
    monkeypatch.setattr("harness.repair.circumstances.memory_limit", lambda: 2 << 30)
    explained = advice.of_run(from_log(tmp_path, log), run_of(tmp_path), "")
    assert "control group allows 2.0 GiB" in explained.cause


def test_a_number_that_is_text_is_linked_with_the_failure_it_led_to(tmp_path: Path) -> None:
    config = "optim:\n  lr: 1e-2\n"
    log = (
        "Traceback (most recent call last):\n"
        '  File "/exp/train.py", line 6, in <module>\n'
        '    w = w - np.multiply(cfg["optim"]["lr"], w)\n'
        "numpy._core._exceptions._UFuncNoLoopError: ufunc 'multiply' did not contain a loop with signature "
        "matching types (dtype('<U4'), dtype('float64')) -> None\n"
    )
    explained = advice.of_run(from_log(tmp_path, log), run_of(tmp_path, config=config), config)
    assert "`optim.lr: 1e-2`, which PyYAML reads as text" in explained.cause
    assert explained.what_to_do[0].by_hand == "optim.lr: 0.01"


def test_a_key_that_the_program_misses_is_named_with_the_nearest_of_the_config(tmp_path: Path) -> None:
    config = "optim:\n  learning_rate: 0.1\n"
    log = (
        "Traceback (most recent call last):\n"
        '  File "/exp/train.py", line 6, in <module>\n'
        '    step(c["learning_rte"])\n'
        "KeyError: 'learning_rte'\n"
    )
    explained = advice.of_run(from_log(tmp_path, log), run_of(tmp_path, config=config), config)
    assert "In c.yaml it is optim.learning_rate, not learning_rte." in explained.cause
    assert "the program asks for learning_rte" in told(explained)
    other = advice.of_run(
        from_log(tmp_path, log.replace("learning_rte", "reward")), run_of(tmp_path, config=config), config
    )
    assert "c.yaml" not in other.cause


def test_d17_what_the_log_asks_for_is_the_package_of_the_repair(tmp_path: Path) -> None:
    alone = "Traceback (most recent call last):\nImportError: Please run `pip install transformers[torch]`\n"
    for log in (ACCELERATE, alone):
        now = Situation(from_log(tmp_path, log), "", machine=Machine(why_not_install=str))
        (remedy,) = remedies_for(["install_package"], now)
        assert remedy.package == "accelerate" and remedy.package in known_packages()


def test_a_learning_rate_is_a_persons_to_lower(tmp_path: Path) -> None:
    nan = found({"family": "numerics_nan", "cause": "loss is NaN", "remedies": ["advise: Look."]})
    explained = advice.of_run(nan, run_of(tmp_path, "python t.py --lr 0.5"), "")
    assert explained.what_to_do[0].by_hand == "--lr 0.05" and "Look." in told(explained)


def test_no_secret_of_the_command_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, "python train.py --hf hf_abcdefghijklmnopqrstuvwxyz012345")
    explained = advice.of_run(found({"family": "unknown", "cause": "?"}), run, "")
    assert "abcdefghijklmnop" not in told(explained) and "[redacted]" in told(explained)


def test_without_a_log_the_command_is_run_by_hand(tmp_path: Path) -> None:
    explained = advice.of_run(found({"family": "unknown", "cause": "?"}), run_of(tmp_path), "")
    assert explained.what_to_do[0].by_hand == f"cd {tmp_path} && python train.py"


def test_a_secret_that_the_attempt_was_launched_without_is_named_first(tmp_path: Path) -> None:
    def attempt(number: int, *changes: tuple[str, str]) -> AttemptState:
        told = tuple(Change("secret", name, "", now, "") for name, now in changes)
        return AttemptState(number, "", "", "", draft=PendingChanges(changes=told))

    second = attempt(2, ("MY_TOKEN", MISSING), ("B_KEY", MISSING))
    attempts = (attempt(1), second, attempt(3, ("B_KEY", ANOTHER)))
    unknown = from_log(tmp_path, "it broke\n")
    for said, until in ((False, 1), (True, 3)):
        run = replace(run_of(tmp_path), attempts=attempts[:until])
        first = advice.of_run(unknown, run, "").what_to_do[0].sentence
        assert ("MY_TOKEN" in first) is said and "B_KEY" not in first
    assert first.endswith(f"run again: `harness run {tmp_path / 'trial.md'}`")


def test_a_value_that_is_spelt_wrong_is_corrected_and_its_key_left_alone(tmp_path: Path) -> None:
    config = "training:\n  lr_scheduler_type: cosin\n"
    log = (
        "Traceback (most recent call last):\n"
        '  File "/exp/train.py", line 6, in <module>\n'
        "    args = Args(**cfg)\n"
        "ValueError: cosin is not a valid SchedulerType, please select one of ['linear', 'cosine']\n"
    )
    failed = from_log(tmp_path, log)
    run = advice.of_run(failed, run_of(tmp_path, config=config), config)
    assert "c.yaml: cosin → cosine: `training.lr_scheduler_type: cosine`" in told(run)
    assert "`training.lr_scheduler_type: cosine`" in told(advice.of_log(failed, config))
    assert "Use one name" not in told(run)


@pytest.mark.parametrize("kind", ["folder", "slip", "there"])
def test_not_installed_is_said_only_of_what_is_not(tmp_path: Path, kind: str) -> None:
    name, says = {
        "folder": ("rewards", f"`export PYTHONPATH={tmp_path}/src`"),
        "slip": ("nunpy", "`import numpy` instead of `import nunpy`"),
        "there": ("frob", f"frob is installed in {tmp_path}/venv"),
    }[kind]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "rewards.py").touch()
    (tmp_path / "venv/lib/python3.11/site-packages/frob").mkdir(parents=True)
    log = f"Traceback (most recent call last):\nModuleNotFoundError: No module named '{name}'\n"
    explained = advice.of_run(from_log(tmp_path, log), run_of(tmp_path), "")
    assert says in told(explained) and "pip install" not in told(explained)
    assert "not installed" not in explained.cause


def test_a_longer_name_is_no_slip_and_extras_are_installed_as_the_message_says(tmp_path: Path) -> None:
    longer = advice.of_log(from_log(tmp_path, "ModuleNotFoundError: No module named 'geopandas'\n"))
    assert "import pandas" not in told(longer) and "geopandas" in told(longer)
    message = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    make()\n'
        "gymnasium.error.DependencyNotInstalled: Box2D is not installed, you can install it by run "
        '`pip install swig` followed by `pip install "gymnasium[box2d]"`\n'
    )
    assert "pip install 'gymnasium[box2d]'" in told(advice.of_log(from_log(tmp_path, message)))
