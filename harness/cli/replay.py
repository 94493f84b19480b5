"""`harness replay`: the decisions of a run, made once more offline."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from harness.cli.console import console, fail, find_run


def replay(
    run: Annotated[
        str | None, typer.Argument(help="A result folder, a run's name or its id; default: newest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one decision per line.")] = False,
) -> None:
    """Make every decision of a run once more, from its journal, with the model's recorded replies.

    Nothing is launched, asked or written. Exit status: 0 when all decisions and prompts are the same, 1 when
    not.
    """
    from harness.agent.replay import replay as decisions
    from harness.journal import JournalDamagedError

    folder, different, count = find_run(run), 0, 0
    out = console()
    try:
        for decision in decisions(folder):
            count += 1
            different += bool(decision.differs)
            if as_json:
                typer.echo(json.dumps(asdict(decision), ensure_ascii=False))
                continue
            by = f"model, {decision.calls} calls" if decision.calls else "code"
            asked = f"{decision.action} (refused)" if decision.refused else decision.action
            verdict = "; ".join(decision.differs) or "the same"
            out.print(f"{decision.number:>5}  {by:<16} {asked:<28} {verdict}", markup=False)
    except JournalDamagedError as error:
        fail(str(error))
    if not as_json:
        out.print(f"{count} decisions, {different} of them not the same this time", markup=False)
    raise typer.Exit(1 if different else 0)
