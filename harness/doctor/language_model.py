"""The language model that harness.toml names: whether it answers, tried with one small request."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.doctor.findings import Finding, fine, warning
from harness.options import RunOptions

if TYPE_CHECKING:
    from harness.providers.choice import LlmConfig


def of_language_model(cwd: Path) -> Iterator[Finding]:
    """What was found of the model that runs started in `cwd` would ask; nothing where none is configured."""
    from harness.providers.choice import configured
    from harness.providers.settings import ConfigurationError

    try:
        config = configured(None, cwd, os.environ)
        if config is None:
            return
        trouble = asyncio.run(_trouble_of(config))
    except ConfigurationError as error:
        yield warning(str(error), "until then the playbook decides")
        return
    if trouble:
        yield warning(f"{config.word.text} does not answer: {trouble}", "until it does the playbook decides")
    else:
        yield fine(f"{config.word.text} answers")


async def _trouble_of(config: "LlmConfig") -> str:
    from harness.providers.choice import limits_of, open_model
    from harness.providers.conversation import Account
    from harness.providers.trial import trouble_of

    account, options = Account(), RunOptions(max_cost_usd=config.max_cost_usd, max_calls=config.max_calls)
    with tempfile.TemporaryDirectory() as folder:
        transcript = Path(folder) / "transcript.jsonl"
        model = open_model(config, limits_of(options, config), account.record, transcript)
        try:
            return await trouble_of(model, account.spending)
        finally:
            await model.close()
