"""`ajet`: train from a config file, check one, explain a key; with `ajet new workflow` begin an agent, with
`ajet rollouts` look at episodes.

Exit codes: 0 ok, 1 training failed, 2 bad config.
"""

import gc
import importlib
import json
import sys
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from trainer_core.backbone.plan import make_plan, told
from trainer_core.backbone.process import tune_process
from trainer_core.config import ConfigError, Loaded, Problem, load_config, resolved_yaml, trinity, verl
from trainer_core.config.keys import Key, all_keys, shown_default, suggestion
from trainer_core.config.load import as_yaml
from trainer_core.config.support import note
from trainer_core.types import DataError, TrainingError
from trainer_core.workflow.example import write_example

BAD_CONFIG = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(
    help="Train a language model as a config file says.",
    epilog="`ajet new workflow NAME` begins an agent; `ajet rollouts DIR` lists what was answered.",
)
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
        typer.Option(
            "--backbone", help="What trains; stronger than the file. local, verl, trinity or debug."
        ),
    ] = None,
    exp_dir: Annotated[
        str | None,
        typer.Option("--exp-dir", help="Write to EXP_DIR/{experiment_name}. [default: ./launcher_record]"),
    ] = None,
    with_ray: Annotated[
        bool, typer.Option("--with-ray", help="Run verl's workers on a Ray that is started here.")
    ] = False,
    with_ray_cluster: Annotated[
        bool,
        typer.Option(
            "--with-ray-cluster", help="Run them on the Ray cluster at RAY_ADDRESS. [default: auto]"
        ),
    ] = False,
    autokill: Annotated[
        bool,
        typer.Option(
            "--autokill",
            help="First end a training of this machine that still writes to the same folder; nothing else.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check config and data, print the config in full and what the run would do."
        ),
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
    if with_ray and with_ray_cluster:
        raise typer.BadParameter("start a Ray or use a cluster, not both", param_hint="--with-ray-cluster")
    ray = "local" if with_ray else "cluster" if with_ray_cluster else None
    try:
        loaded = load_config(
            conf, now=datetime.now(), overrides=settings or (), backbone=backbone, ray=ray, exp_dir=exp_dir
        )
    except ConfigError as error:
        _print_problems(error.problems, as_json)
        raise typer.Exit(BAD_CONFIG) from None
    if dry_run:
        raise typer.Exit(_dry_run(loaded, as_json))
    if not loaded.config.ajet.enable_swarm_mode:  # the server has said them, of what its user has written
        _echo("warning", loaded.warnings)
    main = _imported("trainer_core.backbone.main")
    tune_process()
    raise typer.Exit(main.train(loaded.config, ends_other=autokill))


def _imported(module: str) -> Any:
    """A module of ours; where a package that it needs is not installed, that is said and the program ends."""
    gc.disable()  # nearly nothing of an import is garbage, and looking for it is a fifth of the time
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "trainer_core":
            raise
        fix = "in the checkout of ajet-harness type: pip install '.[trainer]'"
        typer.echo(f"error: this needs {error.name}, which is not installed; {fix}", err=True)
        raise SystemExit(BAD_CONFIG) from None
    finally:
        gc.enable()


def _print_problems(problems: Iterable[Problem], as_json: bool, stage: str = "config") -> None:
    """`stage`: what they are problems of, `config` or `data`."""
    if as_json:
        found = {"ok": False, "stage": stage, "problems": [problem.as_json() for problem in problems]}
        typer.echo(json.dumps(found, ensure_ascii=False, default=str))
        return
    _echo("error", problems)


def _echo(kind: str, problems: Iterable[Problem]) -> None:
    for problem in problems:
        typer.echo(f"{kind}: {problem}", err=True)


def _dry_run(loaded: Loaded, as_json: bool) -> int:
    """Print the config in full and, as comments behind it, what the run would do."""
    ajet = loaded.config.ajet
    in_verl: dict[str, Any] = {}
    in_trinity: dict[str, Any] = {}
    try:
        plan = make_plan(ajet, loaded.config.verl)
        if ajet.backbone == "verl":
            in_verl = _imported("trainer_core.backbone.verl").look(loaded.config)
        if ajet.backbone == "trinity":
            steps = plan.schedule.total_steps
            in_trinity = _imported("trainer_core.backbone.trinity").look(loaded.config, steps)
    except TrainingError as error:
        stage = "data" if isinstance(error, DataError) else "config"
        _print_problems([Problem(f"{error}.", "", loaded.name)], as_json, stage)
        return BAD_CONFIG
    warnings = [*loaded.warnings, *map(loaded.problem, plan.doubts)]
    if as_json:
        answer = {
            "ok": True,
            "config": loaded.config.model_dump(mode="json"),
            "plan": plan.as_json(),
            "verl": in_verl,
            "trinity": in_trinity,
            "warnings": [warning.as_json() for warning in warnings],
        }
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return 0
    _echo("warning", warnings)
    typer.echo(resolved_yaml(loaded.config), nl=False)
    typer.echo("".join(f"\n# {line}" for line in told(plan, ajet)))
    typer.echo(
        "".join(f"# in verl     {path}: {json.dumps(value)}\n" for path, value in in_verl.items()), nl=False
    )
    if in_trinity:
        lines = (f"trinity.yaml, {in_trinity['checked']}:", *as_yaml(in_trinity["config"]).splitlines())
        typer.echo("".join(f"# {line}\n" for line in lines), nl=False)
    return 0


def _explain(pattern: str, as_json: bool) -> int:
    keys = [key for key in all_keys().values() if fnmatchcase(key.path, pattern)]
    if not keys:
        problem = Problem("is not a key of the trainer.", suggestion(pattern), "--explain", pattern)
        _print_problems([problem], as_json)
        return BAD_CONFIG
    if as_json:
        told = [
            {
                "key": key.path,
                "type": key.type,
                "default": key.default,
                "description": key.description,
                "local": None if key.is_section else note(key),
                "verl": verl.targets(key.path),
                "trinity": trinity.targets(key.path),
            }
            for key in keys
        ]
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(map(_as_text, keys)))
    return 0


def _as_text(key: Key) -> str:
    lines = [key.path, f"  {key.description}"]
    if not key.is_section:
        lines += [f"  allowed  {key.type}", f"  default  {shown_default(key)}", f"  on local {note(key)}"]
        lines += [f"  in verl  {target}" for target in verl.targets(key.path)]
        lines += [f"  in trinity  {target}" for target in trinity.targets(key.path)]
    return "\n".join(lines)


_new = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@_new.callback()
def _make() -> None:
    """Make something to start from."""


@_new.command(help="Write an agent and a config that trains it into a new folder.")
def workflow(folder: Annotated[Path, typer.Argument(metavar="NAME", help="The folder.")]) -> None:
    """Write, and say how to go on."""
    try:
        write_example(folder)
    except TrainingError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_CONFIG) from None
    typer.echo(f"{folder}/agent.py holds the agent, {folder}/config.yaml what it is trained with. Type:")
    typer.echo(f"  ajet --conf {folder}/config.yaml --backbone debug   # a few episodes, every call shown")
    typer.echo(f"  ajet --conf {folder}/config.yaml")


def main() -> None:
    """Entry point of the console script."""
    if sys.argv[1:2] == ["new"]:
        _new(sys.argv[2:], prog_name="ajet new")
    if sys.argv[1:2] == ["rollouts"]:
        _imported("trainer_core.records.rollouts").app(sys.argv[2:], prog_name="ajet rollouts")
    app(prog_name="ajet")


if __name__ == "__main__":
    main()
