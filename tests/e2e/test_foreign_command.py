"""Somebody's own training script, run through the real command line and the real tmux."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from monitors import overlay
from tests.e2e.bench import Bench, sessions, until
from tests.e2e.mortal import Life

TRAIN = """
import sys, time
steps, pause = int(sys.argv[1]), float(sys.argv[2])
for step in range(1, steps + 1):
    print(f"step={step} loss={1 / step:.4f} reward={step / steps:.4f}", flush=True)
    time.sleep(pause)
"""


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.script("train.py", TRAIN)
    return bench


def watched(bench: Bench, steps: int, pause: float, step: int = 3) -> Life:
    """A harness whose training of so many steps has printed this one."""
    bench.plan(f"python train.py {steps} {pause}")
    watching = bench.start("run", str(bench.blueprint))
    until(lambda: f"step={step} " in bench.log(), f"step {step}")
    return watching


def test_metrics_report_and_flag(bench: Bench) -> None:
    bench.plan("python train.py 5 0.01")
    output = bench.run()
    assert "ucceeded" in output
    flag = bench.flag
    assert (flag["outcome"], flag["exit_code"], flag["attempts"]) == ("succeeded", 0, 1)
    for entry in flag["manifest"]:
        content = (bench.result_dir / entry["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    listed = {entry["path"] for entry in flag["manifest"]}
    assert {f"attempts/01/{name}" for name in ("pane.log", "exit.json", "metrics.jsonl")} <= listed
    assert "journal.jsonl" in listed
    for name in ("blueprint.md", "result.md", "result.json", "report.html", "provenance.json"):
        assert (bench.result_dir / name).stat().st_size > 0, name
    assert "0.2000" in (bench.attempt() / "pane.log").read_text()
    assert sessions() == []


def test_the_training_sees_the_callers_variables_but_not_the_keys_of_the_harness(bench: Bench) -> None:
    bench.plan('echo "seen: $WANDB_API_KEY, $FLAVOUR, <$ANTHROPIC_API_KEY>" | tr a-z A-Z')
    keys = {"WANDB_API_KEY": "wand-b-key", "FLAVOUR": "sweet", "ANTHROPIC_API_KEY": "the-harness-key"}
    bench.harness("run", str(bench.blueprint), env=keys)
    assert "SEEN: WAND-B-KEY, SWEET, <>" in (bench.attempt() / "pane.log").read_text()
    written = [path for path in bench.folder.rglob("*") if path.is_file()]
    assert not [path for path in written if re.search(rb"wand-b-key|the-harness-key", path.read_bytes())]


SCORES = "\n## [exp_metrics]\n- pattern: `iter (?P<step>\\d+) score (?P<score>[\\d.]+)`\n"
FIRST_STEP = "\n## [exp_metrics]\n- first_step: `first step done`\n"
BOTH = "\n## [exp_prepare_command]\n`touch prepared`\n\n## [exp_cleanup_command]\n`echo well > cleaned-up`\n"
OWN = "\n## [exp_metrics]\n- pattern: `round (?P<step>\\d+) gave (?P<quality>[\\d.]+)`\n- goal: max\n"
NOT_PREPARED = "\n## [exp_prepare_command]\n`false`\n"
FLAG, METRICS, STORY = "finish.flag", "attempts/01/metrics.jsonl", "trial_and_error.md"
TWICE = "echo step=1 val/accuracy=0.5; echo step=1 val/accuracy=0.9"
TOLD = (FLAG, "result.md", "report.html")
# command, more of the blueprint, exit status, texts of files in the result folder
COMMANDS = [
    ("echo all done", "", 0, {FLAG: ["no metrics"]}),
    ("echo iter 3 score 0.25", SCORES, 0, {METRICS: ['"score": 0.25']}),
    ("echo nothing of the kind", SCORES, 1, {STORY: ["without a single metric row"]}),
    ("echo loading; sleep 600", FIRST_STEP, 1, {FLAG: ["first"]}),
    ("test -e prepared && echo step=1 loss=2", BOTH, 0, {"../../code/cleaned-up": ["well"]}),
    ("touch launched", NOT_PREPARED, 1, {FLAG: ["prepare command"]}),
    ("kill -40 $$", "", 1, {FLAG: ["signal 40"]}),
    (TWICE, "", 0, {name: ["at step 1 was first 0.5 (line 1), then 0.9 (line 2)"] for name in TOLD}),
]


EVALUATED = "\n## [exp_evaluate_command]\n```bash\n{}\n```\n"
FROM_CHECKPOINT = "echo checking; echo step=9 val/accuracy=$(cat $HARNESS_ATTEMPT_DIR/model) val/loss=0.5"
TRAINED = (
    "echo 0.25 > $HARNESS_ATTEMPT_DIR/model; echo step=1 val/accuracy=0.5; echo step=2 val/accuracy=0.75"
)
EVALUATIONS = [
    (FROM_CHECKPOINT, 0, "val/accuracy 0.25 (evaluated after attempt 1)"),
    ("echo no such model; exit 3", 1, "its evaluation ended with status 3: no such model (evaluation.log)"),
    ("echo all well", 1, "its evaluation printed no metric; its last line is: all well"),
]


@pytest.mark.parametrize(("command", "status", "said"), EVALUATIONS)
def test_what_the_evaluation_measures_is_the_result(
    bench: Bench, command: str, status: int, said: str
) -> None:
    bench.plan(TRAINED, purpose="see the accuracy", more=EVALUATED.format(command))
    bench.run(status=status)
    assert bench.flag["outcome"] == ("failed" if status else "succeeded")
    assert said in "\n".join([bench.flag["reason"], *bench.flag["headline"]])
    assert "checking" not in bench.log() and bench.launches() == 1
    if status == 0:
        assert bench.result["result"]["value"] == 0.25
        (source,) = next(fact for fact in bench.result["facts"] if fact["id"] == "key/result_end")["sources"]
        assert (source["file"], source["line"]) == ("attempts/01/evaluation.jsonl", 1)
        assert "0.25" in bench.harness("ls") and "nothing differs" in bench.harness(
            "verify", str(bench.result_dir)
        )


@pytest.mark.parametrize(("command", "more", "status", "said"), COMMANDS)
def test_how_a_command_ends(
    bench: Bench, command: str, more: str, status: int, said: dict[str, list[str]]
) -> None:
    bench.plan(command, more=more, first_step="2 seconds" if more == FIRST_STEP else "5 minutes")
    bench.run(status=status)
    assert bench.flag["outcome"] == ("failed" if status else "succeeded")
    assert bench.launches() == bench.flag["attempts"] == 1
    for file, texts in said.items():
        content = (bench.result_dir / file).read_text()
        assert all(text in content for text in texts), content
    assert not (bench.codebase / "launched").exists()


def test_metrics_of_a_run_are_read_by_its_plan(bench: Bench) -> None:
    bench.plan("echo round 1 gave 0.5; echo round 2 gave 0.75", purpose="see the quality", more=OWN)
    bench.run()
    told = json.loads(bench.harness("metrics", str(bench.result_dir), "--json"))
    assert [(row["step"], row["values"]) for row in told["rows"]] == [
        (1, {"quality": 0.5}),
        (2, {"quality": 0.75}),
    ]
    assert (told["leading"], told["goal"]) == ("quality", "max")


def test_time_limit_kills_everything_it_started(bench: Bench) -> None:
    bench.plan("setsid sleep 1000 & echo $! > escaped.pid; python train.py 10000 0.05", max_time="6 seconds")
    bench.run(status=3)
    assert bench.flag["outcome"] == "timed_out"
    assert not alive(int((bench.codebase / "escaped.pid").read_text()))
    facts = {fact["id"]: fact["value"] for fact in bench.result["facts"]}
    assert facts["attempt/1/last_step"] > 10


def test_detached_to_the_end_and_run_again_it_goes_beside_the_finished_one(bench: Bench) -> None:
    bench.plan("echo hello")
    bench.harness("run", "--detach", str(bench.blueprint))
    until(lambda: (bench.result_dir / "finish.flag").exists(), "finish.flag")
    assert bench.flag["outcome"] == "succeeded"
    until(lambda: sessions() == [], "the end of all sessions")
    bench.run()
    assert (bench.result_dir.with_name("trial-2") / "finish.flag").exists()
    listed = bench.harness("ls", "--json")
    assert listed.count('"succeeded"') == 2


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_harness_dies_training_goes_on_and_resume_completes(bench: Bench, signal_number: int) -> None:
    watching = watched(bench, 40, 0.1, step=5)
    watching.kill(signal_number)
    refused = bench.run(status=2)
    assert "harness resume" in refused
    seen = len(bench.log())
    until(lambda: len(bench.log()) > seen, "the training goes on by itself")
    bench.harness("resume", str(bench.result_dir))
    assert bench.flag["outcome"] == "succeeded"
    assert bench.launches() == 1
    steps = [line.split()[0] for line in bench.log().splitlines() if line.startswith("step=")]
    assert steps == [f"step={step}" for step in range(1, 41)]
    assert len((bench.attempt() / "metrics.jsonl").read_text().splitlines()) == 40


NAMED = "\n## [exp_metrics]\n- pattern: `step=(?P<step>\\d+) loss=(?P<loss>[\\d.]+)`\n"


def test_resumed_after_the_first_step_time_a_healthy_training_goes_on(bench: Bench) -> None:
    bench.plan("python train.py 40 0.1", first_step="2 seconds", more=NAMED)
    watching = bench.start("run", str(bench.blueprint))
    until(lambda: bench.attempt().joinpath("started", "supervisor.json").exists(), "the launch")
    watching.kill()
    until(lambda: "step=30 " in bench.log(), "step 30, after the first-step time")
    bench.harness("resume", str(bench.result_dir))
    assert bench.flag["outcome"] == "succeeded"


def test_after_a_reboot_a_run_goes_on_with_the_environment_of_its_start(bench: Bench) -> None:
    printed = 'print("it has", *map(os.getenv, ("A", "B", "MY_TOKEN", "OTHER_KEY")), flush=True)'
    bench.script("train.py", f"import os\n{printed}\n{TRAIN}")
    bench.plan("python train.py 15 0.2")
    first = {"A": "1", "MY_TOKEN": "token-of-the-start", "OTHER_KEY": "key-of-the-start"}
    first["SQL"] = "Server=db;Uid=sa;Pwd=hunter2secret"
    watching = bench.start("run", str(bench.blueprint), env=first)
    until(lambda: "step=3 " in bench.log(), "step 3")
    watching.kill()
    supervisor = json.loads((bench.attempt() / "started" / "supervisor.json").read_text())
    for pid in (supervisor["pid"], supervisor["command_pid"]):
        with suppress(ProcessLookupError):  # its guardian may have been faster
            os.kill(pid, signal.SIGKILL)
    later = {"A": "2", "B": "2", "OTHER_KEY": "another-key-77", "SQL": first["SQL"]}
    told = bench.harness("resume", str(bench.result_dir), env=later)
    assert "not in this shell: MY_TOKEN." in " ".join(told.split())
    logs = [(bench.attempt(number) / "pane.log").read_text() for number in (1, 2)]
    assert "it has 1 None token-of-the-start key-of-the-start\n" in logs[0].replace("\r", "")
    assert "it has 1 None None another-key-77\n" in logs[1].replace("\r", "")
    deviations = {each["what"]: each["new"] for each in bench.result["deviations"]}
    assert deviations == {"MY_TOKEN": "not set", "OTHER_KEY": "another one"}
    names = json.loads((bench.result_dir / "provenance.json").read_text())["environment"]
    assert "A" in names["variables"] and {"MY_TOKEN", "OTHER_KEY"} <= {*names["secrets"]}
    files = [path for path in bench.result_dir.rglob("*") if path.is_file()]
    read_by_all = [path for path in files if path.stat().st_mode & 0o077]
    documents = ("validation.md", "trial_and_error.md", "result.md", "result.json", "report.html")
    others = {path.name for path in read_by_all if path.parent.name != "figures"}
    assert others == {*documents, "finish.flag"}
    secrets = (b"token-of-the-start", b"key-of-the-start", b"another-key-77")
    assert not any(secret in path.read_bytes() for path in read_by_all for secret in secrets)
    kept = [bench.attempt(2) / "launch.sh", bench.result_dir / "attempts" / "environment.json"]
    assert not any(secret in path.read_bytes() for path in kept for secret in (*secrets, b"hunter2secret"))


def test_stopping_what_had_ended_by_itself_keeps_its_success(bench: Bench) -> None:
    watching = watched(bench, 20, 0.05, step=2)
    watching.kill()
    until(lambda: (bench.attempt() / "exit.json").exists(), "the end of the training")
    bench.harness("stop", str(bench.result_dir))
    assert bench.flag["outcome"] == "succeeded"


def test_a_launch_that_was_not_written_down_is_found_after_the_deadline(bench: Bench) -> None:
    bench.plan("echo step=1 loss=2", max_time="5 seconds")
    dies_after_launch = (
        "import os, monitors.launch as l, sys; launch = l.launch\n"
        "l.launch = lambda *a: (launch(*a), os._exit(9))\n"
        "from harness.cli.app import app; app()"
    )
    command = [sys.executable, "-c", dies_after_launch, "run", str(bench.blueprint)]
    assert subprocess.run(command, cwd=bench.folder, capture_output=True, check=False).returncode == 9
    until(lambda: (bench.attempt() / "exit.json").exists(), "the end of the training")
    until(lambda: time.time() > bench.state.deadline_at, "the deadline")
    bench.harness("resume", str(bench.result_dir))
    assert bench.flag["outcome"] == "succeeded"


def test_a_line_swallowed_by_the_shells_start_up_is_typed_again(bench: Bench) -> None:
    (bench.folder / "home").mkdir()
    (bench.folder / "home" / ".bashrc").write_text("read -t 3 -p 'update? [Y/n] '\n")
    bench.plan("echo step=1 loss=2")
    bench.harness("run", str(bench.blueprint), env={"HOME": str(bench.folder / "home"), "SHELL": "/bin/bash"})
    assert bench.flag["outcome"] == "succeeded"


def test_a_config_edited_during_the_run_is_for_the_next_one(bench: Bench) -> None:
    config = bench.folder / "config.yaml"
    config.write_text("lr: 0.1\n")
    bench.script("edit.sh", f"mkdir been-here && echo 'lr: 999' > {config}")
    command = f"if bash edit.sh; then kill -TERM $$; sleep 5; else cat {config}; fi"
    bench.plan(command, more="\n## [exp_yaml_path]\nconfig.yaml\n")
    bench.run()
    assert config.read_text() == "lr: 999\n"
    assert (bench.attempt(2) / "config.yaml").read_text() == "lr: 0.1\n"
    assert "lr: 0.1" in (bench.attempt(2) / "pane.log").read_text()
    assert "SIGTERM" in (bench.result_dir / STORY).read_text()
    assert "terminated_from_outside" in (bench.attempt() / "diagnosis.json").read_text()


def test_a_reader_that_goes_away_does_not_decide_the_outcome(bench: Bench) -> None:
    bench.plan("echo step=1 loss=2; sleep 2")
    harness = f"{sys.executable} -m harness run {bench.blueprint}"
    command = ["bash", "-c", f"{harness} | head -1; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(command, cwd=bench.folder, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert bench.flag["outcome"] == "succeeded"


def test_stop_from_another_terminal(bench: Bench) -> None:
    watching = watched(bench, 10000, 0.05)
    bench.harness("stop", str(bench.result_dir))
    assert watching.end(30.0) == 130
    assert bench.flag["outcome"] == "cancelled"
    assert sessions() == []


def test_detach_then_look_then_stop_without_a_harness(bench: Bench) -> None:
    bench.plan("python train.py 10000 0.05")
    output = bench.harness("run", "--detach", str(bench.blueprint))
    assert "ajet_watch_" in output
    until(lambda: "step=3 " in bench.log(), "the third step")
    assert any(name.startswith("ajet_trial-") for name in sessions())
    assert "step=" in bench.harness("logs", "-n", "5")
    until(lambda: "running" in bench.harness("show"), "show says that it runs")
    until(lambda: "watch" in bench.harness("ls"), "ls says that it is watched")
    owner = until(lambda: [e for e in bench.entries() if e.kind == "owner"][1:], "a second owner")[-1]
    os.kill(owner.event.pid, signal.SIGKILL)
    until(lambda: not alive(owner.event.pid), "the harness is dead")
    bench.harness("stop", str(bench.result_dir))
    assert bench.flag["outcome"] == "cancelled"
    until(lambda: sessions() == [], "no session is left")


def test_ctrl_c_asks_and_detaches(bench: Bench) -> None:
    bench.plan("python train.py 10000 0.05")
    tmux = ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"]]
    subprocess.run([*tmux, "new-session", "-d", "-s", "person", "-x", "120", "-y", "40"], check=True)
    names = ("XDG_STATE_HOME", "XDG_CACHE_HOME", "AJET_TMUX_SOCKET")
    env = " ".join(f"{name}={os.environ[name]}" for name in names)
    command = f"{sys.executable} -m harness run {bench.blueprint}"
    line = f"cd {bench.folder} && env {env} {command}; echo status $?"
    subprocess.run([*tmux, "send-keys", "-t", "=person:", line, "Enter"], check=True)

    def screen() -> str:
        capture = [*tmux, "capture-pane", "-p", "-t", "=person:"]
        return subprocess.run(capture, capture_output=True, text=True, check=True).stdout

    until(lambda: "reward" in screen() and "step=3 " in bench.log(), "the live display")
    subprocess.run([*tmux, "send-keys", "-t", "=person:", "C-c"], check=True)
    until(lambda: "[d]etach" in screen(), "the question")
    subprocess.run([*tmux, "send-keys", "-t", "=person:", "d", "Enter"], check=True)
    until(lambda: "status 0" in screen(), "the end of the harness")
    seen = len(bench.log())
    until(lambda: len(bench.log()) > seen, "the training goes on by itself")
    bench.harness("stop", str(bench.result_dir))


def test_metrics_of_a_file_where_the_log_has_none(bench: Bench) -> None:
    script = """
    import csv, pathlib, time
    pathlib.Path("logs").mkdir()
    with open("logs/metrics.csv", "w") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "step", "train_loss", "val_acc"])
        for step in range(10):
            table.writerow([step // 5, step, 1 / (step + 1), ""])
        table.writerow([1, 9, "", 0.75])
    print("done")
    """
    bench.script("silent.py", textwrap.dedent(script))
    (bench.codebase / "old.csv").write_text("step,loss\n1,9\n")
    bench.plan("python silent.py")
    output = bench.run()
    assert "metrics from logs/metrics.csv (CSV)" in " ".join(output.split())
    copy = bench.result_dir / "attempts/01/metric_source/metrics.csv"
    assert copy.read_bytes() == (bench.codebase / "logs/metrics.csv").read_bytes()
    result = json.loads((bench.result_dir / "result.json").read_text())
    assert result["attempts"][0]["metrics_from"] == "logs/metrics.csv (CSV)"
    assert "metric rows from logs/metrics.csv (CSV)" in (bench.result_dir / "report.html").read_text()
    assert "0.75" in {fact["text"] for fact in result["facts"]}
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
    assert "metric_source/metrics.csv" in {
        Path(entry["path"]).relative_to("attempts/01").as_posix()
        for entry in bench.flag["manifest"]
        if entry["path"].startswith("attempts/01")
    }


def test_a_long_run_that_fails_at_once_is_never_launched(bench: Bench) -> None:
    if not overlay.works(bench.codebase, bench.folder / "scratch"):
        pytest.skip("there are no overlays here")
    bench.script("train.py", "open('made', 'w')\ndef score():\n    import module_of_nobody\nscore()\n")
    bench.plan("python train.py", max_time="2 hours")
    bench.run(status=2)
    assert bench.flag["outcome"] == "cannot_run" and bench.flag["attempts"] == 0
    assert "a smoke run of the command failed" in bench.flag["reason"]
    assert "module_of_nobody" in bench.flag["reason"] and not (bench.codebase / "made").exists()
    assert "module_of_nobody" in (bench.result_dir / "result.md").read_text()
    assert "module_of_nobody" in (bench.result_dir / "smoke" / "01" / "pane.log").read_text()
