"""Paid work is not lost: where the experiment will go is tried out before the first call, and what could not
go there is kept beside it.

In: a brief, later the desk and the transcript. Out: nothing or a ScaffoldError; the folder in which things
are kept.
"""

import tempfile
from pathlib import Path

from harness.author.desk import Desk
from harness.author.draft import Brief, RefusedError, composed
from harness.blueprint.scaffold import ScaffoldError, place_for


def check_place(brief: Brief) -> None:
    """Raises ScaffoldError when no folder can be made where the experiment is to go."""
    parent = place_for("draft", brief.folder, brief.cwd, may_be_taken=True).parent
    there = next(folder for folder in (parent, *parent.parents) if folder.exists() or folder.is_symlink())
    if not there.is_dir():
        raise ScaffoldError(
            f"the experiment cannot go to {parent}: {there} is no folder; choose another --dir"
        )
    try:
        with tempfile.TemporaryDirectory(prefix=".harness-new-", dir=there):
            pass
    except OSError as error:
        raise ScaffoldError(
            f"the experiment cannot go to {parent}: nothing can be made in {there} ({error.strerror}); "
            "choose another --dir"
        ) from error


def keep_beside(desk: Desk, transcript: Path) -> Path | None:
    """Write what there is to a folder of its own; None when there is nothing, or nowhere to write to.

    Tried beside the place that was meant, in the current directory, and where temporary files go.
    """
    files = {"transcript.jsonl": transcript.read_text(encoding="utf-8", errors="replace")}
    brief, draft = desk.brief, desk.draft
    if draft.blueprint is not None:
        try:
            files |= composed(draft, brief, brief.cwd / brief.folder / draft.name).files
        except (ScaffoldError, RefusedError):  # the transcript has the model's calls, whole
            files["blueprint.json"] = draft.blueprint.model_dump_json(indent=1)
    if not any(files.values()):
        return None
    for parent in (brief.cwd / brief.folder, brief.cwd, Path(tempfile.gettempdir())):
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{draft.name}.kept-", dir=parent))
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8", errors="replace")
        except OSError:
            continue  # the next place is tried, and None tells that there was none
        return folder
    return None
