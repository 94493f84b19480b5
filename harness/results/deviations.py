"""What was changed on purpose for a launch, and what else differs between the attempts' configs.

In: what the journal says was prepared for a launch (`PendingChanges`). Out: its net changes (several to one
thing are one, what was undone is none), divided into deviations from the blueprint and settings of a config
that the blueprint leaves open; as a sentence, and as rows that say whether the attempt's config holds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.config.edit import ConfigEditError, leaves
from harness.config.values import as_text, changed
from harness.pending_changes import ADDED, PUT_BACK, Change, PendingChanges, diff
from harness.results.raw import text_file
from harness.results.text import Diff
from harness.results.types import AttemptRecord, attempt_folder
from harness.state import AttemptState
from harness.wording import listed, shortened

NOT_SET = "(not set)"
NO_DIFF = Diff("")
_FILE_OF_DIFF = re.compile(r"^--- before/(.*)$", re.MULTILINE)
_ATTEMPT_PATH = re.compile(r"attempts/\d{2,}")  # differs by nature, and is not counted
_IN_CONFIG = ("config", "removed")
_KINDS = {
    "environment": "environment variable",
    "secret": "from the shell",
    "argument": "launch command",
    "code": "code",
}
_LONGEST = 160  # characters of a value in a table; the full ones stand in result.json
_MOST_IN_SENTENCE = 6


@dataclass(frozen=True)
class Deviation:
    """What an attempt runs with, and the one before did not. `confirmed`: whether its config.yaml holds it;
    None where that is no question or cannot be looked up; `diff`: a correction of code as a unified diff of
    what was replaced. Other texts are made of `change` when they are shown: cut ones cannot be redacted."""

    attempt: int
    change: Change
    confirmed: bool | None = None
    diff: Diff = NO_DIFF

    @property
    def before(self) -> str:
        return NOT_SET if self.change.old is None else shortened(as_text(self.change.old), _LONGEST)

    @property
    def after(self) -> str:
        if self.change.kind == "removed":
            return "(taken out)"
        return shortened(as_text(self.change.new), _LONGEST)

    @property
    def kind(self) -> str:
        """What kind of thing was changed, where it is not a key of the config."""
        return _KINDS.get(self.change.kind, "")

    @property
    def doubt(self) -> str:
        """What a reader should know about it, or ""."""
        return "" if self.confirmed is not False else f"not so in attempts/{self.attempt:02d}/config.yaml"

    @property
    def is_of_model(self) -> bool:
        """True if its reason is in a model's words, which nothing has checked."""
        return not self.change.remedy and self.change.kind != "secret"

    def explains(self, difference: Deviation) -> bool:
        """True if a difference between two attempts' configs is this deviation."""
        if difference.attempt != self.attempt or self.change.kind not in _IN_CONFIG:
            return False
        key, new = difference.change.what, difference.change.new
        if self.change.kind == "removed":
            return _is_below(key, self.change.what)
        return key == self.change.what and new == str(self.change.new)

    def as_json(self) -> dict[str, Any]:
        return {"attempt": self.attempt, **vars(self.change), "confirmed": self.confirmed}


def deviating(draft: PendingChanges) -> tuple[Change, ...]:
    """The net changes of a launch, without the settings of a config that was rendered for it."""
    if draft.settings is None:
        return net(draft.changes)
    return net(change for change in draft.changes if change.kind not in _IN_CONFIG)


def chosen(draft: PendingChanges) -> tuple[Change, ...]:
    """The settings of a config that was rendered for this launch, with the edits made in it afterwards."""
    if draft.settings is None:
        return ()
    kept = {*draft.settings, *draft.config, *draft.removed}
    return net(change for change in draft.changes if change.kind in _IN_CONFIG and change.what in kept)


def net(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Several changes of one key or variable as one, in the order of the first; none where all was undone.
    Corrections of code are kept one by one."""
    found: dict[tuple[Any, ...], Change] = {}
    for change in changes:
        place: tuple[Any, ...] = ("config" if change.kind in _IN_CONFIG else change.kind, change.what)
        if change.kind == "code":
            place = (*place, change.old, change.new)
        first = found.setdefault(place, change)
        if first is not change and change.kind != "code":
            found[place] = replace(change, old=first.old)
            if type(first.old) is type(change.new) and first.old == change.new:
                del found[place]
    return tuple(found.values())


def sentence(changes: Iterable[Change]) -> str:
    """`ajet.rollout.x 4 → 2, PYTORCH_CUDA_ALLOC_CONF set to expandable_segments:True`."""
    return listed([change.text for change in changes], _MOST_IN_SENTENCE)


def deviations(attempts: Iterable[AttemptState], records: Iterable[AttemptRecord]) -> tuple[Deviation, ...]:
    """All deviations of all attempts, in their order, looked up in the attempts' configs."""
    configs = {record.number: flat(record.config_text) for record in records}
    return tuple(
        Deviation(
            attempt.number,
            change,
            _confirmed(change, configs.get(attempt.number)),
            Diff(diff(str(change.old), str(change.new), change.what)) if change.kind == "code" else NO_DIFF,
        )
        for attempt in attempts
        for change in deviating(attempt.draft)
    )


def code_diffs(result_dir: Path, changes: Sequence[Deviation], launches: int) -> Iterator[Diff]:
    """What these corrections of code changed, launch by launch: as the attempts' change.diff has it, with the
    lines around; where that does not hold what the journal has, what was replaced. In the end what the
    trainings themselves had made of their copy of the code."""
    by_trainings: dict[Diff, None] = {}
    for number in range(1, launches + 1):
        made = [change for change in changes if change.attempt == number]
        files = {one.change.what for one in made}
        kept = result_dir / attempt_folder(max(1, number - 1)) / "change.diff"
        parts = _FILE_OF_DIFF.split(text_file(kept) or "")
        pairs = list(zip(parts[1::2], parts[2::2], strict=True))
        whole = "".join(f"--- before/{name}{text}" for name, text in pairs if name in files)
        told = (line for one in made for line in str(one.change.new).splitlines())
        is_whole = whole and all(line in whole for line in told)
        yield Diff(whole if is_whole else "".join(one.diff for one in made))
        own = ((name, text) for name, text in pairs if name.startswith((PUT_BACK, ADDED)))
        by_trainings |= dict.fromkeys(Diff(f"--- before/{name}{text}") for name, text in own)
    yield from by_trainings


def _confirmed(change: Change, config: Mapping[str, Any] | None) -> bool | None:
    if config is None or change.kind not in _IN_CONFIG:
        return None
    if change.kind == "removed":
        return not any(_is_below(key, change.what) for key in config)
    return change.what in config and config[change.what] == change.new


def _is_below(key: str, parent: str) -> bool:
    return key == parent or key.startswith(f"{parent}.")


def config_changes(attempts: Iterable[AttemptRecord]) -> tuple[Deviation, ...]:
    """All differences between the attempts' own configs, attempt by attempt; one without a readable config is
    passed over."""
    changes: list[Deviation] = []
    before: Mapping[str, Any] | None = None
    for attempt in attempts:
        after = flat(attempt.config_text)
        if after is None:
            continue
        for key, values in changed(after if before is None else before, after, NOT_SET).items():
            old, new = map(str, values)
            if _ATTEMPT_PATH.sub("", old) != _ATTEMPT_PATH.sub("", new):
                changes.append(Deviation(attempt.number, Change("config", key, old, new, "")))
        before = after
    return tuple(changes)


def flat(text: str | None) -> Mapping[str, Any] | None:
    """The leaves of a config by dotted key; None when there is none or it cannot be read."""
    try:
        return None if text is None else leaves(text)
    except ConfigEditError:
        return None
