"""From the YAML of a signature file to `Signature`s, with every mistake named by file and signature."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from harness.diagnosis.types import Role
from harness.errors import UserError
from harness.installation import own_text
from monitors.metrics.patterns import PATTERN_TOKEN, literal_of

Breadth = Literal["specific", "message", "general", "kind_of_message", "last_resort"]
SHORTEST_WORD = 4
SHORTEST_PLAIN = 3
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast as reading with ruamel.yaml
_IGNORES_CASE = re.compile(r"^\(\?[a-z]*i[a-z]*\)")


class SignatureError(UserError):
    """A signature file cannot be used; the message says where and how to fix it."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression that is compiled when it is first used; one log does not need all of them.
    `plain`: texts in lower case, one of which stands in whatever text it is found in, its case aside; ()
    where none are known."""

    text: str
    plain: tuple[str, ...] = ()

    def search(self, text: str) -> re.Match[str] | None:
        return self.compiled.search(text)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The same, ready for use. Raises re.error."""
        return re.compile(self.text)


def _pattern(written: Any) -> Any:
    return Pattern(written, _plain(written)) if isinstance(written, str) else written


def _plain(pattern: str) -> tuple[str, ...]:
    found = [literal_of(branch) or "" for branch in _branches(_IGNORES_CASE.sub("", pattern))]
    is_known = all(len(text) >= SHORTEST_PLAIN for text in found)
    return tuple(dict.fromkeys(text.lower() for text in found)) if is_known else ()


Regex = Annotated[Pattern, BeforeValidator(_pattern)]
_TO_THE_END = r'[^"\n]*", line \d+[^\n]*(?:\n(?!File ")[^\n]*)*\Z'
"""From inside the path of a frame to the end of a traceback, no other frame between."""
_STRICT = ConfigDict(extra="forbid", frozen=True)


class Clause(BaseModel):
    """Conditions that must all hold for one fault. `exception`: its type; `message`: what was said;
    `frames`: its traceback; `near`: the lines around it and its own; `elsewhere`: what another fault of the
    same log said. Searched for, not matched in full. In YAML, `raised_in` stands for `frames` that are about
    the path of the innermost frame."""

    model_config = _STRICT
    exception: Regex | None = None
    message: Regex | None = None
    frames: Regex | None = None
    near: Regex | None = None
    elsewhere: Regex | None = None

    @model_validator(mode="before")
    @classmethod
    def _innermost(cls, written: Any) -> Any:
        if not isinstance(written, dict) or "raised_in" not in written:
            return written
        if "frames" in written:
            raise ValueError("a clause has `frames` or `raised_in`, not both")
        others = {name: value for name, value in written.items() if name != "raised_in"}
        return others | {"frames": f"{written['raised_in']}{_TO_THE_END}"}

    @model_validator(mode="after")
    def _says_something(self) -> "Clause":
        if self.exception is None and self.message is None and self.frames is None:
            raise ValueError("a clause needs `exception`, `message` or `frames`")
        return self


def _known(family: str) -> str:
    if family not in families():
        raise ValueError(f"family {family!r} is none of those in families.yaml")
    return family


def _remedy(written: Any) -> Any:
    is_advice = isinstance(written, dict) and list(written) == ["advise"]
    return f"advise: {written['advise']}" if is_advice else written


class Signature(BaseModel):
    """A known failure; `README.md` documents its YAML.

    `cause` may hold the named captures of its patterns as `{name}`. `role`: whether it can be the cause
    itself, is what other processes say when one has died (cascade), or only shows that something is wrong
    (symptom). `breadth`: how much it takes in. `remedies`: in the order in which they are tried, each a name
    of `repair/remedies` or advice in words. `wait_s`: before a restart that needs no change. `words`: how a
    reader finds the lines that it is about. `example`: lines of a log in which it is the cause.
    """

    model_config = _STRICT
    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    family: Annotated[str, AfterValidator(_known)]
    name: str
    cause: str
    when: Annotated[tuple[Clause, ...], Field(min_length=1)]
    unless: tuple[Clause, ...] = ()
    role: Role = "root"
    breadth: Breadth = "specific"
    severity: Literal["fatal", "degraded"] = "fatal"
    transient: bool = False
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    remedies: tuple[Annotated[str, BeforeValidator(_remedy)], ...] = ()
    links: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    example: str = ""


@cache
def families() -> Mapping[str, str]:
    """The families of failures with what belongs to each."""
    text = own_text(Path(__file__).with_name("families.yaml"))
    return yaml.load(text, Loader=LOADER)


def parse(text: str, where: str | Path) -> list[Signature]:
    """The signatures in a YAML text, its patterns unproven (see `prove`). Raises SignatureError."""
    try:
        items = yaml.load(text, Loader=LOADER)
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
        read = Signature.model_validate(item)
        words = [word for clause in read.when for word in _words(clause)] if not read.words else read.words
        return read.model_copy(update={"words": tuple(dict.fromkeys(words))})
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SignatureError(f"{where}: signature {name}: {what}") from error
    except ValueError as error:
        raise SignatureError(f"{where}: signature {name}: {error}") from error


def _words(clause: Clause) -> list[str]:
    """Words of which every line that this clause is about holds one, in lower case: how a reader finds it.
    What concerns exceptions only needs none: all of them are read."""
    if clause.exception is not None or clause.frames is not None or clause.message is None:
        return []
    words = []
    for branch in _branches(_IGNORES_CASE.sub("", clause.message.text)):
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
