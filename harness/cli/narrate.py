"""`harness narrate`: have a language model write about results that are there, and add it to the report."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness import index
from harness.cli import options
from harness.cli.console import OnlyOne, fail

if TYPE_CHECKING:
    from harness.cli.asking import Choice
    from harness.options import RunOptions
    from harness.results.narrative.added import Added


def narrate(
    run: OnlyOne = None,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
) -> None:
    """Add a language model's words to a finished report.

    The model is the one given here, else the one that the run was given, else that of harness.toml. Words
    that were added before are replaced.
    """
    from harness.cli.report import report
    from harness.results.narrative.added import FILE, TRANSCRIPT
    from harness.wording import time_text
    from monitors.processes import steady_time

    folder = index.find(run) if run is not None else index.only([*index.top_level()], "run to write about")
    if not (folder / "finish.flag").exists():
        fail(f"{folder} has not ended; `harness resume {folder}` goes on, and asks for words at its end")
    of = _of_sweep if index.is_sweep(folder) else _of_run
    with _as_it_was_without_words(folder / TRANSCRIPT):
        made = of(folder, model, max_cost, max_llm_calls)
    replace(made, at=time_text(steady_time())).write(folder)
    typer.echo(
        f"written: {folder / FILE} ({made.model}: {made.calls} calls, {made.input_tokens:,} input tokens)"
    )
    report(str(folder))


@contextmanager
def _as_it_was_without_words(transcript: Path) -> Iterator[None]:
    """Take back what was added to the transcript where no words came of it: the folder is sealed."""
    before = transcript.read_bytes() if transcript.exists() else b""
    try:
        yield
    except BaseException:
        if before:
            transcript.write_bytes(before)
        else:
            transcript.unlink(missing_ok=True)
        raise


def _chosen(
    given: "RunOptions", model: str | None, max_cost: float | None, max_calls: int | None
) -> "Choice":
    from harness.cli import asking

    options.check_cost(max_cost)
    cost = given.max_cost_usd if max_cost is None else max_cost
    choice = asking.chosen(model or given.model, cost, given.max_calls if max_calls is None else max_calls)
    return choice or fail("no language model is configured: name one, as --model anthropic:NAME")


def _of_run(folder: Path, model: str | None, max_cost: float | None, max_calls: int | None) -> "Added":
    from harness.agent.narrating import narrate
    from harness.providers.choice import open_model
    from harness.results.narrative.added import TRANSCRIPT

    choice = _chosen(index.load_state(folder).options, model, max_cost, max_calls)
    return asyncio.run(
        narrate(
            folder,
            choice.config.word.text,
            lambda record: open_model(choice.config, choice.limits, record, folder / TRANSCRIPT),
        )
    )


def _of_sweep(folder: Path, model: str | None, max_cost: float | None, max_calls: int | None) -> "Added":
    from harness.agent.narrating import NoWordsError
    from harness.codec import decode
    from harness.options import RunOptions
    from harness.results.narrative.added import TRANSCRIPT, Added
    from harness.sweep.plan import SweepFolder
    from harness.sweep.reporting import comparison, narrated
    from harness.sweep.state import load_state

    state = load_state(folder)
    choice = _chosen(decode(RunOptions, state.plan.options), model, max_cost, max_calls)
    compared = comparison(SweepFolder(folder), state)
    writing = narrated(compared, choice.config, choice.limits, folder / TRANSCRIPT)
    sections, took = asyncio.run(writing)
    if not sections:
        raise NoWordsError("the model wrote nothing that can be kept")
    cost = took.spending.total_usd if choice.config.price else None
    word = f"{choice.config.word.provider}:{choice.config.word.model}"
    used = took.tokens
    return Added(sections, word, took.spending.calls, used.all_input_tokens, used.output_tokens, cost)
