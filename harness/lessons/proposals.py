"""Signatures that are proposed to a person: an unknown failure that was solved, as YAML.

In: the diagnosis of the failure and what was done about it. Out: a file in the state folder, until a person
accepts it (then it is one of their own signatures) or rejects it. Nothing proposed is used for a diagnosis.
"""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from harness.atomic_write import write_atomically
from harness.attempt import UNKNOWN, Diagnosis
from harness.diagnosis.signatures import files_in, load_usable, read_file, user_folder
from harness.diagnosis.signatures.schema import SignatureError, parse, prove
from harness.errors import UserError
from harness.redaction import NO_SECRETS, Secrets, redact
from harness.templating import render
from monitors.launch import state_home

_LONGEST_PATTERN = 160
_VARYING = {
    r"\[redacted\]": r"\S+",
    r"0x[0-9a-fA-F]+": "0x[0-9a-f]+",
    r"'[^']*'|\"[^\"]*\"": r"""['"][^'"]*['"]""",
    r"(?:/[\w.@-]+)+": r"\S+",
    r"\d+(?:\.\d+)?": r"[\d.]+",
}
"""What differs from run to run, and what a pattern says in its place."""


class ProposalError(UserError):
    """There is no such proposal, or it cannot be accepted as it is."""


def folder() -> Path:
    """Where proposals wait for a person."""
    return state_home() / "signatures" / "proposed"


def propose(
    diagnosis: Diagnosis, changes: Sequence[str], source: str, secrets: Secrets = NO_SECRETS
) -> Path | None:
    """Write a proposal for a failure; None where the log holds too little to know it again by, and for one
    that was proposed already. `source`: which attempt of which experiment, or which log. Family and cause are
    those that a model has named, if one has."""
    captures = diagnosis.captures
    said, raised = redact(str(captures.get("said", "")), secrets), str(captures.get("type", ""))
    pattern = generalised(said.removeprefix(raised).removeprefix(": "))
    name = "learnt_" + hashlib.sha256(f"{raised} {pattern}".encode()).hexdigest()[:8]
    file = folder() / f"{name}.yaml"
    is_known = file.exists() or any(known.id == name for known in load_usable()[0].signatures)
    if is_known or len(re.sub(r"\W", "", pattern)) < 8:
        return None
    clause = {"exception": re.escape(raised.rpartition(".")[2]) + "$"} if raised else {}
    item = {
        "id": name,
        "family": diagnosis.family or UNKNOWN,
        "name": said[:80],
        "cause": _plain(redact(diagnosis.cause, secrets) if diagnosis.by else said[:200]),
        "when": [{**clause, "message": pattern}],
        "remedies": [{"advise": redact(change, secrets)[:300]} for change in changes],
        "example": said if not raised or said.startswith(raised) else f"{raised}: {said}",
    }
    text = render(
        "lessons/proposed_signature.yaml.j2",
        source=" ".join(source.split()),
        day=time.strftime("%Y-%m-%d"),
        solved=bool(changes),
        item=_dump(item),
    )
    parse(text, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text)
    return file


def _plain(cause: str) -> str:
    """Without what would stand for a capture."""
    return cause.translate(str.maketrans("{}[]", "()()"))


def generalised(said: str) -> str:
    """A pattern for a message: its words, with what varies from run to run left open."""
    parts = re.split("(" + "|".join(_VARYING) + ")", said.split("\n")[0][:_LONGEST_PATTERN])
    return "".join(
        next(general for varying, general in _VARYING.items() if re.fullmatch(varying, part))
        if index % 2
        else re.escape(part)
        for index, part in enumerate(parts)
    )


def proposed() -> list[Path]:
    """The proposals, oldest first."""
    return sorted(folder().glob("*.yaml"), key=lambda file: file.stat().st_mtime)


def find(name: str) -> Path:
    """The proposal of this name. Raises ProposalError."""
    found = {file.stem: file for file in proposed()}
    if name not in found:
        known = ", ".join(found) or "there are none"
        raise ProposalError(f"no proposal is called {name!r} (proposals: {known})")
    return found[name]


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
    accepted = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#")) + _dump(item)
    target = user_folder() / file.name
    try:
        found = parse(accepted, target)
        prove(found, target)
    except (SignatureError, OverflowError, RecursionError) as error:
        raise ProposalError(f"it cannot be accepted as it is: {error}") from error
    for other in files_in(user_folder()):
        with suppress(SignatureError):  # it is reported wherever signatures are used
            if other != target and any(signature.id == found[0].id for signature in read_file(other)):
                raise ProposalError(
                    f"{other} has a signature {found[0].id} already: change one of the two ids"
                )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, accepted)
    file.unlink()
    return target


def reject(name: str) -> None:
    """Remove a proposal. Raises ProposalError."""
    find(name).unlink()


def _dump(item: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump([dict(item)], sort_keys=False, allow_unicode=True, width=110)
    return text
