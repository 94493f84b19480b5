"""`harness run -- COMMAND`: a command without a blueprint."""

import shlex
import sys

import pytest

from harness.blueprint import read
from harness.cli.new_run import name_of
from tests.e2e.bench import Bench

SCRIPT = """
import pathlib, sys
pathlib.Path("seen.txt").write_text(repr(sys.argv[1:]))
for step in range(1, 4):
    print(f"step={step} loss={1 / step:.3f}", flush=True)
"""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1e-3", "train-lr-1e-3"),
        ("A=1 torchrun --nproc 2 src/fine_tune.py data=x", "fine_tune-data-x"),
        ("python -m pkg.train", "pkg.train"),
        ("./run.sh 'a b' /data/c", "run.sh-a-b-data-c"),
        ("cd x && python t.py --api-key sk-abcdefghijkl0123456789 --n 1", "t-api-key-redacted-n-1"),
        ("(((", "run"),
    ],
)
def test_a_run_is_named_after_its_program(bench: Bench, command: str, name: str) -> None:
    assert name_of(command, bench.folder) == name


def test_missing_7_a_command_runs_without_a_blueprint_and_gets_one(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(SCRIPT)
    words = ["train.py", "--lr", "1e-3", "--note", "it's a b", "--", "--max-time", "1s"]
    given = ["--max-time", "5 min", "--purpose", "Is the loss low?"]
    bench.harness("run", *given, "--", sys.executable, *words)
    assert (bench.folder / "seen.txt").read_text() == repr(words[1:])
    (folder,) = (bench.folder / "exp_results").iterdir()
    plan = read(folder / "blueprint.md", bench.folder)
    assert plan.problems == () and plan.can_run
    assert (plan.purpose, plan.max_time_s, plan.codebase_dir) == ("Is the loss low?", 300, bench.folder)
    assert shlex.split(plan.launch_command or "") == [sys.executable, *words]
    assert (folder / "blueprint.md").stat().st_mode & 0o077 == 0


def test_missing_7_the_purpose_names_the_command_where_nobody_gave_one(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(SCRIPT)
    bench.harness("run", "--result-dir", "out/here", "--", "python train.py && echo done")
    plan = read(bench.folder / "out" / "here" / "blueprint.md", bench.folder)
    assert plan.purpose == "Run python train.py && echo done and record what it does."
    assert plan.launch_command == "python train.py && echo done"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a command after `--`"),
        (["--"], "a command after `--`"),
        (["{plan}", "--", "python", "train.py"], "a command after `--`"),
        (["{plan}", "--purpose", "x"], "[exp_purpose]"),
        (["--max-time", "banana", "--", "true"], "'banana'"),
        (["--", "python", "no-such-script.py"], "no-such-script.py"),
    ],
)
def test_what_cannot_be_run_is_said(bench: Bench, arguments: list[str], words: str) -> None:
    plan = str(bench.plan("true"))
    output = bench.harness("run", *[word.format(plan=plan) for word in arguments], status=2)
    assert words in output
    assert not list(bench.folder.glob("exp_results/*/attempts/[0-9]*"))


def test_any_bytes_in_a_name_or_a_variable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bench.folder / "#(touch pwned) caf\udce9;"
    folder.mkdir()
    (folder / "train.py").write_text(f"{SCRIPT}import os; open('x', 'wb').write(os.environb[b'X'])\n")
    monkeypatch.setenv("X", "\udce9")
    plan, results = folder / "t.md", str(folder / "r\udce9;")
    plan.write_text(f"## [exp_purpose]\nx\n## [exp_launch_command]\n`{sys.executable} train.py`\n")
    bench.harness("run", str(plan), "--result-dir", results)
    assert (folder / "x").read_bytes() == b"\xe9"
    assert "nothing differs" in bench.harness("verify", results)
    assert not list(bench.folder.rglob("pwned"))


def test_control_characters_in_a_name_are_refused_and_not_printed(bench: Bench) -> None:
    folder = bench.folder / "a\x1b]0;title\x07b\nc"
    folder.mkdir()
    (folder / "t.md").write_text("## [exp_purpose]\nx\n## [exp_launch_command]\n`true`\n")
    for command in ("check", "run"):
        output = bench.harness(command, str(folder / "t.md"), status=2)
        assert "control character" in output and not set("\x1b\x07") & set(output)
