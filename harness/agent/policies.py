"""Which policy decides a run: the language model where one is configured, else the playbook."""

import asyncio
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

from harness.agent.playbook import Playbook
from harness.experiment import Experiment
from harness.options import RunOptions
from harness.redaction import secret_values

if TYPE_CHECKING:
    from harness.agent.types import Policy
    from harness.providers import LlmConfig


DEFAULT_MAX_CALLS = 100
DEFAULT_MAX_COST_USD = 10.0  # where the price is known


def settled(options: RunOptions, given_policy: str | None, cwd: Path) -> tuple[RunOptions, tuple[str, ...]]:
    """The options with policy, model and limits made definite, and warnings for the person.

    Command line before harness.toml. Raises ConfigurationError (see `harness.providers`) when an LLM is asked
    for and none can be had.
    """
    from harness.providers import ConfigurationError, configured

    if given_policy == "playbook":
        return options.changed(policy="playbook"), ()
    config = configured(options.model, cwd, os.environ)
    if config is None:
        if given_policy == "llm":
            raise ConfigurationError("no language model is configured: name one, as --model anthropic:NAME")
        return options.changed(policy="playbook"), ()
    limits = RunOptions(
        max_cost_usd=DEFAULT_MAX_COST_USD if config.price is not None else None,
        max_calls=DEFAULT_MAX_CALLS,
    ).changed(max_cost_usd=config.max_cost_usd, max_calls=config.max_calls)
    limits = limits.changed(max_cost_usd=options.max_cost_usd, max_calls=options.max_calls)
    definite = options.changed(
        policy="llm",
        model=config.model_word,
        max_cost_usd=limits.max_cost_usd,
        max_calls=limits.max_calls,
        key_variable=config.key_variable,
    )
    return definite, config.warnings


def make_policy(experiment: Experiment, interrupted: asyncio.Event, cwd: Path) -> "Policy":
    """The policy of this experiment's options. Raises ConfigurationError."""
    options = experiment.state.options
    if options.policy == "playbook":
        return Playbook()
    from harness.agent.llm import LlmPolicy
    from harness.providers import Limits, Model, Transcript, configured, make_provider

    config: LlmConfig | None = configured(options.model, cwd, os.environ)
    assert config is not None
    secrets = (*secret_values(os.environ), *config.secrets)
    model = Model(
        make_provider(config),
        config.price,
        Limits(options.max_cost_usd, options.max_calls),
        experiment.record,
        Transcript(experiment.dir / "transcript.jsonl", secrets),
        jitter=random.Random(experiment.state.experiment_id),
    )
    return LlmPolicy(experiment, model, interrupted)
