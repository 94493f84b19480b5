"""`ajet`: train from a config file, check one, or explain a key.

Exit codes: 0 ok, 1 training failed, 2 bad config.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from trainer_core.config import ConfigError, Loaded, Problem, load_config, resolved_yaml
from trainer_core.config.keys import Key, all_keys, shown_default, suggestion
from trainer_core.config.local_support import note

BAD_CONFIG = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(help="Train a language model as a config file says.")
def ajet(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Settings stronger than the file, such as a.b=1; YAML."
        ),
    ] = None,
    conf: Annotated[Path | None, typer.Option("--conf", help="The config file.")] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", help="What trains; stronger than the file. This version: local."),
    ] = None,
    exp_dir: Annotated[
        str | None,
        typer.Option("--exp-dir", help="Write to EXP_DIR/{experiment_name}. [default: ./launcher_record]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the config, print it in full, and do not train.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="KEY",
            help="Explain a key, or all that match a pattern such as 'ajet.data.*'.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print errors, --dry-run and --explain as JSON on standard output.")
    ] = False,
) -> None:
    """Parse, call, print."""
    if explain is not None:
        raise typer.Exit(_explain(explain, as_json))
    if conf is None:
        raise typer.BadParameter("name a config file, such as --conf config.yaml", param_hint="--conf")
    try:
        loaded = load_config(
            conf, now=datetime.now(), overrides=settings or (), backbone=backbone, exp_dir=exp_dir
        )
    except ConfigError as error:
        _print_problems(error.problems, as_json)
        raise typer.Exit(BAD_CONFIG) from None
    if dry_run:
        _print_config(loaded, as_json)
        return
    _print_warnings(loaded.warnings)
    try:
        from trainer_core.backbone.local import train
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "trainer_core":
            raise
        fix = "in the checkout of ajet-harness type: pip install '.[trainer]'"
        typer.echo(f"error: training needs {error.name}, which is not installed; {fix}", err=True)
        raise typer.Exit(BAD_CONFIG) from None

    raise typer.Exit(train(loaded.config))


def _print_problems(problems: Iterable[Problem], as_json: bool) -> None:
    if as_json:
        found = [problem.as_json() for problem in problems]
        typer.echo(json.dumps({"ok": False, "problems": found}, ensure_ascii=False, default=str))
        return
    for problem in problems:
        typer.echo(f"error: {problem}", err=True)


def _print_warnings(warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _print_config(loaded: Loaded, as_json: bool) -> None:
    if as_json:
        warnings = [warning.as_json() for warning in loaded.warnings]
        config = loaded.config.model_dump(mode="json")
        typer.echo(json.dumps({"ok": True, "config": config, "warnings": warnings}, ensure_ascii=False))
        return
    _print_warnings(loaded.warnings)
    typer.echo(resolved_yaml(loaded.config), nl=False)


def _explain(pattern: str, as_json: bool) -> int:
    keys = [key for key in all_keys().values() if fnmatchcase(key.path, pattern)]
    if not keys:
        problem = Problem("is not a key of the trainer.", suggestion(pattern), "--explain", pattern)
        _print_problems([problem], as_json)
        return BAD_CONFIG
    if as_json:
        typer.echo(json.dumps([_as_json(key) for key in keys], ensure_ascii=False))
    else:
        typer.echo("\n\n".join(_as_text(key) for key in keys))
    return 0


def _as_json(key: Key) -> dict[str, object]:
    return {
        "key": key.path,
        "type": key.type,
        "default": key.default,
        "description": key.description,
        "local": None if key.is_section else note(key),
    }


def _as_text(key: Key) -> str:
    lines = [key.path, f"  {key.description}"]
    if not key.is_section:
        lines += [f"  allowed  {key.type}", f"  default  {shown_default(key)}", f"  on local {note(key)}"]
    return "\n".join(lines)


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="ajet")


if __name__ == "__main__":
    main()
