"""`harness check` and `harness doctor`: how a blueprint is read, and what can be foreseen of a launch."""

import asyncio
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.console import AsJson, fail, print_json, print_table
from harness.results.text import spelled
from harness.wording import short_duration as duration

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.doctor import Finding

_STYLES = {"problem": "red", "warning": "yellow", "ok": "green"}


def check(
    blueprint: Annotated[Path, typer.Argument(metavar="BLUEPRINT", help="The written plan (Markdown).")],
    as_json: AsJson = False,
) -> None:
    """Show how a blueprint is read, and what is wrong with it.

    Exit status: 0 it can run, 2 it cannot.
    """
    from harness.blueprint import check_surroundings, check_trainer, read

    plan = _with_paths(check_trainer(check_surroundings(read(blueprint))))
    if as_json:
        print_json(plan.as_json())
    else:
        if plan.lines or plan.can_run:  # else the file says nothing that could be shown
            _print_understood(plan)
        print_problems(plan)
        typer.echo("can run" if plan.can_run else "cannot run")
    raise typer.Exit(0 if plan.can_run else 2)


def _with_paths(plan: "Blueprint") -> "Blueprint":
    """The same blueprint with the programs and files that it names and that are not there."""
    from harness.blueprint import names
    from harness.blueprint.types import Problem
    from harness.doctor import of_paths

    if not plan.can_run or plan.launch_command is None:
        return plan
    line = plan.lines.get(names.COMMAND, 1)
    found = [
        Problem(line, each.text, each.fix, "error" if each.severity == "problem" else "warning")
        for each in of_paths(plan)
        if each.severity != "ok"
    ]
    return replace(plan, problems=(*plan.problems, *found))


def runnable(blueprint: Path, what_then: str = "") -> "Blueprint":
    """The plan in this file, its problems said; a clear end where it cannot run, and `what_then`."""
    from harness.blueprint import check_surroundings, read

    plan = check_surroundings(read(blueprint))
    print_problems(plan)
    if not plan.can_run:
        how = f"`harness check {blueprint}` shows how it was understood"
        fail(f"{blueprint} cannot run{what_then}; {how}")
    return plan


def print_problems(plan: "Blueprint") -> None:
    """One line per problem on standard error: `file:line: severity: message — fix`."""
    for problem in plan.problems:
        where = f"{plan.path}:{problem.line}"
        typer.echo(spelled(f"{where}: {problem.severity}: {problem.message} — {problem.fix}"), err=True)


def _print_understood(plan: "Blueprint") -> None:
    from rich.text import Text

    spec = plan.metrics
    metrics = [*spec.patterns, spec.first_step, spec.metric, spec.goal] if spec else []
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
        "code changes": _granted(plan),
        "prepare": plan.prepare_command or "",
        "evaluate": plan.evaluate_command or "",
        "cleanup": plan.cleanup_command or "",
        "host": plan.host or "",
        "notes": plan.notes,
        "defaults used": "\n".join(plan.defaults),
    }
    print_table((Text(name, style="bold"), str(value)) for name, value in rows.items() if value)


def _granted(plan: "Blueprint") -> str:
    """What [exp_code_changes] comes to; "" for nothing."""
    from harness.blueprint.names import NO_NETWORK, UNATTENDED, is_condition

    if not plan.code_changes:
        return ""
    entries = ", ".join((plan.patchable, *filter(is_condition, plan.code_changes)))
    by = "without anybody being asked" if UNATTENDED in plan.code_changes else "when a person approves it"
    network = "no network" if NO_NETWORK in plan.code_changes else "the network"
    return (
        f"{entries}\nA model may write code that is run on this machine as you, {by}. Where there is a "
        "sandbox (`harness doctor --all` says which), it writes only its own copy of the code, its attempt's "
        "folder, a /tmp of its own and what `writable:` names. Of your home folder it sees only what the "
        "plan's command, config and variables name, what links of the codebase lead to, and what `readable:` "
        f"names. It has {network}."
    )


def doctor(
    blueprint: Annotated[
        Path | None,
        typer.Argument(
            metavar="BLUEPRINT", help="The written plan; without one, only the machine is examined."
        ),
    ] = None,
    as_json: AsJson = False,
    show_all: Annotated[bool, typer.Option("--all", help="Also show what is fine.")] = False,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke",
            help="Where all else is fine, run the command until its first metric row, or for a minute.",
        ),
    ] = False,
) -> None:
    """Predict whether a launch of this plan would fail here.

    Exit status: 0 no problem found, 2 the launch would fail.
    """
    from harness.doctor import examine, of_language_model, outcome

    if smoke and blueprint is None:
        fail("--smoke needs a blueprint: what would be run?")
    found = _of_blueprint(blueprint, smoke) if blueprint is not None else list(examine(None, Path.cwd()))
    found += [replace(each, check="language model") for each in of_language_model(Path.cwd())]
    can_run = outcome(found).can_run
    if as_json:
        print_json({"can_run": can_run, "findings": [asdict(finding) for finding in found]})
    else:
        _print_findings(found, show_all)
    raise typer.Exit(0 if can_run else 2)


def _of_blueprint(path: Path, smoke: bool) -> "list[Finding]":
    """The findings of a blueprint, as the harness understands it; with `smoke` also of a smoke run, where the
    others let it start."""
    from harness.blueprint import read
    from harness.doctor import examine, findings

    plan = read(path)
    makers = {"error": findings.problem, "warning": findings.warning}
    said = [
        replace(makers[item.severity](f"{path}:{item.line}: {item.message}", item.fix), check="blueprint")
        for item in plan.problems
    ]
    if not plan.lines and not said:
        fail(f"{path} has no sections of a blueprint")
    found = [*said, *examine(plan, plan.result_dir)] if plan.lines else said
    if smoke and not any(each.severity == "problem" for each in found):
        from harness.repair import first_smoke

        found.append(replace(first_smoke.finding(asyncio.run(first_smoke.of_plan(plan))), check="smoke run"))
    return found


def _print_findings(found: "list[Finding]", show_all: bool) -> None:
    """A table, worst first; one line when there is nothing to say."""
    from rich.text import Text

    rows = [
        (
            Text(severity, style=style),
            item.check,
            "\n→ ".join(filter(None, (item.text, item.fix))),
            item.predicts,
        )
        for severity, style in _STYLES.items()
        for item in found
        if item.severity == severity and (show_all or severity != "ok")
    ]
    if rows:
        print_table(rows, ("", "check", "found, and what to do", "else fails as"))
    count = Counter(item.severity for item in found)
    typer.echo(f"{count['problem']} problem(s), {count['warning']} warning(s), {count['ok']} fine")
