"""The optional sections: patterns for metrics, protected keys, the host."""

import re
import warnings

from harness.blueprint.document import Item, Section
from harness.blueprint.inline import is_nothing, spans
from harness.blueprint.labels import Role
from harness.blueprint.types import MetricSpec, Problem

_KEY = re.compile(r"[A-Za-z_*][\w.*-]*")
_HOST = re.compile(r"(?:[a-z]+://)?[\w.@:%\[\]-]+(?:/.*)?")
_FIRST = re.compile(r"first[ _-]?step", re.IGNORECASE)
_PATTERN_LABEL = re.compile(
    r"(?P<label>first[ _-]?step|patterns?|metrics?|regex(?:es)?|content|item|line)(?: ?\d+)?\s*[:：]"
    r"\s*(?P<value>.*)",
    re.IGNORECASE,
)


def read_metrics(section: Section | None) -> tuple[MetricSpec | None, list[Problem]]:
    """`[exp_metrics]`: one regular expression per line or entry; `first_step: …` for the proof of the
    first step."""
    if section is None:
        return None, []
    patterns: list[str] = []
    first_step: str | None = None
    problems: list[Problem] = []
    for line, label, value in _patterns(section):
        is_first = bool(_FIRST.match(label))
        problem = _check_pattern(value, line, named=not is_first)
        if problem:
            problems.append(problem)
        elif is_first and first_step not in (None, value):
            problems.append(
                Problem(line, "a second pattern for the first step", "keep one `- first_step: …`")
            )
        elif is_first:
            first_step = value
        elif value not in patterns:
            patterns.append(value)
    if not patterns and first_step is None:
        return None, problems
    return MetricSpec(tuple(patterns), first_step), problems


def read_keys(section: Section | None) -> tuple[tuple[str, ...], list[Problem]]:
    """`[exp_protected_keys]`: dotted config keys, one per entry or separated by commas."""
    keys: list[str] = []
    problems: list[Problem] = []
    for item, line, value in _lines(section):
        literals = [text.strip() for text in spans(value).literals]
        if is_nothing(value):
            continue
        for word in literals or re.split(r"[\s,，、;；]+", value):
            if not word:
                continue
            if _KEY.fullmatch(word):
                keys.append(word)
            elif item.role in (None, Role.STATED):
                problems.append(
                    Problem(
                        line,
                        f"{word!r} is no config key",
                        "write dotted keys, as `ajet.trainer_common.optim.lr`",
                    )
                )
    return tuple(dict.fromkeys(keys)), problems


def read_host(section: Section | None) -> tuple[str | None, list[Problem]]:
    """`[exp_host]`: one host; `local`, `localhost` and NA mean this machine (None)."""
    hosts: dict[str, int] = {}
    for _, line, value in _lines(section):
        literals = spans(value).literals
        host = literals[0].strip() if literals else value.rstrip(".。,; ")
        if not is_nothing(host) and host.lower() not in ("local", "localhost", "here", "本机", "127.0.0.1"):
            hosts.setdefault(host, line)
    if not hosts:
        return None, []
    (host, line), *others = hosts.items()
    if others:
        return None, [Problem(others[0][1], f"two hosts: `{host}` and `{others[0][0]}`", "keep one")]
    if not _HOST.fullmatch(host):
        return None, [Problem(line, f"{host!r} is no host", "write `user@machine`, or `local`")]
    return host, []


def _lines(section: Section | None) -> list[tuple[Item, int, str]]:
    """Every line of a section that is no remark, without the item's label."""
    found = []
    for item in section.items if section else ():
        if item.role in (Role.REMARK, Role.DESCRIPTION, Role.DEFAULT) or _is_remark_in_heading(item, section):
            continue
        first = item.line + item.text.count("\n") - item.value.count("\n")
        for number, line in enumerate(item.value.split("\n"), start=first):
            if line.strip():
                found.append((item, number, line.strip()))
    return found


def _is_remark_in_heading(item: Item, section: Section | None) -> bool:
    """Text behind the section's name counts only behind a colon, or when nothing else stands in the
    section."""
    return bool(item.title and item.role == Role.PROSE and section and len(section.items) > 1)


def _patterns(section: Section) -> list[tuple[int, str, str]]:
    """(line, label, expression). Only our own labels are taken off: `loss: (?P<loss>…)` is an expression."""
    found = []
    for item in section.items:
        if item.role in (Role.REMARK, Role.DESCRIPTION, Role.DEFAULT) or _is_remark_in_heading(item, section):
            continue
        text = item.value if item.title else item.text
        for number, line in enumerate(text.split("\n"), start=item.line):
            labelled = _PATTERN_LABEL.fullmatch(line.strip())
            value = labelled["value"] if labelled else line.strip()
            literals = spans(value).literals if not item.block else ()
            if literals and not spans(value).before:
                value = literals[0]
            if value and not is_nothing(value):
                found.append((number, labelled["label"] if labelled else "", value))
    return found


def _check_pattern(value: str, line: int, *, named: bool) -> Problem | None:
    """A regular expression must compile; one for metrics must name what it finds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            groups = re.compile(value).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        return Problem(
            line, f"`{value}` is no regular expression: {error}", "correct it; put it in backticks"
        )
    if named and not set(groups) - {"step", "name"}:
        message = f"`{value}` names no metric"
        return Problem(line, message, r"add named groups, as `step (?P<step>\d+) loss (?P<loss>\S+)`")
    return None
