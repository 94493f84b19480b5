"""The model's part in `harness diagnose`: asked only with `--model`, and only about what is open."""

import typer

from harness.agent.model_cause import ask
from harness.cli.asking import chosen, conversation
from harness.diagnosis import Diagnosis
from harness.providers.chat import ProviderError
from harness.providers.model import AskError
from harness.providers.settings import ConfigurationError
from harness.providers.tools import CallError
from harness.redaction import Secrets
from harness.results.text import clean_tree

CONFIGURED = "default"
"""What `--model` says for the model of harness.toml."""


def named(found: Diagnosis, model: str, secrets: Secrets) -> Diagnosis:
    """The diagnosis with the cause that the model has named; as it was, with the reason on standard error,
    where it could not."""
    open_cause = clean_tree(found, secrets)
    try:
        choice = chosen(None if model == CONFIGURED else model, None, None)
        if choice is None:
            raise ConfigurationError("no language model is configured: name one, as --model anthropic:NAME")
        with conversation(choice) as held:
            return held.hold(
                lambda asked, account, stopped, _: ask(open_cause, asked, account.spending, stopped)
            )
    except (AskError, ProviderError, CallError, ConfigurationError) as error:
        typer.echo(f"harness: the cause is not named by a model: {error}", err=True)
        return found
