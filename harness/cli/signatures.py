"""`harness signatures`: try a signature before it is used."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import index
from harness.cli.console import AsJson, print_json

if TYPE_CHECKING:
    from harness.diagnosis.trial import Caught

MOST_LOGS = 200

signatures = typer.Typer(name="signatures", help="Try signatures of your own.", no_args_is_help=True)


@signatures.callback()
def _group() -> None:
    pass


@signatures.command("test")
def try_out(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of signatures.")],
    json_output: AsJson = False,
) -> None:
    """Say what the signatures of a file catch: examples of known failures, and logs of your earlier runs.

    Exit status: 0, or 1 where a signature does not catch its own example, 2 where the file cannot be used.
    """
    from harness.diagnosis import trial
    from harness.diagnosis.signatures import read_file

    tried = read_file(file)
    texts = trial.examples(tried)
    of_examples = list(trial.of_texts(tried, texts))
    logs = list(_past_logs())
    of_runs = list(trial.of_logs(tried, logs))
    known = {each.where for each in of_examples if each.after == each.where}
    missed = [each.id for each in tried if each.example and each.id not in known]
    if json_output:
        print_json({"examples": _plain(of_examples), "runs": _plain(of_runs), "missed": missed})
    else:
        _print(f"{len(texts)} examples of known failures", of_examples)
        _print(f"{len(logs)} logs of earlier runs", of_runs)
        for name in missed:
            typer.echo(f"{name} does not catch its own example")
    raise typer.Exit(1 if missed else 0)


def _past_logs() -> Iterator[tuple[str, Path]]:
    """The newest logs of attempts that ended, of runs that the index knows."""
    found = 0
    for run in reversed(index.everything("run")):
        for log in sorted(run.dir.glob("attempts/*/pane.log"), reverse=True):
            if found < MOST_LOGS and (log.parent / "exit.json").exists():
                found += 1
                yield f"attempt {int(log.parent.name)} of {run.name}: {log}", log


def _plain(caught: "Iterable[Caught]") -> list[dict[str, Any]]:
    return [asdict(each) | {"taken": each.is_taken} for each in caught]


def _print(what: str, caught: "Iterable[Caught]") -> None:
    caught = list(caught)
    typer.echo(f"{what}: {len(caught)} caught, {sum(each.is_taken for each in caught)} taken from others")
    for each in caught:
        if each.is_taken:
            came = f"taken from {each.before} by {each.after}"
        elif each.after in each.ids:
            came = f"{each.after}, was {each.before}" if each.before != each.after else each.after
        else:
            came = f"holds, but {each.after} goes before"
        typer.echo(f"  {each.where}: {came}")
