"""`harness new "WORDS"` as a process, with the real SDK and a scripted model server."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.blueprint import check_surroundings, check_trainer, read
from harness.cli.app import app
from tests.e2e.bench import Bench
from tests.harness.author.authoring import blueprint
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, call, hang, raw_call, unauthorized

WORDS = "does a higher KL coefficient stop reward hacking on sort_digits? 2 hours, 20 steps"
BLUEPRINT: Any = blueprint(name="kl-0.001")
RIGHT = {"total_training_steps": 20, "kl_loss_coef": 0.001}
WRONG = {**RIGHT, "ajet.trainer_common.mini_batch_num": 7}
FINISH = call("finish", assumptions=["One seed is enough."], look_at=["The reward is exact match."])


def begun() -> list[Step]:
    return [
        raw_call("render_blueprint", '{"name": "kl-0.001", '),
        call(BLUEPRINT[0], **BLUEPRINT[1]),
        call("render_config", settings=WRONG, said=["total_training_steps"]),
    ]


def mended() -> list[Step]:
    repaired = call("render_config", settings=RIGHT, said=["total_training_steps"])
    return [*begun(), call("check"), repaired, call("check"), FINISH]


def model(server: ModelServer, protocol: str = "anthropic") -> list[str]:
    url = server.anthropic_url if protocol == "anthropic" else server.openai_url
    return ["new", WORDS, "--model", f"{protocol}:test@{url}"]


def test_a_request_becomes_an_experiment_that_can_run(bench: Bench) -> None:
    with ModelServer(mended()) as server:
        shown = bench.harness(*model(server))
        told = server.log[-1].seen.turns[-1].results  # type: ignore[union-attr]
    assert "no problems" in told[0]
    folder = bench.folder / "kl-0.001"
    assert {file.name for file in folder.iterdir()} == {"blueprint.md", "config.yaml", "transcript.jsonl"}
    plan = check_trainer(check_surroundings(read(folder / "blueprint.md", bench.folder)))
    assert plan.problems == ()
    assert plan.max_time_s == 7200
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert "at most 2 hours said by you" in rows
    assert "ajet.trainer_common.total_training_steps 20 said by you" in rows
    assert "ajet.trainer_common.kl_loss_coef 0.001 assumed" in rows
    assert "- One seed is enough." in rows
    assert "- The reward is exact match." in rows
    assert any("7 calls" in row for row in rows)
    lines = [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["request", "reply"] * 7


@pytest.mark.parametrize(
    ("script", "status", "said", "made"),
    [
        ([*begun(), call("check"), FINISH], 2, ["Problems that are left", "mini_batch_num"], {"kl-0.001"}),
        ([*begun()[:2], unauthorized()], 1, ["did not come to an end", "unfinished"], {"kl-0.001"}),
        ([unauthorized()], 1, ["nothing was written"], set()),
    ],
)
def test_what_was_made_is_kept_and_what_is_wrong_is_said(
    bench: Bench, script: list[Step], status: int, said: list[str], made: set[str]
) -> None:
    before = {path.name for path in bench.folder.iterdir()}
    with ModelServer(script) as server:
        shown = bench.harness(*model(server), status=status)
    assert all(text in shown for text in said)
    assert {path.name for path in bench.folder.iterdir()} == before | made
    assert not made or (bench.folder / "kl-0.001" / "config.yaml").exists()


def test_on_a_terminal_an_outage_leads_to_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.cli.new.is_terminal", lambda: True)
    with ModelServer([unauthorized()]) as server:
        result = CliRunner().invoke(app, model(server), input="\n" * 9)
    assert result.exit_code == 0, result.output
    assert "Without the model, you are asked." in result.output
    folder = tmp_path / "higher-kl-coefficient-stop-reward"
    assert read(folder / "blueprint.md").purpose == WORDS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_there_is(bench: Bench, number: signal.Signals) -> None:
    with ModelServer([*begun()[:2], hang(60)]) as server:
        life = bench.start(*model(server))
        server.wait_for_request(3)
        life.send_signal(number)
        for _ in range(20):  # as a person who has no patience, through all that follows
            if not life.is_over(0.05) and not written(bench):
                life.send_signal(number)
        status = life.end(60.0)
        server.release()
    assert status == 130, life.output
    assert written(bench)


def written(bench: Bench) -> bool:
    return (bench.folder / "kl-0.001" / "blueprint.md").exists()


def test_a_place_that_cannot_be_is_said_before_a_call_is_paid(bench: Bench) -> None:
    (bench.folder / "notes.txt").write_text("x")
    with ModelServer(lambda seen: FINISH) as server:
        shown = bench.harness(*model(server), "--dir", "notes.txt", status=2)
        assert server.log == []
    assert "notes.txt (Not a directory)" in shown


def test_what_cannot_be_handed_over_is_kept_beside(bench: Bench) -> None:
    def answer(seen: Seen) -> Step:
        if seen.number == 3:
            (bench.folder / "kl-0.001").symlink_to(bench.folder / "nowhere")
        return [*begun()[:2], unauthorized()][seen.number - 1]

    with ModelServer(answer) as server:
        shown = bench.harness(*model(server), status=2)
    (kept,) = bench.folder.glob("kl-0.001.kept-*")
    assert str(kept) in shown and "Traceback" not in shown
    assert {file.name for file in kept.iterdir()} == {"blueprint.md", "config.yaml", "transcript.jsonl"}


def test_a_made_up_tool_name_is_answered_and_goes_on(bench: Bench) -> None:
    for protocol in ("openai", "anthropic"):
        script = [raw_call("functions.look", "{}"), begun()[1], call("check"), FINISH]
        with ModelServer(script) as server:
            bench.harness(*model(server, protocol), "--dir", protocol)
        assert (bench.folder / protocol / "kl-0.001" / "blueprint.md").exists()


def test_limits_hold(bench: Bench) -> None:
    with ModelServer(mended()) as server:
        shown = bench.harness(*model(server), "--max-llm-calls", "2", status=1)
        assert len(server.log) == 2
    assert "2 are allowed" in shown


def test_a_key_leaves_the_machine_nowhere(bench: Bench) -> None:
    secret = "sk-live-0123456789abcdefghij"
    (bench.folder / "notes.txt").write_text(f"key = {secret}\n")
    script = [call("look", path="notes.txt"), begun()[1], call("check"), FINISH]
    with ModelServer(script) as server:
        words = f"{WORDS} with OPENAI_API_KEY={secret}"
        bench.harness("new", words, *model(server)[2:])
        seen = "".join(json.dumps(exchange.seen.body) for exchange in server.log if exchange.seen)
    assert secret not in seen and "[redacted]" in seen
    assert secret not in (bench.folder / "kl-0.001" / "transcript.jsonl").read_text()
