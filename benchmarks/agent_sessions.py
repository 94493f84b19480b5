"""What the agent's model is asked in whole sessions, and what that costs: calls, tokens, seconds.

Each scenario is a folder of `benchmarks/sessions/`: a small real program, its plan, and in `answers.json`
what a model answered that saw the prompts for the first time. By default these answers are played back, by
position, through a model server on loopback, while `harness run` or `harness sweep` does everything else for
real; a prompt that has changed since gets the answer to the old one. `--live FOLDER` asks whoever watches
FOLDER instead: each request is written to `SCENARIO-NN.md` (what is new since the one before it), and the
answer is awaited in `SCENARIO-NN.json`, a list of `{"tool": …, "arguments": {…}}` or `{"say": …}`; at the
end the answers are kept in the scenario's folder. In answers `$FOLDER` is the scenario's temporary folder.

Tokens are bytes divided by four of tools, system and messages of every request. The request of a few tokens
that tries the model before a launch is not counted among the calls.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _claim import Row, parser, publish

from tests.model_server.scripts import Model
from tests.model_server.seen import Seen, SeenTurn
from tests.model_server.server import Exchange, ModelServer
from tests.model_server.steps import Answer, Call, Step

ROOT = Path(__file__).resolve().parent.parent
SESSIONS = ROOT / "benchmarks" / "sessions"
PATIENCE_S = 1800.0
WAITING = ('"action":"wait"', '"kind":"approval_asked"')


@dataclass(frozen=True)
class Scenario:
    """One session. `command`: after `harness`. `person`: what somebody types, in this order, once a question
    is open: a verb, and what follows the name of the run. `leaves_at`: the line of the training's log at
    which the model goes away, to be back for `harness narrate`. `aim`: what was wanted, and what an earlier
    version took."""

    name: str
    command: tuple[str, ...] = ("run", "blueprint.md")
    person: tuple[tuple[str, ...], ...] = ()
    leaves_at: str = ""
    aim: tuple[str, str] = ("", "")


CLEAN = ("≤ 2 calls, ≤ 10 k in", "4–5 calls, 24 k in")
PATCH = ("≤ 35 k in", "10 calls, 52 k in")
OWN = "python train.py --lr 0.04 --num-workers 64"
FLAG = ("run", "--purpose", "How low does val_loss get with 64 loaders?", "--", *OWN.split())
QUESTION = "Does momentum (0, 0.5 or 0.9) lower val_loss at this learning rate? Use three seeds."
WORD = "train_2024.csv is this year's table, the other one is old and has outliers"
SCENARIOS = (
    Scenario("clean", aim=CLEAN),
    Scenario("quickstart", aim=CLEAN),
    Scenario("patched", aim=PATCH),
    Scenario("flag", FLAG),
    Scenario("typo", person=(("approve",),)),
    Scenario("model_down", leaves_at="epoch 2:"),
    Scenario("sweep", ("sweep", QUESTION, "--from", "blueprint.md", "--yes")),
    Scenario("told", person=(("tell", WORD), ("tell", "so please take train_2024.csv"), ("approve",))),
)


class Stage:
    """A scenario's program in a fresh folder, where commands run with a home and a tmux of their own; a
    context manager."""

    def __init__(self, scenario: Scenario) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="session-", ignore_cleanup_errors=True)
        home = Path(self._place.name).resolve()
        self.folder = home / scenario.name
        kept = ROOT / "blueprints" if scenario.name == "quickstart" else SESSIONS
        ignore = shutil.ignore_patterns("answers.json", "__pycache__")
        shutil.copytree(kept / scenario.name, self.folder, ignore=ignore)
        hidden = ("_API_KEY", "_TOKEN", "AJET_", "HARNESS_", "XDG_", "TMUX")
        env = {name: value for name, value in os.environ.items() if not any(part in name for part in hidden)}
        env |= {"HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "110", "TMUX_TMPDIR": str(home)}
        self.env = env | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        self.env["AJET_TMUX_SOCKET"] = "sessions"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `harness …`; what it prints goes into `console.log` beside the folder."""
        command = [sys.executable, "-m", "harness", *words]
        with (self.folder.parent / "console.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def texts(self, pattern: str) -> Iterator[tuple[Path, str]]:
        """Files below the results, with their text."""
        for path in sorted(self.folder.glob(f"exp_results/*/{pattern}")):
            yield path, path.read_text(errors="replace")

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        kill = ["tmux", "-L", self.env["AJET_TMUX_SOCKET"], "kill-server"]
        subprocess.run(kill, env=self.env, capture_output=True, check=False)
        self._place.cleanup()


Ask = Callable[[Seen], list[dict[str, Any]]]


def model(ask: Ask, folder: Path) -> Model:
    """A model that answers what `ask` says; a call is `tool` and `arguments`, words are `say`."""

    def step(seen: Seen) -> Step:
        answers = json.loads(json.dumps(ask(seen)).replace("$FOLDER", str(folder)))
        said = "\n".join(each["say"] for each in answers if "say" in each)
        calls = [Call(each["tool"], json.dumps(each["arguments"])) for each in answers if "tool" in each]
        return Answer(said, tuple(calls))

    return step


def recorded(path: Path) -> Ask:
    """The answers of a recording, by position."""
    answers = iter(json.loads(path.read_text()))
    return lambda seen: next(answers)


@dataclass
class Live:
    """Somebody who reads requests in a folder and writes answers into it; `answers` are kept."""

    scenario: str
    folder: Path
    before: Seen | None = None
    answers: list[list[dict[str, Any]]] = field(default_factory=list)

    def __call__(self, seen: Seen) -> list[dict[str, Any]]:
        stem = self.folder / f"{self.scenario}-{len(self.answers) + 1:02d}"
        stem.with_suffix(".md").write_text(shown(seen, self.before))
        self.before = seen
        answer = stem.with_suffix(".json")
        until(answer.exists)
        self.answers.append(json.loads(answer.read_text()))
        return self.answers[-1]


def shown(seen: Seen, before: Seen | None) -> str:
    """A request in Markdown: what is new since the one before it."""
    parts = []
    if before is None or seen.body.get("tools") != before.body.get("tools"):
        parts += ["# Tools", json.dumps(seen.body.get("tools"), indent=1, ensure_ascii=False)]
    if before is None or seen.system != before.system:
        parts += ["# System", seen.system]
    known = len(before.turns) if before and seen.turns[: len(before.turns)] == before.turns else 0
    parts += [_turn(turn) for turn in seen.turns[known:]]
    return "\n\n".join(parts) + "\n"


def _turn(turn: SeenTurn) -> str:
    calls = [f"{call.name} {call.arguments}" for call in turn.calls]
    return "\n\n".join([f"# {turn.role}", *calls, *turn.results, *([turn.text] if turn.text else [])])


def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition outside this process."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError("nothing happened for half an hour")
        time.sleep(0.1)


def conduct(stage: Stage, scenario: Scenario, script: Model) -> list[Exchange]:
    """Run the scenario to its end; returns the requests."""
    with ModelServer(script) as server:
        verb, *words = scenario.command
        run = stage.start(verb, "--model", f"openai:brain@{server.openai_url}", *words)
        _accompany(stage, scenario, run)
    run.wait()
    exchanges = list(server.log)
    if scenario.leaves_at:
        with ModelServer(script) as back:
            stage.start("narrate", "--model", f"openai:brain@{back.openai_url}").wait()
        exchanges += back.log
    return exchanges


def _accompany(stage: Stage, scenario: Scenario, run: subprocess.Popen[bytes]) -> None:
    """Be the person, until the run is over or the model leaves."""

    def seen(pattern: str, *marks: str) -> bool:
        return any(mark in text for _, text in stage.texts(pattern) for mark in marks)

    def journal() -> str:
        return next((text for _, text in stage.texts("journal.jsonl")), "")

    def waits() -> bool:
        last = journal().rstrip().rpartition("\n")[2]
        return any(mark in last for mark in WAITING)

    for verb, *words in scenario.person:  # one after the other, each when the run waits for it
        until(lambda: run.poll() is not None or waits())
        name, before = next(stage.texts("journal.jsonl"))[0].parent.name, journal()
        stage.start(verb, name, *words).wait()

        def is_heard(known: str = before) -> bool:
            return run.poll() is not None or journal() != known

        until(is_heard)
    leaves_at = scenario.leaves_at
    until(lambda: run.poll() is not None or (leaves_at and seen("attempts/*/pane.log", leaves_at)))


def played(scenario: Scenario, live: Path | None) -> tuple[Row, dict[str, Any]]:
    """Run one scenario; the line of the table, and the raw numbers."""
    kept = SESSIONS / scenario.name / "answers.json"
    ask = Live(scenario.name, live) if live else recorded(kept)
    with Stage(scenario) as stage:
        begin = time.monotonic()
        log = conduct(stage, scenario, model(ask, stage.folder))
        seconds = time.monotonic() - begin
        flags = [json.loads(text) for _, text in stage.texts("finish.flag")]
        if isinstance(ask, Live):
            written = json.dumps(ask.answers, indent=1, ensure_ascii=False)
            kept.write_text(written.replace(str(stage.folder), "$FOLDER") + "\n")
            shutil.copytree(stage.folder, ask.folder / scenario.name, symlinks=True, dirs_exist_ok=True)
    outcome = " ".join(flag["outcome"] for flag in flags) or "no outcome"
    by_call = [each.prompt.total for each in log if each.prompt]
    written_tokens = sum(each.output_tokens for each in log)
    tokens = f"{sum(by_call) / 1000:.1f} k in, {written_tokens / 1000:.1f} k out"
    told = f"{outcome}: {len(log)} calls, {tokens}, {seconds:.0f} s"
    raw: dict[str, Any] = {"scenario": scenario.name, "outcome": outcome, "input_tokens_by_call": by_call}
    raw |= {"output_tokens": written_tokens, "seconds": round(seconds, 1)}
    return Row(scenario.name, told, *scenario.aim), raw


def main() -> None:
    """Play the scenarios and publish."""
    made = parser(__doc__, quick="without the quickstart, which trains for two minutes")
    made.add_argument("--live", type=Path, help="ask whoever answers in this folder")
    made.add_argument("scenarios", nargs="*", help="only these")
    options = made.parse_args()
    if options.live:
        options.live.mkdir(parents=True, exist_ok=True)
    wanted = options.scenarios or [each.name for each in SCENARIOS]
    chosen = [each for each in SCENARIOS if each.name in wanted]
    chosen = [each for each in chosen if not (options.quick and each.name == "quickstart")]
    results = [played(each, options.live) for each in chosen]
    publish("sessions of the agent", [row for row, _ in results], options, [raw for _, raw in results])


if __name__ == "__main__":
    main()
