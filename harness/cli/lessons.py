"""`harness lessons`: what earlier failures and repairs taught, and signatures proposed by them."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from harness import index
from harness.cli.console import AsJson, fail, print_json, print_table

if TYPE_CHECKING:
    from harness.lessons import Lesson

lessons = typer.Typer(
    name="lessons",
    help="Show what earlier failures and repairs taught.",
    invoke_without_command=True,
    no_args_is_help=False,
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a proposal, as `harness lessons` lists it.")
]


@lessons.callback()
def show_all(
    context: typer.Context,
    json_output: AsJson = False,
) -> None:
    """Without a command: one line per failure met so far, with what was tried and what came of it."""
    if context.invoked_subcommand is not None:
        return
    from harness.lessons import all_lessons, knowledge, proposals

    known = all_lessons()
    if json_output:
        proposed = [str(file) for file in proposals.proposed()]
        print_json({"lessons": [asdict(lesson) for lesson in known], "proposals": proposed})
        return
    if known:
        _print_table(known)
        typer.echo(f"\nkept in {knowledge.path()}")
    else:
        typer.echo("no lessons yet: they come from experiments that fail and are repaired")
    for file in proposals.proposed():
        typer.echo(f"proposed signature {file.stem}: see it with `harness lessons show {file.stem}`")


@lessons.command()
def show(name: Name) -> None:
    """Print a proposed signature of a failure."""
    from harness.lessons import proposals

    typer.echo(proposals.find(name).read_text(encoding="utf-8"), nl=False)


@lessons.command()
def accept(
    name: Name,
    family: Annotated[
        str | None,
        typer.Option(metavar="FAMILY", help="Its family; `harness diagnose --families` lists them."),
    ] = None,
    cause: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The cause, in one plain sentence.")
    ] = None,
) -> None:
    """Use a proposed signature from now on."""
    from harness.lessons import proposals

    typer.echo(f"accepted: {proposals.accept(name, family, cause)}")


@lessons.command()
def reject(name: Name) -> None:
    """Discard a proposed signature."""
    from harness.lessons import proposals

    proposals.reject(name)
    typer.echo(f"rejected: {name}")


@lessons.command()
def teach(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A result folder, or a run's name or id.")],
    remedy: Annotated[str, typer.Option("--remedy", metavar="TEXT", help="What solved it, in words.")],
) -> None:
    """Propose a signature for an unknown failure that you solved."""
    from harness.lessons import proposals

    state = index.load_state(index.find_run(run))
    known = [(each.number, each.diagnosis) for each in state.attempts if each.diagnosis is not None]
    unknown = [(number, diagnosis) for number, diagnosis in known if not diagnosis.signature]
    if not unknown:
        fail(f"{state.name} has no failure of unknown cause; `harness show {run}` lists its attempts")
    number, diagnosis = unknown[-1]
    source = f"attempt {number} of {state.name}, solved by a person"
    file = proposals.propose(diagnosis, [remedy], source)
    if file is None:
        fail("its log says too little to know the failure again by, or it has been proposed already")
    typer.echo(f"proposed: {file.stem}; accept it with `harness lessons accept {file.stem} --family …`")


def _print_table(known: "list[Lesson]") -> None:
    tried: dict[str, Counter[str]] = {}
    for lesson in known:
        what = ", ".join(lesson.remedies or lesson.changes) or "nothing"
        tried.setdefault(lesson.failure, Counter())[f"{what}: {lesson.result.replace('_', ' ')}"] += 1
    rows = [
        (failure, str(came.total()), "\n".join(f"{what} ({count} ×)" for what, count in came.most_common()))
        for failure, came in sorted(tried.items(), key=lambda item: -item[1].total())
    ]
    print_table(rows, ("failure", "seen", "what was tried, and what came of it"))
