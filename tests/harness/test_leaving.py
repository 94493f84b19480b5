"""What a training prints reaches no reader with a secret in it, whichever way it leaves the run."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness import environment, journal
from harness.atomic_write import write_json
from harness.environment import known_secrets
from harness.journal import Entry
from harness.journal.events import ActionFailed
from harness.notifications import MessageSender
from harness.providers.chat import Request, UserTurn
from harness.providers.transcript import Transcript
from harness.results.report import build_report
from harness.results.sweeps.report import build_sweep_report
from harness.results.sweeps.tables import SweepAbout
from harness.results.verify import run_flag
from harness.state import fold
from tests.harness.cli.typed import typed
from tests.harness.results.comparisons import REPEAT, comparison
from tests.harness.results.journals import Story
from tests.harness.results.synthetic import attempt

# «…» stands around what must go
PRINTED = """
cannot connect: postgres://bob:«hunter2secret»@db/x
cannot connect: redis://:«p@ss#word77»@cache:6379/0
Server=tcp:db,1433;User ID=sa;Password=«Zq81LmXw»;Encrypt=True
Server=db;Uid=sa;Pwd=«hunter»;Database=x
DefaultEndpointsProtocol=https;AccountName=a;AccountKey=«hunter2Zq81LmXw/+abc==»;EndpointSuffix=core
Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=r;SharedAccessKey=«Zq81LmXwhunter2abc=»
https://a.blob.core.windows.net/c?sv=2024&sig=«Zq81LmXwhunter2abc%3D»
config {"apiKey": "«hunter-two-words»"} is refused
clientSecret: «hunter-two-words»
bad accessToken=«hunterTwoWords»
bot 123456789:«AAZq81LmXwhunter2abcZq81LmXwhunter2» is blocked
POST https://api.telegram.org/bot123456789:«AAZq81LmXwhunter2abcZq81LmXwhunter2»/sendMessage
mail by SG.«Zq81LmXwhunter2abcQQ».«Zq81LmXwhunter2abcZq81LmXwhunter2abcQQQQQQQ»
databricks said no to «dapi0123456789abcdef0123456789abcdef»
wandb refused «wandb_v1_Zq81LmXwhunter2abcZq81»
nvidia refused «nvapi-Zq81LmXwhunter2abc-Zq81LmX»
google refused «GOCSPX-Zq81LmXwhunter2abcZq81»
vault refused «hvs.Zq81LmXwhunter2abcZq81LmXw»
OPENAI_API_KEY=«sk-proj-Zq81LmXwhunter2abc»
login with «hf_Zq81LmXwhunter2abcZq81» failed
github said no to «ghp_Zq81LmXwhunter2abcZq81LmXw»
«AKIAIOSFODNN7EXAMPLE» has no rights
Authorization: Bearer «Zq81LmXwhunter2.abc»
https://hooks.slack.com/services/T000/B000/«Zq81LmXw»
it printed «of-this-shell-4»
it printed «of-the-first-launch-77»
psql as bob with «inside2an2address»
""".strip().splitlines()
KEPT = """
token_count=12345 tokens_per_second: 33.1
key_loss=0.25 - val/key_accuracy:0.91
at commit 45bf7136c2a0e1f2b3c4d5e6f708192a3b4c5d6e
PWD=/home/ada/code was not found
http://host:8080/path?step=12 took 12:30:45
sort_key: image_path_v2_resized_1, nextToken=page
see step:12 - actor/kl_loss:0.00123
""".strip().splitlines()


def run_that_printed(folder: Path, text: str) -> Path:
    """A run that failed with this text: in its log, its diagnosis, its reason and its purpose."""
    folder.mkdir(exist_ok=True)
    made = attempt(folder).exit(1, seconds=60.0).config("lr: 1e-4\n")
    made.pane(f"loading\nTraceback (most recent call last):\nRuntimeError: {text}\n")
    made.metrics([(step, {"loss": 1 / step}) for step in range(1, 6)])
    (folder / "blueprint.md").write_text("# A plan\n")
    write_json(folder / "provenance.json", {"seeds": {}, "git": {"diff": text}})
    found = {"evidence": [{"file": "pane.log", "line": 3, "text": f"RuntimeError: {text}"}]}
    story = Story().created("playbook", purpose=text, settings_dir=str(folder)).act("prepare")
    story.attempt(1, f"The training raised RuntimeError: {text}", **found)
    story.ended("failed", f"attempt 1: {text}")
    headline = build_report(folder, story.write(folder)).headline
    story.act("report", headline=list(headline), discrepancies=[])
    story.add("finish", outcome="failed", reason=f"attempt 1: {text}").write(folder)
    write_json(folder / "finish.flag", run_flag(fold(story.entries), known_secrets(folder)))
    return folder


def told(folder: Path, text: str) -> str:
    sent: list[object] = []
    state = fold(journal.read(folder / "journal.jsonl"))
    sender = MessageSender(folder, "1", ["json://x"], lambda *what: sent.append(what))
    sender(state, Entry(9, 0.0, ActionFailed("report", text)))
    return str(sent)


def asked(folder: Path, text: str) -> str:
    transcript = Transcript(folder / "t.jsonl", known_secrets(folder))
    transcript.request(1, "m", Request(f"be careful: {text}", (), (UserTurn(text),)), 0.0)
    return (folder / "t.jsonl").read_text()


def compared(folder: Path, text: str) -> str:
    made = comparison((REPEAT,), 2, folder / "compared")
    study = replace(made.study, question=text, runs=tuple(replace(r, folder=folder) for r in made.study.runs))
    build_sweep_report(
        folder / "page", replace(made, study=study, confounds=(text,)), SweepAbout(reason=text)
    )
    documents = (path for path in (folder / "page").rglob("*") if path.suffix in (".md", ".html", ".json"))
    return "\n".join(path.read_text() for path in documents)


def shown_by(*words: str) -> Callable[[Path, str], str]:
    return lambda folder, _: typed(*words[:1], folder, *words[1:], columns=1000)[1]


def written(name: str) -> Callable[[Path, str], str]:
    return lambda folder, _: (folder / name).read_text()


WAYS: dict[str, Callable[[Path, str], str]] = {
    **{name: written(name) for name in ("result.md", "result.json", "report.html", "trial_and_error.md")},
    "finish.flag": written("finish.flag"),
    "show": shown_by("show"),
    "show --json": shown_by("show", "--json"),
    "diagnose": shown_by("diagnose"),
    "diagnose --json": shown_by("diagnose", "--json"),
    "ls": lambda folder, _: typed("ls", columns=1000)[1],
    "notification": told,
    "prompt": asked,
    "comparison": compared,
    "notebook": lambda folder, _: (
        f"{harness.open_run(folder).purpose} {harness.open_run(folder).attempts.cause.tolist()}"
    ),
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("MY_TOKEN", "of-this-shell-4")


def started_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the run's first launch made in a shell that had other secrets."""
    before = {"MY_TOKEN": "of-the-first-launch-77", "DB": "postgres://bob:inside2an2address@db/x"}
    with monkeypatch.context() as there:
        there.setattr(os, "environ", {**os.environ, **before})
        environment.begin(folder, frozenset())


@pytest.mark.parametrize("marked", PRINTED)
def test_no_secret_leaves(tmp_path: Path, marked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = marked.replace("»", "«").split("«")
    text, secrets = "".join(parts), parts[1::2]
    folder = tmp_path / "run"
    folder.mkdir()
    started_elsewhere(folder, monkeypatch)
    run_that_printed(folder, text)
    left = {way: leave(folder, text) for way, leave in WAYS.items()}
    leaks = [way for way, said in left.items() if any(secret in said for secret in secrets)]
    assert leaks == []
    masked = [way for way, said in left.items() if "[redacted]" in said]
    assert set(masked) >= {*WAYS} - {"ls"}


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(tmp_path: Path, text: str) -> None:
    folder = run_that_printed(tmp_path / "run", text)
    assert text in json.loads((folder / "finish.flag").read_text())["reason"]
    assert f"attempt 1: {text}" in typed("show", folder, columns=1000)[1]
    assert text in json.loads((folder / "result.json").read_text())["purpose"]
