"""A conversation with a language model from the command line: which model, what it may cost, what a signal
does meanwhile, and what it has cost."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer

from harness.agent.policies import settled
from harness.options import RunOptions
from harness.providers.choice import LlmConfig, configured, limits_of, open_model
from harness.providers.conversation import Account
from harness.providers.cost import Limits
from harness.providers.model import Model
from harness.wording import count_text

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Told = TypeVar("Told")
Talk = Callable[[Model, Account, asyncio.Event, Callable[[str], None]], Awaitable[Told]]


@dataclass(frozen=True)
class Choice:
    """The model and what it may cost."""

    config: LlmConfig
    limits: Limits


def chosen(model: str | None, max_cost: float | None, max_calls: int | None) -> Choice | None:
    """The model that is configured, None without one. Raises ConfigurationError."""
    options, warnings = settled(RunOptions("llm", model, max_cost, max_calls), None, Path.cwd())
    config = configured(model, Path.cwd(), os.environ)
    for warning in warnings:
        typer.echo(f"harness: {warning}", err=True)
    return Choice(config, limits_of(options, config)) if config else None


Stop = list[Callable[[], object]]
"""What a signal calls: what ends the conversation, where there is one."""


@dataclass(frozen=True)
class Conversation:
    """A conversation with the chosen model. Its calls stand in `transcript` until it is over."""

    choice: Choice
    account: Account
    transcript: Path
    stop: Stop

    def hold(self, talk: Talk[Told]) -> Told:
        """What `talk` comes to with the model; a signal ends the talk, and what was made is kept."""
        return asyncio.run(self._talk(talk))

    async def _talk(self, talk: Talk[Told]) -> Told:
        model = open_model(self.choice.config, self.choice.limits, self.account.record, self.transcript)
        interrupted, events = asyncio.Event(), asyncio.get_running_loop()
        self.stop.append(lambda: events.call_soon_threadsafe(interrupted.set))
        try:
            return await talk(model, self.account, interrupted, _say)
        finally:
            self.stop.clear()
            await model.close()


def _say(line: str) -> None:
    typer.echo(f"· {line}", err=True)


@contextmanager
def conversation(choice: Choice) -> Iterator[Conversation]:
    """A conversation with this model: inside, signals only end its talk; at the end it says what it cost."""
    with tempfile.TemporaryDirectory() as folder, _held_signals() as stop:
        transcript, account = Path(folder) / "transcript.jsonl", Account()
        transcript.touch(mode=0o600)
        try:
            yield Conversation(choice, account, transcript, stop)
        finally:
            _print_cost(account, choice.config)


@contextmanager
def _held_signals() -> Iterator[Stop]:
    """While what was paid for is not on the disk, Ctrl-C, SIGTERM and a closed terminal do not end the
    program, however often they come. What is ignored (by `nohup`) stays so."""
    stop: Stop = []
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: [end() for end in stop]) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_cost(account: Account, config: LlmConfig) -> None:
    """What it took: calls, tokens, cost."""
    spent, used = account.spending, account.tokens
    tokens = f"{used.all_input_tokens:,} input and {used.output_tokens:,} output tokens"
    calls = f"{count_text(spent.calls, 'call')}, {tokens}"
    cost = f"{spent.total_usd:.2f} USD" if config.price else "the cost is not known"
    if 0 < spent.total_usd < 0.005:
        cost = "less than 0.01 USD"
    typer.echo(f"{config.word.text}: {calls}, {cost}", err=True)
