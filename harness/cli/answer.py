"""`harness approve`, `harness deny` and `harness tell`: what a person says to a run that is under way.

Runs of a sweep that ask the same are answered together.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import index
from harness.cli.console import OnlyOne, fail

if TYPE_CHECKING:
    from harness.agent.approval import OpenQuestion

Asking = list[tuple[Path, "OpenQuestion"]]
"""A run and what it asks; several are of one sweep and ask the same."""


def approve(
    run: OnlyOne = None,
    choose: Annotated[
        str | None, typer.Option("--choose", metavar="OPTION", help="Choose this of the options.")
    ] = None,
    modify: Annotated[
        Path | None,
        typer.Option(
            "--modify",
            metavar="FILE",
            help="Allow this instead: a YAML file with other values, or the file of code as it should be.",
        ),
    ] = None,
) -> None:
    """Say yes to what a run or a sweep asks, as it is or changed.

    Without a name, the only one that waits is answered. One answer holds for all runs of a sweep that ask the
    same, now or later.
    """
    asking = _asking(run)
    folder, question = asking[0]
    if question.options and choose not in question.options:
        fail(f"choose one of the options with --choose: {', '.join(question.options)}")
    if choose is not None and not question.options:
        fail("this is a question with yes or no: `harness approve` or `harness deny`")
    modified = None if modify is None else _modified(folder, question, modify)
    for_whom = _answer(asking, choose or "yes", modified=modified)
    if modified is None:
        typer.echo(f"approved{for_whom}: {question.text}")
    else:
        typer.echo(f"approved with this instead{for_whom}:\n{_instead(folder, question, modified)}")


def deny(
    run: OnlyOne = None,
    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why, for the agent and the report.")
    ] = "",
) -> None:
    """Say no to what a run, or several of a sweep, asks, and why.

    Without a name, the only one that waits is answered. One answer holds for all runs of a sweep that ask the
    same, now or later.
    """
    asking = _asking(run)
    folder, question = asking[0]
    if question.options:
        fail(f"choose one of the options: harness approve {folder} --choose OPTION")
    for_whom = _answer(asking, "no", because)
    typer.echo(f"denied{for_whom}: {question.text}")


def tell(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A result folder, or a name or id.")],
    words: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent should know.")],
) -> None:
    """Say something to the agent of a run, for its next decision.

    It is a hint, no order: the rules stay, and a healthy training is not stopped for it.
    """
    from harness.agent import approval

    folder = index.find_run(run)
    if index.load_state(folder).collected is not None:
        fail(f"{folder} has no decision before it any more")
    if not words.strip():
        fail("say something: harness tell RUN TEXT")
    approval.tell(folder, words.strip()[:4000], "`harness tell`")
    typer.echo(f"told: {folder}")


def _asking(word: str | None) -> Asking:
    """Whom the answer is for: the run that is meant, or those of a sweep that ask the same; without a word,
    the only ones that wait."""

    named = None if word is None else index.find(word)
    if named is None:
        folders = [entry.dir for entry in index.runs()]
    else:
        is_sweep = index.is_sweep(named)
        folders = [path.parent for path in sorted(named.glob("*/journal.jsonl"))] if is_sweep else [named]
    groups = _groups(folder for folder in folders if not (folder / "finish.flag").exists())
    if named is not None and not groups:
        fail(f"{named} asks for nothing now (of several answers the first one counts)")
    chosen = index.only([group[0][0] for group in groups], "question that waits for an answer")
    return next(group for group in groups if group[0][0] == chosen)


def _groups(folders: Iterable[Path]) -> list[Asking]:
    """What these runs ask that is not answered, runs of one sweep that ask the same together."""
    from harness import journal
    from harness.agent import approval

    groups: dict[tuple[Path, str], Asking] = {}
    for folder in folders:
        question = approval.open_question(journal.read(folder / "journal.jsonl"))
        if question is not None and not approval.is_answered(folder, question):
            what = index.sweep_of(folder) or folder, question.alike(folder)
            groups.setdefault(what, []).append((folder, question))
    return list(groups.values())


def _answer(asking: Asking, word: str, because: str = "", modified: Mapping[str, Any] | None = None) -> str:
    """Give the answer to all of them; for whom, in words."""
    from harness.agent import approval

    sweep = index.sweep_of(asking[0][0])
    by = f"on the command line{approval.FOR_ALL if asking[1:] else ''}"
    for folder, question in asking:
        approval.answer(folder, question.number, approval.Answer(word, by, because, modified))
    return approval.FOR_ALL if sweep is not None else ""


def _modified(folder: Path, question: "OpenQuestion", file: Path) -> dict[str, Any]:
    """What the file allows instead of what was asked about; a clear end where it does not fit."""
    from harness.actions import AskPerson
    from harness.config.edit import ConfigEditError, leaves
    from harness.pending_changes import EDITS

    try:
        text = file.read_text(encoding="utf-8")
        if question.action == "patch_code":
            return _patch_to(folder, question, text)
        if question.action not in (*EDITS, AskPerson.kind) or question.options:
            fail(f"{question.action} is allowed as it is, or not")
        values = leaves(text)
    except (OSError, UnicodeDecodeError, ConfigEditError) as error:
        fail(f"--modify {file}: {error}")
    if not values:
        fail(f"--modify {file}: write each key with its value, such as `optim.lr: 1e-4`")
    return values if question.action == AskPerson.kind else {"changes": values, "remove": []}


def _patch_to(folder: Path, question: "OpenQuestion", wanted: str) -> dict[str, Any]:
    """The change of code that makes the file what the person wants it to be."""
    from harness.actions import PatchCode
    from harness.environment import secret_in
    from harness.repair import patched_code

    path = str(question.args["path"])
    root = patched_code.codebase(index.load_state(folder))
    old, new = patched_code.smallest_change((root / path).read_text(encoding="utf-8"), wanted)
    if what := secret_in(new, folder):
        fail(f"what you changed holds {what}, which code must not: read it from its variable instead")
    longest = PatchCode.LONGEST
    if not new and not old:
        fail(f"this is {path} as it is already: `harness deny` leaves it so")
    if max(len(old), len(new)) > longest:
        fail(f"more than {longest} characters of {path} would change: change the code in its folder instead")
    return {"old": old, "new": new}


def _instead(folder: Path, question: "OpenQuestion", modified: Mapping[str, Any]) -> str:
    """What is done in the place of what was asked about, as a diff or as keys with their values."""
    from harness.agent import approval
    from harness.config.values import as_text
    from harness.repair import patched_code

    if question.action != "patch_code":
        values = modified.get("changes", modified)
        return "\n".join(f"  {key}: {as_text(value)}" for key, value in values.items())
    correction = (str(question.args["path"]), modified["old"], modified["new"])
    diff = patched_code.preview(index.load_state(folder), *correction)
    return approval.judged(diff, folder)
