"""From a draft to the experiment's folder; paid work is not lost.

`check_place` tries out before the first call where the experiment is to go, `hand_over` writes it there and
says where its values came from, `keep_beside` saves what could not go there. A value counts as said by the
person only if the model says so and the words contain it, or if it was given with `--set`.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.agent.trainer_keys import NoKeysError
from harness.author.draft import Brief, Draft, Findings, RefusedError, composed
from harness.author.draft_session import DraftSession
from harness.author.request_text import states
from harness.blueprint.scaffold import (
    DEFAULTS,
    Composed,
    ScaffoldError,
    dotted,
    place_for,
    publish,
    sort_answers,
)
from harness.config.edit import get, load
from harness.config.keys import short_names
from harness.config.values import as_text

TRANSCRIPT = "transcript.jsonl"
Source = Literal["said by you", "assumed", "default"]

_READERS = "ajet.task_reader."
_MAIN = (
    *("ajet.backbone", "ajet.trainer_common.n_gpus_per_node", "ajet.model.path"),
    *(f"{_READERS}type", f"{_READERS}builtin.name", f"{_READERS}huggingface_dat_repo.dataset_path"),
    *(f"{_READERS}jsonl_dataset_file.{split}.file_path" for split in ("training", "validation")),
    *(short_names()[key] for key in ("total_training_steps", "train_batch_size", "num_repeat", "lr")),
    *(short_names()[key] for key in ("kl_loss_coef", "temperature", "max_prompt_length")),
    *(short_names()[key] for key in ("max_response_length", "val_pass_n", "test_freq", "seed")),
)
"""Shown whenever the config has them; what was set besides follows."""

_PLAN = {
    "launch_command": "command",
    "codebase_dir": "in",
    "max_time": "at most",
    "first_step": "first step within",
}


@dataclass(frozen=True)
class Row:
    """One value and where it came from."""

    name: str
    value: str
    source: Source


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
        plan=_plan_rows(draft, brief),
        config=_config_rows(texts, draft, brief),
        findings=findings,
        assumptions=end.assumptions if end else (),
        look_at=end.look_at if end else (),
    )


def check_place(brief: Brief) -> None:
    """Raises ScaffoldError when no folder can be made where the experiment is to go."""
    parent = place_for("draft", brief.folder, brief.cwd, may_be_taken=True).parent
    there = next(folder for folder in (parent, *parent.parents) if folder.exists() or folder.is_symlink())
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


# --- where values came from ---


def _plan_rows(draft: Draft, brief: Brief) -> list[Row]:
    """The values of the blueprint that decide what runs."""
    blueprint = draft.plan
    given = sort_answers(brief.given, blueprint.template)[0]
    defaults = {
        **DEFAULTS,
        "launch_command": "the bundled trainer with config.yaml",
        "codebase_dir": f"{brief.cwd} (the current directory)",
    }
    rows = []
    for name, label in _PLAN.items():
        value = given.get(name) or str(getattr(blueprint, name))
        source = _source(value, name in given, name in blueprint.said, brief) if value else "default"
        rows.append(Row(label, value or defaults[name], source))
    return rows


def _config_rows(texts: Composed, draft: Draft, brief: Brief) -> list[Row]:
    """The main values of the config, and all that were set in it."""
    if texts.config is None or draft.blueprint is None:
        return []
    data, missing = load(texts.config), object()
    given = dotted(sort_answers(brief.given, draft.blueprint.template)[1])
    made = dotted(draft.config.settings) if draft.config else {}
    said = {short_names().get(key, key) for key in draft.config.said} if draft.config else set()
    rows = []
    for key in dict.fromkeys((*_MAIN, *made, *given)):
        value = get(data, key, missing)
        if value is missing:
            continue
        is_set = key in given or key in made
        source = _source(made.get(key), key in given, key in said, brief) if is_set else "default"
        rows.append(Row(key, as_text(value), source))
    return rows


def _source(value: Any, is_given: bool, is_claimed: bool, brief: Brief) -> Source:
    return "said by you" if is_given or (is_claimed and states(brief.words, value)) else "assumed"
