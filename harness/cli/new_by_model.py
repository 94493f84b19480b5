"""`harness new "WORDS"` with a language model: the conversation, its limits, and what the person is shown."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
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
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    from harness.author.keeping import check_place
    from harness.providers import ConfigurationError

    check_place(brief)
    desk, account = Desk(brief), Account()
    with tempfile.TemporaryDirectory() as folder, _held_signals() as stop:
        transcript = Path(folder) / "transcript.jsonl"
        transcript.touch(mode=0o600)
        try:
            ended = asyncio.run(_converse(desk, account, choice, transcript, stop))
            made = hand_over(desk, transcript)
        except ConfigurationError as error:
            fail(str(error))
        except BaseException:
            _keep(desk, transcript, account)
            raise
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


@dataclass
class _Stop:
    """What a signal does: nothing but to end the conversation, where there is one."""

    end: Callable[[], object] = field(default=lambda: None)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.end()


@contextmanager
def _held_signals() -> Iterator[_Stop]:
    """While what was paid for is not on the disk, Ctrl-C, SIGTERM and a closed terminal do not end the
    program, however often they come. What is ignored (by `nohup`) stays so."""
    stop = _Stop()
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop.on_signal) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(desk: "Desk", transcript: Path, account: "Account") -> None:
    """Save what was paid for when it cannot be handed over, and say where it is."""
    from harness.author.keeping import keep_beside

    if account.spending.calls == 0:
        return
    folder = keep_beside(desk, transcript)
    said = f"what was made is kept in {folder}" if folder else "what was made could be written nowhere"
    typer.echo(f"harness: {said}", err=True)


async def _converse(
    desk: "Desk", account: "Account", choice: Choice, transcript: Path, stop: _Stop
) -> "Ended":
    """Talk to the model until it hands over; a signal ends the talk, and what was made is kept."""
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
    interrupted, events = asyncio.Event(), asyncio.get_running_loop()
    stop.end = lambda: events.call_soon_threadsafe(interrupted.set)
    try:
        return await converse(
            desk, model, account, interrupted, lambda line: typer.echo(f"· {line}", err=True)
        )
    finally:
        stop.end = lambda: None
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
