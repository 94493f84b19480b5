"""What is changed on the way to the next launch: config, environment, code. Folded from the journal.

A draft holds changes only. The config it leads to is the previous attempt's (or the blueprint's) with the
changes made in it; nothing is written to disk before the launch, so a kill loses nothing.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.config import edit as config_edit
from harness.config.edit import Scalar
from harness.config.values import as_text

MEASURES = {"install_package": "package", "free_owned": "what", "raise_limit": "limit"}
"""Preparing actions that change neither config nor environment nor code, with the argument that says what."""
EDITS = ("edit_config", "edit_arguments")
PREPARING = ("render_config", *EDITS, "set_environment", "patch_code", *MEASURES)
"""All actions that change what the next launch uses."""


@dataclass(frozen=True)
class Change:
    """One thing that differs from the attempt before. `what`: a dotted key, a variable, a file, or what was
    done beside. `remedy`: the built-in repair that it belongs to, "" for any other. `allowed_by`: the person
    who decided it, "" for nobody."""

    kind: str  # "config", "removed", "argument", "environment", "secret", "code", "package", "freed", "limit"
    what: str
    old: Scalar
    new: Scalar
    why: str
    remedy: str = ""
    allowed_by: str = ""

    @property
    def text(self) -> str:
        """Such as `ajet.rollout.n_vllm_engine 2 → 1`."""
        old, new = as_text(self.old), as_text(self.new)
        if self.kind == "code":
            return f"{self.what} corrected"
        if self.kind == "removed":
            return f"{self.what} ({old}) taken out"
        if self.kind == "package":
            return f"{self.what} {new} installed"
        if self.kind == "freed":
            return f"{self.what}: {new}"
        return f"{self.what} set to {new}" if self.old is None else f"{self.what} {old} → {new}"

    @property
    def in_words(self) -> str:
        """The same with the reason."""
        allowed = f"; allowed by a person: {self.allowed_by}" if self.allowed_by else ""
        return f"{self.text} ({self.why}{allowed})"


@dataclass(frozen=True)
class PendingChanges:
    """Changes since the last launch.

    `settings`: what the config was rendered from, None when it was not rendered here. `config`: dotted key to
    new value. `removed`: dotted keys taken out before any are set. `environment`: variables set. `patches`:
    code corrections, each {path, old, new}. `measures`: what was done beside, such as `install_package tqdm`.
    `changes`: all of them in words, in order.
    """

    settings: dict[str, Scalar] | None = None
    config: dict[str, Scalar] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    patches: tuple[dict[str, str], ...] = ()
    measures: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def is_empty(self) -> bool:
        prepared = (self.config, self.arguments, self.removed, self.environment, self.patches, self.measures)
        return self.settings is None and not any(prepared)

    @property
    def decided_by_a_person(self) -> "PendingChanges":
        """What a person decided of config and command: it outlives the rest, and no rule judges it."""
        of_config = ("config", "argument")
        allowed = tuple(each for each in self.changes if each.allowed_by and each.kind in of_config)
        return with_outcome(PendingChanges(), "edit_config", edit_of(allowed), allowed)

    @property
    def remedies(self) -> tuple[str, ...]:
        """The built-in repairs in it, in order."""
        return tuple(dict.fromkeys(change.remedy for change in self.changes if change.remedy))

    def fingerprint(self) -> dict[str, Any]:
        """What tells two repairs apart: the values, without the words."""
        return {
            "config": dict(sorted({**self.config, **self.arguments}.items())),
            "removed": sorted(self.removed),
            "environment": dict(sorted(self.environment.items())),
            "patches": [dict(patch) for patch in self.patches],
            "measures": sorted(self.measures),
        }

    @property
    def arguments(self) -> dict[str, Scalar]:
        """Keys of the config that the launch command sets, with the values that they are given there."""
        return {change.what: change.new for change in self.changes if change.kind == "argument"}

    def apply(self, text: str) -> str:
        """The config `text` with the changes made in it, comments and order kept. Raises ConfigEditError."""
        return config_edit.edit(text, self.config, self.removed)


def with_outcome(
    draft: PendingChanges, action: str, args: Mapping[str, Any], changes: Iterable[Change] = ()
) -> PendingChanges:
    """The draft after one of the preparing actions was carried out and made these changes."""
    draft = replace(draft, changes=(*draft.changes, *changes))
    if action == "render_config":
        return replace(draft, settings=dict(args["settings"]), config={}, removed=())
    if action in EDITS:
        removed = tuple(dict.fromkeys((*draft.removed, *args["remove"])))
        kept = {key: value for key, value in draft.config.items() if not _is_below(key, args["remove"])}
        edited = {key: value for key, value in args["changes"].items() if key not in draft.arguments}
        return replace(draft, config={**kept, **edited}, removed=removed)
    if action == "set_environment":
        return replace(draft, environment={**draft.environment, args["name"]: args["value"]})
    if action == "patch_code":
        patch = {name: args[name] for name in ("path", "old", "new")}
        return draft if patch in draft.patches else replace(draft, patches=(*draft.patches, patch))
    if action in MEASURES:
        return replace(draft, measures=tuple(dict.fromkeys((*draft.measures, measure(action, args)))))
    return draft


def edit_of(changes: Iterable[Change]) -> dict[str, Any]:
    """Changes of config and command as `edit_config` takes them."""
    return {"changes": {change.what: change.new for change in changes}, "remove": ()}


def measure(action: str, args: Mapping[str, Any]) -> str:
    """How a draft names what is done beside config, environment and code."""
    return f"{action} {args[MEASURES[action]]}"


def _is_below(key: str, parents: Iterable[str]) -> bool:
    return any(key == parent or key.startswith(f"{parent}.") for parent in parents)


PUT_BACK, ADDED = "put back: ", "added by the training: "
"""Before the name of a file in a diff: what a training had made of it, in its private copy of the code."""


def diff(old: str, new: str, name: str) -> str:
    """A unified diff of two texts; empty when they are the same."""
    before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    lines = difflib.unified_diff(before, after, f"before/{name}", f"after/{name}")
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
