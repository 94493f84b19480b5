"""The optional sections: patterns for metrics, protected keys, which code may be changed, the host."""

import re
import warnings

from harness.blueprint.document import Item, Section
from harness.blueprint.inline import is_nothing, spans
from harness.blueprint.labels import Role
from harness.blueprint.types import MetricSpec, Problem

_KEY = re.compile(r"[A-Za-z_*][\w.*-]*")
_HOST = re.compile(r"(?:[a-z]+://)?[\w.@:%\[\]-]+(?:/.*)?")
_GLOB = re.compile(r"(?:\./)?[\w*?][\w*?.\[\]!@+=-]*(?:/[\w*?.\[\]!@+=-]+)*/?")
_ALLOWED = re.compile(
    r"(?:allow(?:ed)?|yes|true|all|any(?:thing| file)?|all files|允许|是)[.。!]?", re.IGNORECASE
)
_FORBIDDEN = re.compile(
    r"(?:no|not allowed|none|never|false|forbidden|nothing|no code changes|不允许|禁止|否|不)[.。!]?",
    re.IGNORECASE,
)
_CHANGE_LABEL = re.compile(
    r"(?:(?:allowed|code|source|changes?|files?|folders?|paths?|globs?|patterns?|values?|content|item"
    r"|exp_code_changes)(?: ?\d+)? ?)*|(?:允许|文件|路径|值|代码|内容)*",
    re.IGNORECASE,
)
_QUOTED_LINE = re.compile(r"(?m)^[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)*>(?P<said>.*)$")
_LONE_STAR = re.compile(r"(?m)^[ \t]*(?:[-+*][ \t]+)?\*[ \t]*$")
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


def read_code_changes(section: Section | None) -> tuple[tuple[str, ...], list[Problem]]:
    """`[exp_code_changes]`: `allowed` (any source file, as `**`), globs relative to the codebase, or no.

    Whatever could be misread as a permission is a problem: the words around a file decide nothing here, nor
    does a quotation, nor a `*` without backticks, which Markdown takes for an empty list entry.
    """
    globs: dict[str, int] = {}
    answers: dict[bool, int] = {}
    problems: list[Problem] = []
    text = section.text if section else ""
    quoted = {match["said"].strip("> \t") for match in _QUOTED_LINE.finditer(text)}
    if section is not None and _LONE_STAR.search(text):
        problems.append(_no_permission(section.line, "*"))
    for item, line, value in _lines(section):
        if not item.title and value.strip("> \t") in quoted:
            problems.append(_no_permission(line, f"> {value}"))
        elif not _CHANGE_LABEL.fullmatch(item.label):
            problems.append(_no_permission(line, item.text.split("\n")[0]))
        elif _FORBIDDEN.fullmatch(value.strip(" *_`")) or is_nothing(value):
            answers.setdefault(False, line)
        elif _ALLOWED.fullmatch(value.strip(" *_`")):
            answers.setdefault(True, line)
        elif (words := _globs(value, item.block)) is None:
            problems.append(_no_permission(line, value))
        else:
            problems += [problem for word in words if (problem := _check_glob(word, line)) is not None]
            globs.update((word.removeprefix("./"), line) for word in words)
    if len(answers) + bool(globs) > 1:
        first, second = sorted([*answers.values(), *list(globs.values())[:1]])[:2]
        problems.append(
            Problem(
                second, f"this says something else than line {first}", "keep one: `allowed`, `no` or globs"
            )
        )
    if problems:
        return (), problems
    return ("**",) if answers.get(True) else tuple(globs), []


def _globs(value: str, block: bool) -> list[str] | None:
    """The globs of a line that holds nothing else; None when it holds other words."""
    found = spans(value)
    if block or not found.literals:
        words = [word for word in re.split(r"[\s,，、;；]+", value) if word]
        return words if all(re.search(r"[/.*~]", word) for word in words) else None
    rest = re.sub(r"`+[^`]*`+", " ", value)
    joined = re.fullmatch(r"(?:[\s,，、;；.。]|\band\b|\bor\b|和|及)*", rest)
    return [text.strip() for text in found.literals] if joined else None


def _check_glob(word: str, line: int) -> Problem | None:
    if word.startswith(("/", "~")) or ".." in word.split("/"):
        return Problem(
            line, f"`{word}` leads out of the codebase", "write globs relative to it, as `src/train/*.py`"
        )
    if not _GLOB.fullmatch(word):
        return Problem(line, f"{word!r} is no glob of files", "write it as `src/train/*.py`")
    return None


def _no_permission(line: int, text: str) -> Problem:
    return Problem(
        line,
        f"{text[:80]!r} does not say clearly which code may be changed",
        "write `no`, `allowed`, or globs relative to the codebase such as `src/train/*.py`, one per line; "
        "put everything else behind `- hint:`",
    )


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
