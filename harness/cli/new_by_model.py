"""`harness new "WORDS"` with a language model: the conversation, its limits, and what the person is shown."""

import asyncio
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.console import console, fail

if TYPE_CHECKING:
    from harness.author.conversation import Account, Ended
    from harness.author.desk import Desk
    from harness.author.draft import Brief
    from harness.author.handing_over import HandedOver
    from harness.author.sources import Row
    from harness.providers import Limits, LlmConfig

_WIDEST_VALUE = 40


@dataclass(frozen=True)
class Choice:
    """The model and what it may cost."""

    config: "LlmConfig"
    limits: "Limits"


def chosen(model: str | None, max_cost: float | None, max_calls: int | None) -> Choice | None:
    """The model that is configured, None without one; a clear end for what cannot be used."""
    from harness.agent.policies import limits_of, settled
    from harness.options import RunOptions
    from harness.providers import ConfigurationError, configured

    try:
        options, warnings = settled(RunOptions("llm", model, max_cost, max_calls), None, Path.cwd())
        config = configured(model, Path.cwd(), os.environ)
    except ConfigurationError as error:
        fail(str(error))
    for warning in warnings:
        typer.echo(f"harness: {warning}", err=True)
    return Choice(config, limits_of(options, config)) if config else None


def write(brief: "Brief", choice: Choice) -> int | None:
    """Let the model write the experiment, and print what it made. Returns the exit status, or None when there
    is nothing because the model could not be asked."""
    from harness.author.conversation import Account
    from harness.author.desk import Desk
    from harness.author.handing_over import hand_over

    desk, account = Desk(brief), Account()
    with tempfile.TemporaryDirectory() as folder:
        transcript = Path(folder) / "transcript.jsonl"
        transcript.touch(mode=0o600)
        ended = asyncio.run(_converse(desk, account, choice, transcript))
        try:
            made = hand_over(desk, transcript)
        finally:
            _print_cost(account, choice.config)
    if ended.trouble:
        typer.echo(f"harness: the model did not come to an end: {ended.trouble}", err=True)
    if made is None:
        typer.echo("harness: nothing was written", err=True)
        return 130 if ended.interrupted else None
    _print(made, ended)
    if ended.trouble:
        return 130 if ended.interrupted else 1
    return 2 if made.findings.problems else 0


async def _converse(desk: "Desk", account: "Account", choice: Choice, transcript: Path) -> "Ended":
    """Talk to the model until it hands over; Ctrl-C ends the talk, and what was made is kept."""
    from harness.author.conversation import converse
    from harness.providers import Model, Transcript, make_provider
    from harness.redaction import secret_values

    secrets = (*secret_values(os.environ), *choice.config.secrets)
    model = Model(
        make_provider(choice.config),
        choice.config.price,
        choice.limits,
        account.record,
        Transcript(transcript, secrets),
    )
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        return await converse(
            desk, model, account, interrupted, lambda line: typer.echo(f"· {line}", err=True)
        )
    finally:
        await model.close()


def _print(made: "HandedOver", ended: "Ended") -> None:
    out, blueprint = console(), made.folder / "blueprint.md"
    out.print(f"written: {', '.join(str(made.folder / name) for name in made.files)}", markup=False)
    if ended.trouble:
        out.print("It is unfinished: the model had not handed it over. Read it before you run it.")
    _print_rows("What will run", made.plan)
    _print_rows("Config (what is not shown is the template's or the trainer's default)", made.config)
    _print_list("Assumed", made.assumptions)
    _print_list("Please look at", made.look_at)
    _print_list("Not on this machine", made.findings.needs)
    _print_list("Notes of the check", made.findings.warnings)
    _print_list("Problems that are left", made.findings.problems)
    where = ", where there is what it needs" if made.findings.needs else ""
    out.print(f"\nnext:    harness check {blueprint}\n         harness run {blueprint}{where}", markup=False)


def _print_rows(title: str, rows: "list[Row]") -> None:
    if not rows:
        return
    names, values = (max(len(getattr(row, part)) for row in rows) for part in ("name", "value"))
    console().print(f"\n{title}", markup=False)
    for row in rows:
        value = " ".join(row.value.split())
        shown = f"  {row.name:<{names}}  {value:<{min(values, _WIDEST_VALUE)}}  {row.source}"
        console().print(shown, markup=False)


def _print_list(title: str, sentences: tuple[str, ...]) -> None:
    if not sentences:
        return
    console().print(f"\n{title}", markup=False)
    for sentence in sentences:
        console().print(f"  - {' '.join(sentence.split())}", markup=False)


def _print_cost(account: "Account", config: "LlmConfig") -> None:
    spent = account.spending
    calls = f"{spent.calls} call{'' if spent.calls == 1 else 's'}"
    cost = f"{spent.total_usd:.2f} USD" if config.price else "the cost is not known"
    if 0 < spent.total_usd < 0.005:
        cost = "less than 0.01 USD"
    typer.echo(f"{config.model_word}: {calls}, {cost}", err=True)
