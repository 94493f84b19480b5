"""Signatures that are proposed to a person: an unknown failure that somebody solved, as YAML.

In: the diagnosis of the failure and what was done about it. Out: a file in the state folder, until a person
accepts it (then it is one of their own signatures) or rejects it. Nothing proposed is used for a diagnosis.
"""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.atomic_write import write_atomically
from harness.diagnosis.signatures import files_in, load_usable, read_file, user_folder
from harness.diagnosis.signatures.schema import SignatureError, parse, prove
from harness.redaction import redact
from harness.templating import render
from monitors.launch import state_home

LONGEST_PATTERN = 160
_PARTS = re.compile(
    r"(?P<masked>\[redacted\])|(?P<hex>0x[0-9a-fA-F]+)|(?P<quoted>'[^']*'|\"[^\"]*\")|(?P<path>(?:/[\w.@-]+)+)|(?P<number>\d+(?:\.\d+)?)"
)
_GENERAL = {
    "masked": r"\S+",
    "hex": r"0x[0-9a-f]+",
    "quoted": r"""['"][^'"]*['"]""",
    "path": r"\S+",
    "number": r"[\d.]+",
}


class ProposalError(Exception):
    """There is no such proposal, or it cannot be accepted as it is."""


def folder() -> Path:
    """Where proposals wait for a person."""
    return state_home() / "signatures" / "proposed"


def propose(diagnosis: Mapping[str, Any], changes: Sequence[str], source: str) -> Path | None:
    """Write a proposal for an unknown failure; None where the log holds too little to know it again by, and
    for one that was proposed already. `source`: which attempt of which experiment."""
    captures = diagnosis.get("captures") or {}
    said, raised = redact(str(captures.get("said", ""))), str(captures.get("type", ""))
    pattern = generalised(said.removeprefix(raised).removeprefix(": "))
    if len(re.sub(r"\W", "", pattern)) < 8:
        return None
    name = "learnt_" + hashlib.sha256(f"{raised} {pattern}".encode()).hexdigest()[:8]
    file = folder() / f"{name}.yaml"
    if file.exists() or any(signature.id == name for signature in load_usable()[0].signatures):
        return None
    clause = {"exception": re.escape(raised.rpartition(".")[2]) + "$"} if raised else {}
    item = {
        "id": name,
        "family": "unknown",
        "name": said[:80],
        "cause": said[:200].replace("{", "(").replace("}", ")"),
        "when": [{**clause, "message": pattern}],
        "remedies": [{"advise": redact(change)[:300]} for change in changes],
    }
    text = render(
        "lessons/proposed_signature.yaml.j2",
        source=" ".join(source.split()),
        day=time.strftime("%Y-%m-%d"),
        item=yaml.safe_dump([item], sort_keys=False, allow_unicode=True, width=110),
    )
    parse(text, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)
    return file


def generalised(said: str) -> str:
    """A pattern for what was said: its words, with what varies from run to run left open."""
    line = said.split("\n")[0][:LONGEST_PATTERN]
    parts, end = [], 0
    for match in _PARTS.finditer(line):
        parts += [re.escape(line[end : match.start()]), _GENERAL[str(match.lastgroup)]]
        end = match.end()
    return "".join((*parts, re.escape(line[end:])))


def proposed() -> list[Path]:
    """The proposals, oldest first."""
    return sorted(folder().glob("*.yaml"), key=lambda file: file.stat().st_mtime)


def find(name: str) -> Path:
    """The proposal of this name. Raises ProposalError."""
    file = folder() / f"{name}.yaml"
    if name != Path(name).name or not file.is_file():
        known = ", ".join(each.stem for each in proposed()) or "there are none"
        raise ProposalError(f"no proposal is called {name!r} (proposals: {known})")
    return file


def accept(name: str, family: str | None, cause: str | None) -> Path:
    """Make a proposal one of the user's own signatures. Raises ProposalError."""
    file = find(name)
    try:
        text = file.read_text(encoding="utf-8")
        (item,) = yaml.safe_load(text)
        item = {**item, **{key: value for key, value in (("family", family), ("cause", cause)) if value}}
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise ProposalError(f"{file} is no list of one signature any more: {error}") from error
    if item.get("family", "unknown") == "unknown":
        raise ProposalError(
            "a signature needs a family: give --family (`harness diagnose --families` lists them)"
        )
    comments = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
    accepted = comments + yaml.safe_dump([item], sort_keys=False, allow_unicode=True, width=110)
    target = user_folder() / file.name
    try:
        found = parse(accepted, target)
        prove(found, target)
    except (SignatureError, OverflowError, RecursionError) as error:
        raise ProposalError(f"it cannot be accepted as it is: {error}") from error
    _refuse_taken(found[0].id, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, accepted)
    file.unlink()
    return target


def _refuse_taken(name: str, target: Path) -> None:
    """Raises ProposalError where another file of the user's has a signature of this id."""
    for other in files_in(user_folder()):
        try:
            ids = [signature.id for signature in read_file(other)] if other != target else []
        except SignatureError:
            continue
        if name in ids:
            raise ProposalError(f"{other} has a signature {name} already: change one of the two ids")


def reject(name: str) -> None:
    """Remove a proposal. Raises ProposalError."""
    find(name).unlink()
