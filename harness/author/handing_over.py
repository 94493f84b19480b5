"""From a draft to the experiment's folder, and what the person is told about it."""

from dataclasses import dataclass
from pathlib import Path

from harness.author.checking import Findings
from harness.author.desk import Desk
from harness.author.draft import composed
from harness.author.sources import Row, config_rows, plan_rows
from harness.author.trainer_keys import NoKeysError
from harness.blueprint.scaffold import place_for, publish


@dataclass(frozen=True)
class HandedOver:
    """What was written to `folder`, where its values came from, what was found, and what the model left to
    say."""

    folder: Path
    files: tuple[str, ...]
    plan: list[Row]
    config: list[Row]
    findings: Findings
    assumptions: tuple[str, ...]
    look_at: tuple[str, ...]


def hand_over(desk: Desk, transcript: Path) -> HandedOver | None:
    """Write the draft's folder, the transcript in it; None when there is no blueprint yet.

    A draft that was not checked since its last change is checked now. Raises ScaffoldError.
    """
    draft, brief = desk.draft, desk.brief
    if draft.blueprint is None:
        return None
    try:
        findings = desk.check()
    except NoKeysError as error:
        findings = Findings(problems=(f"{error} — install this package again",))
    target = place_for(draft.name, brief.folder, brief.cwd)
    texts = composed(draft, brief, target)
    files = {**texts.files, "transcript.jsonl": transcript.read_text(encoding="utf-8", errors="replace")}
    publish(target, files, private=("transcript.jsonl",))
    handover = draft.handover
    return HandedOver(
        folder=brief.folder / draft.name,
        files=tuple(sorted(files)),
        plan=plan_rows(draft, brief),
        config=config_rows(texts, draft, brief),
        findings=findings,
        assumptions=handover.assumptions if handover else (),
        look_at=handover.look_at if handover else (),
    )
