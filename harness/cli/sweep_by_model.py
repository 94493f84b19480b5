"""`harness sweep "QUESTION" --from BLUEPRINT`: a language model proposes the sweep before anything runs."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from harness.cli.asking import Choice, chosen, held_signals, print_cost, with_model
from harness.cli.console import fail

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.options import RunOptions
    from harness.sweep.proposing import Proposed
    from harness.sweep.spec import SweepSpec
    from harness.sweep.types import SweepPlan

Planned = Callable[["SweepSpec"], "SweepPlan"]


def propose(
    question: str, blueprint: "Blueprint", given: Mapping[str, Any], options: "RunOptions", planned: Planned
) -> tuple["SweepPlan", "SweepSpec", dict[str, Any]]:
    """The proposed plan, its spec, and what is kept of the proposal with the calls that led to it; a clear
    end where no model is configured or none is proposed. Raises SweepError."""
    from harness.providers.conversation import Account
    from harness.providers.settings import ConfigurationError

    choice = chosen(options.model, options.max_cost_usd, options.max_calls)
    if choice is None:
        fail(
            "a question needs a language model (--model anthropic:NAME, or `model` in the [llm] section of "
            "harness.toml); or say what to vary: `harness sweep BLUEPRINT --vary KEY=V1,V2`"
        )
    account = Account()
    with tempfile.TemporaryDirectory() as folder, held_signals() as stop:
        transcript = Path(folder) / "transcript.jsonl"
        transcript.touch(mode=0o600)
        asked = _asking(question, blueprint, given, planned, choice)
        try:
            proposed = asyncio.run(with_model(choice, account, transcript, stop, asked))
        except ConfigurationError as error:
            fail(str(error))
        finally:
            print_cost(account, choice.config)
        calls = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]
    if proposed.proposal is None:
        fail(f"no sweep was proposed: {proposed.trouble}", 130 if proposed.interrupted else 1)
    found = proposed.proposal
    _print(found.hypothesis, found.change_mind, found.cautions)
    return found.plan, found.spec, {**found.as_json(), "calls": calls}


def _asking(
    question: str, blueprint: "Blueprint", given: Mapping[str, Any], planned: Planned, choice: Choice
) -> Callable[..., Any]:
    from harness.sweep import proposing
    from harness.sweep.forecast import expected_run_s

    bounds = proposing.Bounds(given, run_s=expected_run_s(blueprint))

    async def asked(model: Any, account: Any, interrupted: asyncio.Event, say: Any) -> "Proposed":
        author = choice.config.model_word
        return await proposing.propose(
            question, blueprint, model, account, planned, author, bounds, interrupted, say
        )

    return asked


def _print(hypothesis: str, change_mind: str, cautions: tuple[str, ...]) -> None:
    typer.echo(f"expected: {hypothesis}\nwould change its mind: {change_mind}")
    for caution in cautions:
        typer.echo(f"consider: {caution}", err=True)
