"""A real model behind a scripted server, in both protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.providers.anthropic import AnthropicProvider
from harness.providers.conversation import Account
from harness.providers.cost import Limits
from harness.providers.model import Model
from harness.providers.openai import OpenAIProvider
from harness.providers.transcript import Transcript
from tests.model_server.server import ModelServer
from tests.model_server.steps import Script


@asynccontextmanager
async def scripted(folder: Path, protocol: str, script: Script) -> AsyncIterator[tuple[Model, Account]]:
    """A model that says what the script says; its transcript is `folder/transcript.jsonl`."""
    with ModelServer(script) as server:
        provider = (
            AnthropicProvider("claude-scripted", "test-key", server.anthropic_url)
            if protocol == "anthropic"
            else OpenAIProvider("gpt-scripted", "test-key", server.openai_url)
        )
        account = Account()
        transcript = Transcript(folder / "transcript.jsonl", ())
        model = Model(provider, None, Limits(None, 50), account.record, transcript)
        try:
            yield model, account
        finally:
            await model.close()
