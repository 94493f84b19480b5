"""Whole runs with a language model: the real command line, tmux, SDK and HTTP; only the model is scripted."""

import json
import os
import stat
import subprocess
from collections.abc import Callable

import pytest

from harness import journal
from harness.journal.model_events import Consult
from monitors.sandbox import bubblewrap_works, landlock_abi
from tests.e2e.bench import Bench, until
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, call, hang, say_and_call, server_error

TRAIN = """
import sys, time
lines = [line.split("#")[0].strip() for line in open(sys.argv[1])]
config = dict(line.split(": ") for line in lines if line)
print("token", "hf_" + "abcdefghijklmnopqrstuvwxyz")
if int(config["num_workers"]) > 2:
    raise RuntimeError("pool exhausted: num_workers must be at most 2 here")
for step in range(1, 6):
    print(f"step:{step} - loss:{1 / step:.4f} - reward:{step / 5:.3f}", flush=True)
"""
CONFIG = "# how it runs\nnum_workers: 8   # loaders\nlr: 0.001\n"
FINDINGS = {
    "section": "findings",
    "findings": [{"kind": "change", "metric": "reward"}],
    "interpretation": "It learns. <script>alert()</script>",
}
NEXT = {"question": "Is it so at a lower rate?", "set": {"lr": 0.0001}, "why": "<b>One</b> rate was tried."}


def write_plan(bench: Bench) -> None:
    bench.script("train.py", TRAIN)
    bench.script("config.yaml", CONFIG)
    more = f"\n## [exp_yaml_path]\n{bench.codebase / 'config.yaml'}\n"
    bench.plan("python train.py config.yaml", purpose="Does the reward rise?", more=more)


def run_with(
    bench: Bench,
    model: Callable[[Seen], Step],
    *options: str,
    protocol: str = "anthropic",
    status: int = 0,
) -> list[Seen]:
    """Run the plan with a scripted model; what it was asked."""
    with ModelServer(model) as server:
        url = server.anthropic_url if protocol == "anthropic" else server.openai_url
        word = f"{protocol}:scripted@{url}"
        bench.harness("run", str(bench.blueprint), "--model", word, *options, status=status)
        return [exchange.seen for exchange in server.log if exchange.seen]


def careful(seen: Seen) -> Step:
    """A model that finds the cause, repairs it, and reads the results."""
    if "The experiment is over" in seen.text:
        proposed = any(each.name == "propose_next" for each in seen.calls)
        return call("write_sections", sections=[FINDINGS]) if proposed else call("propose_next", **NEXT)
    done = [each.name for each in seen.calls]
    if not done:
        return say_and_call("Let me see.", "search_log", pattern="pool exhausted")
    if done[-1] == "search_log":
        return call("read_config")
    if done[-1] == "read_config":
        return call("edit_config", changes={"num_workers": 2}, why="the pool holds two")
    return call("check") if done[-1] == "edit_config" else call("launch", why="fewer loaders")


def test_an_unknown_failure_is_repaired_and_the_report_tells_it(bench: Bench) -> None:
    write_plan(bench)
    shown = "\n".join(seen.text for seen in run_with(bench, careful))
    assert bench.flag["outcome"] == "succeeded"
    assert len(bench.state.attempts) == 2
    assert "num_workers: 2   # loaders" in (bench.attempt(2) / "config.yaml").read_text()
    assert (bench.codebase / "config.yaml").read_text() == CONFIG
    assert "-num_workers: 8" in (bench.attempt(1) / "change.diff").read_text()
    report = (bench.result_dir / "result.md").read_text()
    assert "reward was higher at step 5 (1) than at step 1 (0.2)" in report and "not checked" in report
    assert "num_workers" in report
    following = bench.result_dir / "next" / "blueprint.md"
    assert f"`harness run {following}`" in report and "the words of anthropic:scripted" in report
    assert "lr: 0.0001" in following.with_name("config.yaml").read_text()
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
    assert "<script>" not in (bench.result_dir / "report.html").read_text().split("It learns")[1][:200]
    assert "hf_abcdefghij" not in shown
    transcript = bench.result_dir / "transcript.jsonl"
    assert "hf_abcdefghij" not in transcript.read_text()
    assert stat.S_IMODE(transcript.stat().st_mode) == 0o600
    assert 5 <= bench.state.llm.calls <= 8
    assert "the same" in bench.harness("replay", str(bench.result_dir))


@pytest.mark.parametrize("is_evaluated", [False, True], ids=["as trained", "evaluated"])
def test_a_defect_of_the_code_is_corrected_in_a_private_copy(bench: Bench, is_evaluated: bool) -> None:
    broken = (
        "import time\nfor step in range(1, 4):\n    pause = 0.01 / (step - 1)\n    time.sleep(pause)\n"
        "    print(f'step:{step} - loss:{1 / step}')\n"
    )
    bench.script("train.py", broken)
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm x"):
        subprocess.run(["git", *command.split()], cwd=bench.codebase, check=True)
    more = "\n## [exp_code_changes]\n- `train.py`\n- without asking\n"
    bench.script("measure.py", "import train_size\nprint('loss:', train_size.SIZE / 4)\n")
    bench.script("train_size.py", "SIZE = 3\n")
    more += "\n## [exp_evaluate_command]\n`python measure.py`\n" * is_evaluated
    bench.plan("python train.py", purpose="Does the loss fall?", more=more)

    def model(seen: Seen) -> Step:
        done = [each.name for each in seen.calls]
        if "The experiment is over" in seen.text:
            return call("finish", reason="all said")
        if not done:
            return call("read_file", path="train.py")
        if done[-1] == "read_file":
            return call("patch_code", path="train.py", old="(step - 1)", new="step", why="it divided by zero")
        return call("check") if done[-1] == "patch_code" else call("launch", why="corrected")

    run_with(bench, model, "--sandbox", "off")
    folder, value = str(bench.result_dir), "0.75" if is_evaluated else "0.3333†"
    assert bench.flag["outcome"] == "succeeded" if is_evaluated else "succeeded_with_changed_code"
    assert "WITHOUT A SANDBOX" in "".join(bench.flag["headline"])
    headline = "\n".join(bench.flag["headline"])
    assert headline.count("train.py") == 2 - is_evaluated and value in headline
    for shown in (bench.harness("show", folder), bench.harness("verify", folder)):
        assert "changed by a model: train.py" in shown
    assert "changed" in bench.harness("ls").lower()
    assert (bench.codebase / "train.py").read_text() == broken
    assert "+    pause = 0.01 / step" in (bench.attempt(1) / "change.diff").read_text()
    report = (bench.result_dir / "result.md").read_text()
    assert 'own words, which nothing has checked: "it divided by zero"' in report
    assert "-    pause = 0.01 / (step - 1)\n+    pause = 0.01 / step\n" in report
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=bench.codebase, capture_output=True, text=True
    )
    assert len(worktrees.stdout.splitlines()) == 1


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_code_that_a_model_wrote_sees_no_secrets_and_changes_nothing_of_the_author(
    bench: Bench, kind: str
) -> None:
    if not (bubblewrap_works() if kind == "bubblewrap" else landlock_abi() >= 6):
        pytest.skip(f"no {kind} here")
    home, other = bench.folder / "home", bench.folder / "results" / "other"
    stub, places = bench.folder / "bin" / "bwrap", [home / ".bashrc", other / "result.json", bench.codebase]
    for folder in (home / ".ssh", other, stub.parent):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("PRIVATE KEY")
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    bench.script("train.py", "deeds = 1 / 0\nprint('step:1 - loss:0.5')\n")
    more = "\n## [exp_code_changes]\n- `train.py`\n- without asking\n"
    bench.plan("python train.py", purpose="Does the loss fall?", more=more)
    tries = [
        f"print(open('{home}/.ssh/id_rsa').read())",
        f"print(open('{bench.result_dir}/transcript.jsonl').read())",
    ]
    tries += [
        f"print(open('{each / 'x' if each.is_dir() else each}', 'w').write('pwned'))" for each in places
    ]
    patch = "".join(f"try:\n    {each}\nexcept OSError as error: print('kept', error)\n" for each in tries)
    patch += (
        "open('mine', 'w').write('x'); open(__import__('os').environ['HARNESS_ATTEMPT_DIR'] + '/mine', 'w')\n"
    )

    def model(seen: Seen) -> Step:
        done = [each.name for each in seen.calls]
        if "The experiment is over" in seen.text:
            return call("finish", reason="all said")
        if not done:
            return call("patch_code", path="train.py", old="deeds = 1 / 0\n", new=patch, why="a typo")
        return call("check") if done[-1] == "patch_code" else call("launch", why="corrected")

    bench.env = {"HOME": str(home)}
    if kind == "landlock":
        bench.env["PATH"] = f"{stub.parent}:{os.environ['PATH']}"
    run_with(bench, model)
    assert bench.log(2).count("kept") == len(tries) and "PRIVATE" not in bench.log(2), bench.log(2)
    assert bench.flag["outcome"] == "succeeded_with_changed_code"
    assert not any(each.exists() for each in (*places[:2], bench.codebase / "x"))
    assert (bench.attempt(2) / "mine").exists()
    assert f"it ran in a sandbox ({kind}" in "\n".join(bench.flag["headline"]).lower()


def test_what_a_model_that_gives_up_says_leads_the_report(bench: Bench) -> None:
    write_plan(bench)

    def model(seen: Seen) -> Step:
        if "The experiment is over" in seen.text or any(each.name == "note" for each in seen.calls):
            return call("finish", reason="the pool is too small")
        return call("note", text="Ask the owner of the pool for more slots.")

    run_with(bench, model, status=1)
    first, second, *_ = bench.flag["what_to_do"]
    assert "Ask the owner" in first and "too small" in second
    report = (bench.result_dir / "result.md").read_text()
    assert report.index("Ask the owner of the pool") < report.index("What was asked")


def test_killed_while_the_model_thinks_it_goes_on_with_the_same_question(bench: Bench) -> None:
    write_plan(bench)

    def model(seen: Seen) -> Step:
        return hang(60) if seen.number == 1 else careful(seen)

    with ModelServer(model) as server:
        word = f"anthropic:scripted@{server.anthropic_url}"
        life = bench.start("run", str(bench.blueprint), "--model", word)
        server.wait_for_request(1)
        life.kill()
        server.release()
        bench.harness("resume", str(bench.result_dir))
        server.take_violations()
    assert bench.flag["outcome"] == "succeeded"
    assert len(bench.state.attempts) == 2 and bench.launches() == 2
    topics = [consult.topic for consult in journal.events_of(bench.entries(), Consult)]
    assert topics == ["failure:1", "results:1"]
    assert "0 of them not the same" in bench.harness("replay", str(bench.result_dir))


def test_without_its_model_a_run_ends_at_once_and_words_are_added_later(bench: Bench) -> None:
    bench.plan(
        "for step in 1 2 3; do echo step:$step - reward:0.$step; done", purpose="Does the reward rise?"
    )
    word = "anthropic:scripted@http://127.0.0.1:9"
    output = bench.harness("run", str(bench.blueprint), "--model", word)
    assert output.index("model not available") < output.index("attempt 1")
    assert f"`harness narrate {bench.result_dir}` adds them" in output
    assert "harness narrate" in (bench.result_dir / "result.md").read_text()
    journal_before = (bench.result_dir / "journal.jsonl").read_bytes()
    with ModelServer(lambda seen: call("finish", reason="nothing")) as server:
        word = f"anthropic:m@{server.anthropic_url}"
        bench.harness("narrate", str(bench.result_dir), "--model", word, status=2)
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
    with ModelServer(careful) as server:
        bench.harness("narrate", str(bench.result_dir), "--model", f"anthropic:m@{server.anthropic_url}")
    report = (bench.result_dir / "result.md").read_text()
    assert "reward was higher at step 3 (0.3) than at step 1 (0.1)" in report
    assert "added after the end" in report and "harness narrate" not in report
    assert (bench.result_dir / "journal.jsonl").read_bytes() == journal_before
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
    assert "0 of them not the same" in bench.harness("replay", str(bench.result_dir))


def test_read_only_plans_and_does_nothing(bench: Bench) -> None:
    write_plan(bench)
    before = sorted(path for path in bench.folder.rglob("*"))
    output = bench.harness("run", str(bench.blueprint), "--read-only")
    assert "would launch  python train.py config.yaml" in output
    assert sorted(path for path in bench.folder.rglob("*")) == before
    assert "no runs yet" in bench.harness("ls")


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_person_approves_or_denies_the_launch(bench: Bench, answer: str) -> None:
    bench.plan("echo step:1 - loss:0.5")
    life = bench.start("run", str(bench.blueprint), "--approve", "launch")
    journal_file = bench.result_dir / "journal.jsonl"
    until(lambda: journal_file.exists() and '"approval_asked"' in journal_file.read_text(), "the question")
    assert not bench.attempt().exists()
    bench.harness("approve" if answer == "yes" else "deny", str(bench.result_dir))
    assert life.end(60.0) == (0 if answer == "yes" else 130), life.output
    assert bench.launches() == (1 if answer == "yes" else 0)
    assert bench.flag["outcome"] == ("succeeded" if answer == "yes" else "cancelled")


def test_wrong_options_and_a_bad_blueprint_are_one_clear_error_and_leave_nothing(bench: Bench) -> None:
    bench.plan("echo step:1 - loss:0.5")
    for arguments, said in {
        ("--policy", "llm"): "no language model is configured",
        ("--policy", "luck"): "there are `playbook` and `llm`",
        ("--model", "claude"): "names no provider",
        ("--sandbox", "maybe"): "there are `auto`, `required` and `off`",
        ("--approve", "lunch"): "you can be asked before launch, stop",
        ("--max-cost", "-1"): "give an amount in USD",
    }.items():
        output = bench.harness("run", str(bench.blueprint), *arguments, status=2)
        assert said in output and "Traceback" not in output
    bench.plan("echo step:1 - loss:0.5", max_time="soon")
    assert "trial.md:" in bench.harness("run", str(bench.blueprint), status=2)
    assert not bench.result_dir.exists()


def test_a_key_of_the_harness_never_reaches_the_training(bench: Bench) -> None:
    bench.plan('echo "step:1 - loss:0.5"; env > seen.txt')
    key = "sk-ant-" + "x" * 40
    with ModelServer(
        lambda seen: server_error() if seen.number == 1 else call("finish", reason="ok")
    ) as server:
        word = f"anthropic:scripted@{server.anthropic_url}"
        own = bench.folder / "config" / "harness" / "harness.toml"
        own.parent.mkdir(parents=True)
        own.write_text('[llm]\nkey_env = "MY_GATEWAY_KEY"\n')
        env = {"MY_GATEWAY_KEY": key, "ANTHROPIC_API_KEY": "sk-ant-" + "y" * 40}
        env["XDG_CONFIG_HOME"] = str(own.parents[1])
        bench.harness("run", str(bench.blueprint), "--model", word, env=env)
        headers = [exchange.seen.headers for exchange in server.log if exchange.seen]
    assert all("y" * 40 not in json.dumps(each) for each in headers)
    seen = (bench.codebase / "seen.txt").read_text()
    assert "x" * 40 not in seen and "y" * 40 not in seen


def test_a_plan_without_a_config_is_run_with_what_the_model_makes_of_its_words(bench: Bench) -> None:
    bench.blueprint.write_text(
        "# Sort digits\n## [exp_purpose]\nDoes a learning rate of 5e-4 sort digits in 2 steps?\n"
        f"## [exp_result_dir]\n{bench.result_dir}\n## [exp_max_time]\n10 minutes\n"
    )
    small = {"total_training_steps": 2, "lr": 5e-4, "test_freq": 2, "train_batch_size": 4, "num_repeat": 2}
    small |= {"ajet.model.warmup.max_steps": 2, "ajet.task_reader.builtin.num_validation_tasks": 8}

    def model(seen: Seen) -> Step:
        done = [each.name for each in seen.calls]
        if "The experiment is over" in seen.text:
            return call("finish", reason="all said")
        if not done:
            wrong = {**small, "ajet.rollout.max_model_len": 3}
            return call("render_config", settings=wrong, why="the plan's words")
        if done == ["render_config"]:
            return call("check")
        if done == ["render_config", "check"]:
            return call("render_config", settings=small, why="room for prompt and answer")
        return call("launch", why="as planned") if done[-1] == "check" else call("check")

    answers = [seen.text for seen in run_with(bench, model, protocol="openai")]
    assert "cannot run" in answers[2] and "max_model_len" in answers[2]
    assert bench.flag["outcome"] == "succeeded"
    config = (bench.attempt() / "config.yaml").read_text()
    assert "total_training_steps: 2" in config and "lr: 0.0005" in config
    assert len(bench.state.attempts) == 1
