"""Which policy decides a run: the language model where one is configured, else the playbook."""

import asyncio
import math
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

from harness.agent.playbook import Playbook
from harness.experiment import Experiment
from harness.journal.model_events import Consulted, ModelAvailable, ModelUnavailable
from harness.options import RunOptions

if TYPE_CHECKING:
    from harness.observation import Policy
    from harness.providers.choice import LlmConfig

PATIENCE_IN_SWEEP_S = 300.0
"""How long a run of a sweep waits for a server that is down: others may want its slot."""


def settled(options: RunOptions, given_policy: str | None, cwd: Path) -> tuple[RunOptions, tuple[str, ...]]:
    """The options with policy, model and limits made definite, and warnings for the person.

    Command line before harness.toml. Raises ConfigurationError (see `harness.providers`) when an LLM is asked
    for and none can be had.
    """
    from harness.providers.choice import configured
    from harness.providers.settings import ConfigurationError

    if given_policy == "playbook":
        return options.changed(policy="playbook"), ()
    config = configured(options.model, cwd, os.environ)
    if config is None:
        if given_policy == "llm":
            raise ConfigurationError("no language model is configured: name one, as --model anthropic:NAME")
        return options.changed(policy="playbook"), ()
    cost, calls = options.max_cost_usd, options.max_calls
    definite = options.changed(
        policy="llm",
        model=config.word.text,
        max_cost_usd=config.max_cost_usd if cost is None else cost,
        max_calls=config.max_calls if calls is None else calls,
        key_variable=config.key_variable,
    )
    return definite, config.warnings


def make_policy(
    experiment: Experiment, interrupted: asyncio.Event, longest_patience_s: float = math.inf
) -> "Policy":
    """The policy of this experiment's options. Raises ConfigurationError."""
    options = experiment.state.options
    if options.policy == "playbook":
        return playbook(experiment, "the playbook was chosen")
    from harness.agent.llm import LlmPolicy
    from harness.providers.choice import configured, limits_of, open_model

    config: LlmConfig | None = configured(options.model, Path(options.settings_dir or Path.cwd()), os.environ)
    assert config is not None
    jitter = random.Random(experiment.state.experiment_id)
    transcript = experiment.dir / "transcript.jsonl"
    model = open_model(config, limits_of(options, config), experiment.record, transcript, jitter)
    if experiment.state.without_model:
        experiment.record(ModelAvailable(config.word.text))
    return LlmPolicy(experiment, model, interrupted, longest_patience_s)


def playbook(experiment: Experiment, why: str) -> Playbook:
    """The built-in policy; a question that a model was being asked is closed."""
    state = experiment.state
    if state.options.policy == "llm" and not state.without_model:
        experiment.record(ModelUnavailable(why))
    if state.llm.consultation is not None:
        why = f"the playbook decides now: {why}"
        experiment.record(Consulted(state.llm.consultation.topic, why, drops_draft=True, unanswered=True))
    return Playbook()
