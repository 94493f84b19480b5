"""Attempts to publish a false number or direction: through a model server, the real SDK, policy, loop and
guard for a run, through the conversation of a sweep, and into the templates of the report."""

import asyncio
import json
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from harness import templating
from harness.agent import loop
from harness.agent.executor import Executor
from harness.agent.llm import LlmPolicy
from harness.experiment import Experiment
from harness.providers.anthropic import AnthropicProvider
from harness.providers.cost import Limits
from harness.providers.model import Model
from harness.providers.transcript import Transcript
from harness.results import text
from harness.results.narrative.evidence import Evidence
from harness.results.narrative.sections import Narrative, tell
from harness.results.narrative.sweep import SweepEvidence
from harness.sweep.narrating import narrate
from tests.harness.results.journals import collected_run
from tests.harness.results.narrative.written import failed_sweep
from tests.harness.results.synthetic import START
from tests.harness.sweep.asking import scripted
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, call

ATTACKS = [dict(item) for item in YAML(typ="safe").load(Path(__file__).with_name("attacks.yaml"))]
SECRETS = ("correct-horse-battery",)
NUMERIC = {"Nd", "Nl", "No"}
HARMLESS = {"section", "div", "h2", "h3", "p", "ul", "li", "span", "code"}


class OverError(Exception):
    """The narrative is written."""


class Words(HTMLParser):
    """The text of an interpretation outside of citations, and all tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.own = ""
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside.append(dict(attrs).get("class") or tag)

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, data: str) -> None:
        if "interpretation" in self._inside and not {"cited", "label"} & set(self._inside):
            self.own += data


class WritingOnly(Executor):
    async def act(self, action: Any) -> dict[str, Any]:
        if action.kind != "write_report_section":
            raise OverError
        return await super().act(action)


def written(attack: dict[str, Any]) -> dict[str, Any]:
    words = {"interpretation": attack.get("words", ""), "language": attack.get("language", "en")}
    return {"section": "findings", "findings": attack.get("findings", []), **words}


async def of_run(folder: Path, section: dict[str, Any]) -> tuple[Narrative | None, Evidence]:
    """The section written by a stubborn model, as it would stand in the report."""
    asked = 0

    def stubborn(seen: Seen) -> Step:
        nonlocal asked
        asked += 1
        return call("write_report_section", **section) if asked <= 3 else call("finish", reason="said")

    experiment = Experiment(folder, lambda: START + 3600)
    executor = WritingOnly(experiment)
    with ModelServer(stubborn) as server:
        provider = AnthropicProvider("claude-scripted", "test-key", server.anthropic_url)
        model = Model(provider, None, Limits(None, 50), experiment.record, Transcript(folder / "t", SECRETS))
        try:
            with pytest.raises(OverError):
                await loop.run(executor, LlmPolicy(experiment, model, asyncio.Event()))
        finally:
            await model.close()
            evidence = executor.observe().evidence
            executor.close()
            experiment.close()
    assert evidence is not None
    return tell(experiment.state.narrative, evidence, SECRETS), evidence


async def of_sweep(folder: Path, section: dict[str, Any]) -> tuple[Narrative | None, Evidence]:
    comparison = failed_sweep()
    stubborn = [call("write_sections", sections=[section])] * 3
    async with scripted(folder, "anthropic", stubborn) as (model, cost):
        kept = await narrate(comparison, model, cost)
    evidence = SweepEvidence(comparison)
    return tell(kept, evidence, SECRETS), evidence


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
async def test_nothing_false_is_published(
    attack: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", SECRETS[0])
    folder = collected_run(tmp_path / "run") if attack["world"] == "run" else tmp_path
    told, _ = await (of_run if attack["world"] == "run" else of_sweep)(folder, written(attack))
    if told is None:
        assert not attack.get("instead")
        return
    formats = {"md": text.markdown, "code": text.code}
    page = templating.render("reports/_narrative.html.j2", narrative=told, author="a-model")
    markdown = templating.render("reports/_narrative.md.j2", narrative=told, author="a-model", **formats)
    published = [page, markdown, json.dumps(told.as_json(), ensure_ascii=False)]
    sentences = [*(line for section in told.sections for line in section.sentences), *told.added]
    for never in attack.get("never", ()):
        spoken = [line for line in sentences if never in line] if attack.get("findings") else []
        assert not spoken and (attack.get("findings") or not any(never in each for each in published)), never
    words = Words(page)
    assert not [char for char in words.own if unicodedata.category(char) in NUMERIC]
    assert words.tags <= HARMLESS
    assert not re.search(r"\]\(|(?<!\\)<[a-z!]|&#", markdown)
    if "instead" in attack:
        assert all(attack["instead"] in re.sub(r"\\(.)", r"\1", each) for each in published[1:])


def test_there_are_at_least_sixty_attacks() -> None:
    names = [attack["name"] for attack in ATTACKS]
    print(f"\n{len(names)} attempts to publish a false number or direction")
    assert len(set(names)) == len(names) >= 60
