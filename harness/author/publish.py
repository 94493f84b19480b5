"""From a draft to the experiment's folder; paid work is not lost.

`check_place` tries out before the first call where the experiment is to go, `hand_over` writes it there and
says where its values came from, `keep_beside` saves what could not go there.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.author.draft import Brief, RefusedError, composed
from harness.author.draft_check import Findings
from harness.author.draft_session import DraftSession
from harness.author.sources import Row, config_rows, plan_rows
from harness.author.trainer_keys import NoKeysError
from harness.blueprint.scaffold import ScaffoldError, place_for, publish

TRANSCRIPT = "transcript.jsonl"


@dataclass(frozen=True)
class HandedOver:
    """What was written to `folder`, where its values came from, what was found, and what the model adds."""

    folder: Path
    files: tuple[str, ...]
    plan: list[Row]
    config: list[Row]
    findings: Findings
    assumptions: tuple[str, ...]
    look_at: tuple[str, ...]


def hand_over(session: DraftSession, transcript: Path) -> HandedOver | None:
    """Write the draft's folder, the transcript in it; None when there is no blueprint yet.

    A draft that was not checked since its last change is checked now. Raises ScaffoldError.
    """
    draft, brief = session.draft, session.brief
    if draft.blueprint is None:
        return None
    try:
        findings = session.check()
    except NoKeysError as error:
        findings = Findings(problems=(f"{error} — install this package again",))
    texts = session.texts()
    files = {**texts.files, TRANSCRIPT: _text(transcript)}
    publish(place_for(draft.name, brief.folder, brief.cwd), files, private=(TRANSCRIPT,))
    end = draft.handover
    return HandedOver(
        folder=brief.folder / draft.name,
        files=tuple(sorted(files)),
        plan=plan_rows(draft, brief),
        config=config_rows(texts, draft, brief),
        findings=findings,
        assumptions=end.assumptions if end else (),
        look_at=end.look_at if end else (),
    )


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


def keep_beside(session: DraftSession, transcript: Path) -> Path | None:
    """Write what there is to a folder of its own; None when there is nothing, or nowhere to write to.

    Tried beside the place that was meant, in the current directory, and where temporary files go.
    """
    files = {TRANSCRIPT: _text(transcript)}
    brief, draft = session.brief, session.draft
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
            continue  # the next place is tried; None says that there was none
        return folder
    return None


def _text(transcript: Path) -> str:
    return transcript.read_text(encoding="utf-8", errors="replace")
