"""From the YAML of a signature file to `Signature`s, with every mistake named by file and signature."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.diagnosis.types import Breadth, Clause, Pattern, Role, Severity, Signature
from monitors.metrics import PATTERN_TOKEN, literal_of

SHORTEST_WORD = 4
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast as reading with ruamel.yaml
_IGNORES_CASE = re.compile(r"^\(\?[a-z]*i[a-z]*\)")


class SignatureError(Exception):
    """A signature file cannot be used; the message says where and how to mend it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _ClauseYaml(_Strict):
    exception: str | None = None
    message: str | None = None
    frames: str | None = None
    near: str | None = None
    elsewhere: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "_ClauseYaml":
        if self.exception is None and self.message is None and self.frames is None:
            raise ValueError("a clause needs `exception`, `message` or `frames`")
        return self


class _SignatureYaml(_Strict):
    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    family: str
    name: str
    cause: str
    when: Annotated[list[_ClauseYaml], Field(min_length=1)]
    unless: list[_ClauseYaml] = []
    role: Role = "root"
    breadth: Breadth = "specific"
    severity: Severity = "fatal"
    transient: bool = False
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    remedies: list[str | dict[Literal["advise"], str]] = []
    links: list[str] = []
    words: list[str] = []


@cache
def families() -> Mapping[str, str]:
    """The families of failures with what belongs to each."""
    text = (resources.files(__package__) / "families.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=_LOADER)


def parse(text: str, where: str | Path) -> list[Signature]:
    """The signatures in a YAML text, its patterns unproven (see `prove`). Raises SignatureError."""
    try:
        items = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise SignatureError(f"{where}: not YAML that can be read: {error}") from error
    if not isinstance(items, list):
        raise SignatureError(f"{where}: a signature file is a list, each item begins with `- id:`")
    return [_signature(item, where) for item in items]


def prove(signatures: Iterable[Signature], where: str | Path) -> None:
    """Compile every pattern, which `parse` leaves for later. Raises SignatureError."""
    for signature in signatures:
        for clause in (*signature.when, *signature.unless):
            for pattern in vars(clause).values():
                try:
                    _ = pattern is None or pattern.compiled
                except re.error as error:
                    raise SignatureError(f"{where}: signature {signature.id}: {error}") from error


def _signature(item: Any, where: str | Path) -> Signature:
    name = item.get("id", "without an id") if isinstance(item, dict) else "that is no mapping"
    try:
        read = _SignatureYaml.model_validate(item)
        if read.family not in families():
            raise ValueError(f"family {read.family!r} is none of those in families.yaml")
        when = tuple(_clause(clause) for clause in read.when)
        unless = tuple(_clause(clause) for clause in read.unless)
        words = tuple(read.words) or tuple(
            dict.fromkeys(word for clause in read.when for word in _words(clause))
        )
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SignatureError(f"{where}: signature {name}: {told}") from error
    except ValueError as error:
        raise SignatureError(f"{where}: signature {name}: {error}") from error
    fields = read.model_dump(exclude={"when", "unless", "words", "remedies", "links"})
    remedies = tuple(each if isinstance(each, str) else f"advise: {each['advise']}" for each in read.remedies)
    return Signature(
        **fields, when=when, unless=unless, words=words, remedies=remedies, links=tuple(read.links)
    )


def _clause(clause: _ClauseYaml) -> Clause:
    return Clause(**{name: Pattern(text) for name, text in clause.model_dump().items() if text is not None})


def _words(clause: _ClauseYaml) -> list[str]:
    """Words of which every line that this clause is about holds one, in lower case: how a reader finds it.
    What concerns exceptions only needs none: all of them are read."""
    if clause.exception is not None or clause.frames is not None or clause.message is None:
        return []
    words = []
    for branch in _branches(_IGNORES_CASE.sub("", clause.message)):
        word = literal_of(branch)
        if word is None or len(word.strip()) < SHORTEST_WORD:
            raise ValueError(
                f"`{branch}` has no plain text of {SHORTEST_WORD} characters outside of groups to find its "
                "line by; write one, or give the signature a list `words`"
            )
        words.append(word.lower())
    return words


def _branches(pattern: str) -> list[str]:
    """The alternatives of a pattern, as far as they stand outside of groups."""
    branches, depth = [""], 0
    for token in PATTERN_TOKEN.findall(pattern):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += token
    return branches
