"""The optional sections: patterns for metrics, protected keys, which code may be changed, the host."""

import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from harness.blueprint.document import Item, Section
from harness.blueprint.labels import Role, is_nothing, spans
from harness.blueprint.names import NO_NETWORK, READABLE, UNATTENDED, WRITABLE
from harness.blueprint.types import MetricSpec, Problem

_SEPARATORS = re.compile(r"[\s,，、;；]+")
_KEY = re.compile(r"[A-Za-z_*][\w.*-]*")
_HERE = ("local", "localhost", "here", "本机", "127.0.0.1")
_GLOB = re.compile(r"(?:\./)?[\w*?][\w*?.\[\]!@+=-]*(?:/[\w*?.\[\]!@+=-]+)*/?")
_ALLOWED = ("allowed", "allow", "yes", "true", "all", "允许", "是")
_FORBIDDEN = ("no", "not allowed", "never", "false", "forbidden", "不允许", "禁止", "否", "不")
_CHANGE_LABELS = ("", "allowed", "changes", "files", "paths", "globs", "content", "允许", "文件")
_QUOTED_LINE = re.compile(r"(?m)^[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)*>(?P<text>.*)$")
_LONE_STAR = re.compile(r"(?m)^[ \t]*(?:[-+*][ \t]+)?\*[ \t]*$")
_PATTERN_LABEL = re.compile(
    r"(?P<label>first[ _-]?step|patterns?|metrics?|goal|file|regex(?:es)?|content|item|line)(?: ?\d+)?"
    r"\s*[:：]\s*(?P<value>.*)",
    re.IGNORECASE,
)
_METRIC_NAME = re.compile(r"[\w./@%#-]+(?: [\w./@%#-]+){0,3}")
_GOALS: Mapping[str, Literal["max", "min"]] = {
    **dict.fromkeys(("max", "maximize", "maximise", "maximum", "higher", "up"), "max"),
    **dict.fromkeys(("min", "minimize", "minimise", "minimum", "lower", "down"), "min"),
}


def read_metrics(section: Section, problems: list[Problem]) -> MetricSpec | None:
    """`[exp_metrics]`: one regular expression per line or entry; `first_step: …` for the proof of the first
    step, `metric: NAME` for the metric that is the result, `goal: max` or `goal: min` for its direction,
    `file: PATH` for the file that the training writes them into."""
    patterns: dict[str, None] = {}
    settings: dict[str, str] = {}
    for name, value, line in _metric_lines(section):
        if problem := _check_metric_line(name, value, line):
            problems.append(problem)
        elif not name:
            patterns[value] = None
        elif settings.setdefault(name, value) != value:
            problems.append(Problem(line, f"a second `{name}`", f"keep one `- {name}: …`"))
    goal = _GOALS.get(settings.pop("goal", ""))
    return MetricSpec(tuple(patterns), **settings, goal=goal) if patterns or settings or goal else None


def _metric_lines(section: Section) -> Iterator[tuple[str, str, int]]:
    """Every line that says something: the setting it names ("" for an expression), value, line number. Of
    labels only our own are taken off: `loss: (?P<loss>…)` is an expression."""
    for item in _items(section):
        text = item.value if item.title else item.text
        for line, value in enumerate(text.split("\n"), start=item.line):
            labelled = _PATTERN_LABEL.fullmatch(value.strip())
            label = labelled["label"].lower() if labelled else ""
            value = labelled["value"] if labelled else value.strip()
            marked = spans(value)
            if marked.literals and not marked.before and not item.block:
                value = marked.literals[0]
            if not value or is_nothing(value):
                continue
            if label == "goal" and value.strip().isalpha():
                yield "goal", value.strip().lower(), line
            elif label == "file" and "(?P<" not in value:
                yield "file", value.strip(), line
            elif label == "metric" and _METRIC_NAME.fullmatch(value.strip()):
                yield "metric", value.strip(), line
            else:
                yield "first_step" if label.startswith("first") else "", value, line


def _check_metric_line(name: str, value: str, line: int) -> Problem | None:
    """A regular expression must compile, one for metrics must name what it finds; a goal has two values."""
    if name in ("metric", "goal", "file"):
        known = name != "goal" or value in _GOALS
        return None if known else Problem(line, f"{value!r} is no goal", "write `goal: max` or `goal: min`")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            groups = re.compile(value).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        message = f"`{value}` is no regular expression: {error}"
        return Problem(line, message, "correct it; put it in backticks")
    if not name and not set(groups) - {"step", "name"}:
        message = f"`{value}` names no metric"
        return Problem(line, message, r"add named groups, as `step (?P<step>\d+) loss (?P<loss>\S+)`")
    return None


def read_keys(section: Section, problems: list[Problem]) -> tuple[str, ...]:
    """`[exp_protected_keys]`: dotted config keys, one per entry or separated by commas."""
    keys: list[str] = []
    for item, line, value in _lines(section):
        literals = [text.strip() for text in spans(value).literals]
        if is_nothing(value):
            continue
        for word in filter(None, literals or _SEPARATORS.split(value)):
            if _KEY.fullmatch(word):
                keys.append(word)
            elif item.role in (None, Role.STATED):
                fix = "write dotted keys, as `ajet.trainer_common.optim.lr`"
                problems.append(Problem(line, f"{word!r} is no config key", fix))
    return tuple(dict.fromkeys(keys))


def read_host(section: Section, problems: list[Problem]) -> str | None:
    """`[exp_host]`: one host; `local`, `localhost` and NA mean this machine (None)."""
    hosts: dict[str, int] = {}
    for _, line, value in _lines(section):
        literals = spans(value).literals
        host = literals[0].strip() if literals else value.rstrip(".。,; ")
        if not is_nothing(host) and host.lower() not in _HERE:
            hosts.setdefault(host, line)
    if len(hosts) > 1 or any(" " in host for host in hosts):
        problems.append(Problem(max(hosts.values()), f"no single host: {', '.join(hosts)}", "keep one"))
    return next(iter(hosts), None)


def read_code_changes(section: Section, problems: list[Problem]) -> tuple[str, ...]:
    """`[exp_code_changes]`: `allowed` (any source file, as `**`), globs relative to the codebase, or no; a
    line `without asking` beside them: no person has to approve each change; `no network`, `writable:
    FOLDER` and `readable: PATH` say what changed code may use.

    Whatever could be misread as a permission is a problem: the words around a file decide nothing here,
    nor does a quotation, nor a `*` without backticks, which Markdown takes for an empty list entry.
    """
    globs: dict[str, int] = {}
    answers: dict[bool, int] = {}
    conditions: dict[str, None] = {}
    found = [_no_permission(section.line, "*")] if _LONE_STAR.search(section.text) else []
    quoted = {match["text"].strip("> \t") for match in _QUOTED_LINE.finditer(section.text)}
    for item, line, value in _lines(section):
        answer = value.strip(" *_`.。!").lower()
        if f"{item.label}: " in (WRITABLE, READABLE):
            place = _place(value)
            conditions |= {f"{item.label}: {place}": None} if place else {}
            found += [] if place else [_no_permission(line, item.text)]
        elif item.label.rstrip("0123456789 ") not in _CHANGE_LABELS:
            found.append(_no_permission(line, item.text.split("\n")[0]))
        elif not item.title and value.strip("> \t") in quoted:
            found.append(_no_permission(line, f"> {value}"))
        elif answer in (UNATTENDED, NO_NETWORK):
            conditions[answer] = None
        elif answer in (*_ALLOWED, *_FORBIDDEN) or is_nothing(value):
            answers.setdefault(answer in _ALLOWED, line)
        elif (words := _globs(value, item.block)) is None:
            found.append(_no_permission(line, value))
        else:
            globs.update((word.removeprefix("./"), line) for word in words)
    if len(answers) + bool(globs) > 1:
        first, second = sorted([*answers.values(), *list(globs.values())[:1]])[:2]
        message = f"this says something else than line {first}"
        found.append(Problem(second, message, "keep one: `allowed`, `no` or globs"))
    problems += found
    allowed = () if found else ("**",) if True in answers else tuple(globs)
    return (*allowed, *conditions) if allowed else ()


def _place(value: str) -> str | None:
    """The place that changed code may use; None for one that is not absolute, or holds the whole home."""
    literals = spans(value).literals
    path = Path(literals[0] if literals else value).expanduser()
    is_fine = path.is_absolute() and ".." not in path.parts and not Path.home().is_relative_to(path)
    return str(path) if is_fine else None


def _globs(value: str, block: bool) -> list[str] | None:
    """The globs of a line that holds nothing else and stays in the codebase; None for any other."""
    literals = () if block else spans(value).literals
    words = [text.strip() for text in literals] or [word for word in _SEPARATORS.split(value) if word]
    rest = re.sub(r"`+[^`]*`+", " ", value) if literals else ""
    if not re.fullmatch(r"(?:[\s,，、;；.。]|\band\b|\bor\b|和|及)*", rest):
        return None
    is_file = all(literals or re.search(r"[/.*]", word) for word in words)
    is_inside = all(_GLOB.fullmatch(word) and ".." not in word.split("/") for word in words)
    return words if is_file and is_inside else None


def _no_permission(line: int, text: str) -> Problem:
    return Problem(
        line,
        f"{text[:80]!r} does not say clearly which code may be changed",
        "write `no`, `allowed`, or globs relative to the codebase such as `src/train/*.py`, one per line, "
        "beside them `without asking`, `no network`, `readable: /a/path` or `writable: /a/folder` (not the "
        "whole home); put everything else behind `- hint:`",
    )


def _items(section: Section) -> Iterator[Item]:
    """What is no remark. Text behind the section's name counts only behind a colon, or when nothing else
    stands in the section."""
    for item in section.items:
        beside_others = item.title and item.role == Role.PROSE and len(section.items) > 1
        if not beside_others and item.role not in (Role.REMARK, Role.DESCRIPTION, Role.DEFAULT):
            yield item


def _lines(section: Section) -> Iterator[tuple[Item, int, str]]:
    """Every line of a section that is no remark, without the item's label."""
    for item in _items(section):
        for number, line in enumerate(item.value.split("\n"), start=item.value_line):
            if line.strip():
                yield item, number, line.strip()
