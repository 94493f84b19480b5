"""Attempts to publish a false number or direction: through a model server, the real SDK, policy, loop and
guard for a run, through the conversation of a sweep, and into the templates of the report."""

import asyncio
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from harness import templating
from harness.agent import loop
from harness.agent.executor import Executor
from harness.agent.llm import LlmPolicy
from harness.experiment import Experiment
from harness.journal.model_events import Consult
from harness.llm_use import WORDS
from harness.providers.anthropic import AnthropicProvider
from harness.providers.conversation import Account
from harness.providers.cost import Limits
from harness.providers.model import Model
from harness.providers.transcript import Transcript
from harness.redaction import Secrets
from harness.results import text
from harness.results.narrative.sections import Narrative, tell, words_json
from harness.results.narrative.sweep import SweepEvidence
from harness.sweep.reporting import narrate
from tests.harness.results.journals import collected_run
from tests.harness.results.narrative.written import failed_sweep
from tests.harness.results.page import Page
from tests.harness.results.synthetic import START
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Script, Step, call

ATTACKS = [dict(item) for item in YAML(typ="safe").load(Path(__file__).with_name("attacks.yaml"))]
SECRETS = Secrets(("correct-horse-battery",))
NUMERIC = {"Nd", "Nl", "No"}
HARMLESS = {"section", "div", "h2", "h3", "p", "ul", "li", "span", "code"}


class OverError(Exception):
    """The narrative is written."""


class Words(Page):
    """`own`: the text of an interpretation outside of citations."""

    own = ""

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        inside = {name for _, name in self.open}
        if "interpretation" in inside and not {"cited", "label"} & inside:
            self.own += data


class WritingOnly(Executor):
    async def act(self, action: Any) -> dict[str, Any]:
        if action.kind != "write_sections":
            raise OverError
        return await super().act(action)


def written(attack: dict[str, Any]) -> dict[str, Any]:
    words = {"interpretation": attack.get("words", ""), "language": attack.get("language", "en")}
    return {"section": "findings", "findings": attack.get("findings", []), **words}


@asynccontextmanager
async def model_of(script: Script, folder: Path, record: Callable[..., Any]) -> AsyncIterator[Model]:
    """A model that says what the script says, behind a server."""
    with ModelServer(script) as server:
        provider = AnthropicProvider("claude-scripted", "test-key", server.anthropic_url)
        model = Model(provider, None, Limits(None, 50), record, Transcript(folder / "t", SECRETS))
        try:
            yield model
        finally:
            await model.close()


async def of_run(folder: Path, section: dict[str, Any]) -> Narrative | None:
    """The section written by a stubborn model, as it would stand in the report."""
    asked = 0

    def stubborn(seen: Seen) -> Step:
        nonlocal asked
        asked += 1
        return call("write_sections", sections=[section]) if asked <= 3 else call("finish", reason="said")

    experiment = Experiment(folder, lambda: START + 3600)
    experiment.record(Consult(WORDS, "the results are to be read"))
    executor = WritingOnly(experiment)
    async with model_of(stubborn, folder, experiment.record) as model:
        with pytest.raises(OverError):
            await loop.run(executor, LlmPolicy(experiment, model, asyncio.Event()))
    evidence = executor.observe().evidence
    executor.close()
    experiment.close()
    assert evidence is not None
    return tell(experiment.state.narrative, evidence, SECRETS)


async def of_sweep(folder: Path, section: dict[str, Any]) -> Narrative | None:
    comparison, cost = failed_sweep(), Account()
    stubborn = [call("write_sections", sections=[section])] * 3
    async with model_of(stubborn, folder, cost.record) as model:
        kept = await narrate(comparison, model, cost)
    return tell(kept, SweepEvidence(comparison), SECRETS)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
async def test_nothing_false_is_published(
    attack: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", SECRETS.values[0])
    folder = collected_run(tmp_path / "run") if attack["world"] == "run" else tmp_path
    told = await (of_run if attack["world"] == "run" else of_sweep)(folder, written(attack))
    if told is None:
        assert not attack.get("instead")
        return
    formats = {"md": text.markdown, "code": text.code}
    page = templating.render("reports/_narrative.html.j2", narrative=told, narrator="a-model")
    markdown = templating.render("reports/_narrative.md.j2", narrative=told, narrator="a-model", **formats)
    published = [page, markdown, json.dumps(words_json(told), ensure_ascii=False)]
    sentences = [*(line for section in told["sections"] for line in section["sentences"]), *told["added"]]
    for never in attack.get("never", ()):
        spoken = [line for line in sentences if never in line] if attack.get("findings") else []
        assert not spoken and (attack.get("findings") or not any(never in each for each in published)), never
    words = Words(page)
    assert not [char for char in words.own if unicodedata.category(char) in NUMERIC]
    assert {tag for tag, _ in words.elements} <= HARMLESS
    assert not re.search(r"\]\(|(?<!\\)<[a-z!]|&#", markdown)
    if "instead" in attack:
        assert all(attack["instead"] in re.sub(r"\\(.)", r"\1", each) for each in published[1:])


def test_there_are_at_least_sixty_attacks() -> None:
    assert len({attack["name"] for attack in ATTACKS}) == len(ATTACKS) >= 60
