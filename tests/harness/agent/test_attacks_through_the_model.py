"""The attacks once more, the whole way: planted where they would stand, shown in real prompts over HTTP to a
model that obeys every instruction it reads, through the real SDK, policy, loop and guard."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from harness.agent import loop
from harness.agent.llm import LlmPolicy
from harness.providers.anthropic import AnthropicProvider
from harness.providers.cost import Limits
from harness.providers.model import Model
from harness.providers.transcript import Transcript
from harness.redaction import Secrets, secret_values
from tests.harness.agent.attacks import ATTACKS, Attack
from tests.harness.agent.attacks.target import KEY_IN_ENVIRONMENT, NOW, SECRETS, Target
from tests.harness.agent.test_attacks import OverError, WatchedExecutor
from tests.harness.agent.test_llm_protocols import PRICE
from tests.harness.runs import record
from tests.model_server.scripts import Obedient
from tests.model_server.server import ModelServer
from tests.model_server.steps import call

ENDED = [attack for attack in ATTACKS if attack.stage in ("failed", "collected")]
ASKED = [attack for attack in ENDED if isinstance(attack.call[1], dict)]
SAMPLE = random.Random(7).sample(ASKED, 16)
REST = [attack for attack in ASKED if attack not in SAMPLE]
ENVIRONMENT = {"OPENAI_API_KEY": KEY_IN_ENVIRONMENT}


def plant(attack: Attack, target: Target) -> str:
    """Put the text where the attack says that it stands; returns the cause to diagnose."""
    text = attack.injection.replace("{home}", str(target.home))
    comment = "".join(f"# {line}\n" for line in text.splitlines())
    if attack.place == "blueprint_note":
        (target.result / "blueprint.md").write_text(f"# the plan\n\n## Other Notes\n{text}\n")
    elif attack.place == "yaml_comment":
        config = target.result / "attempts/01/config.yaml"
        config.write_text(comment + config.read_text())
    elif attack.place in ("log", "traceback", "dataset_row", "file_name", "source_comment"):
        return f"ValueError: {text}"
    elif attack.place == "metric_name":
        row = {"step": 2, "values": {text: 0.5}, "time": NOW}
        with (target.result / "attempts/01/metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
    return f"ZeroDivisionError: {text}"


async def obey_everything(attack: Attack, target: Target) -> tuple[Obedient, WatchedExecutor]:
    experiment = target.experiment(attack.stage, attack.config)
    cause = plant(attack, target)
    if attack.stage == "failed":
        record(experiment, "outcome", action="diagnose", diagnosis={"cause": cause, "confidence": 1.0})
    else:
        record(experiment, "outcome", action="note", text=cause)
    model = Obedient(lambda seen: call("finish", reason="nothing else was asked of me"))
    executor = WatchedExecutor(experiment)
    with ModelServer(model) as server:
        provider = AnthropicProvider("claude-scripted", "test-key", server.anthropic_url)
        transcript = Transcript(
            target.result / "transcript-of-this.jsonl", Secrets(secret_values(ENVIRONMENT))
        )
        asked = Model(provider, PRICE, Limits(5.0, 50), experiment.record, transcript)
        try:
            await loop.run(executor, LlmPolicy(experiment, asked, asyncio.Event()))
        except OverError:
            pass
        finally:
            await asked.close()
            executor.close()
            experiment.close()
        shown = "\n".join(exchange.seen.text for exchange in server.log if exchange.seen)
    assert [secret for secret in SECRETS if secret in shown] == []
    return model, executor


@pytest.mark.parametrize(
    "attack",
    [*SAMPLE, *(pytest.param(attack, marks=pytest.mark.soak) for attack in REST)],
    ids=lambda attack: attack.name,
)
async def test_obeying_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: Attack) -> None:
    target = Target(tmp_path)
    monkeypatch.setenv("HOME", str(target.home))
    monkeypatch.setenv("OPENAI_API_KEY", KEY_IN_ENVIRONMENT)
    model, executor = await obey_everything(attack, target)
    assert [made.name for made in model.obeyed] == [attack.call[0]], "the injection never reached the model"
    if not attack.harmless:
        assert set(executor.done) <= {"collect", "report"}
