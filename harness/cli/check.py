"""`harness check`: what was understood of a blueprint, which defaults are used, and everything that is
wrong with it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.console import console, duration

if TYPE_CHECKING:
    from harness.blueprint import Blueprint


def check(
    blueprint: Annotated[Path, typer.Argument(help="The written plan (Markdown).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Show how a blueprint is understood and what is wrong with it. Exit status: 0 can run, 2 cannot."""
    from harness.blueprint import check_surroundings, check_trainer, read

    plan = check_trainer(check_surroundings(read(blueprint)))
    if as_json:
        typer.echo(json.dumps(plan.as_json(), indent=2, ensure_ascii=False))
    else:
        _print_understood(plan)
        print_problems(plan)
        typer.echo("can run" if plan.can_run else "cannot run")
    raise typer.Exit(0 if plan.can_run else 2)


def print_problems(plan: "Blueprint") -> None:
    """One line per problem on standard error: `file:line: severity: message — mend`."""
    for problem in plan.problems:
        where = f"{plan.path}:{problem.line}"
        typer.echo(f"{where}: {problem.severity}: {problem.message} — {problem.fix}", err=True)


def _print_understood(plan: "Blueprint") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    metrics = [*plan.metrics.patterns, plan.metrics.first_step or ""] if plan.metrics else []
    rows = {
        "experiment": plan.name,
        "purpose": plan.purpose or "–",
        "codebase": plan.codebase_dir,
        "python": plan.venv_exe,
        "config": plan.yaml_path or "NA: one is rendered if the command needs it",
        "command": plan.launch_command or "NA: the bundled trainer",
        "results": plan.result_dir,
        "max time": duration(plan.max_time_s),
        "first step": f"within {duration(plan.first_step_s)}",
        "metrics": "\n".join(filter(None, metrics)),
        "protected keys": ", ".join(plan.protected_keys),
        "code changes": "any source file" if plan.code_changes == ("**",) else ", ".join(plan.code_changes),
        "prepare": plan.prepare_command or "",
        "cleanup": plan.cleanup_command or "",
        "host": plan.host or "",
        "notes": plan.notes,
        "defaults used": "\n".join(plan.defaults),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, Text(str(value)))
    console().print(table, soft_wrap=False)
