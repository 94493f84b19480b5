"""Read a blueprint: file → sections → values, defaults and problems. Nothing in a file makes this raise."""

import json
import os
import re
import sys
from collections.abc import Callable, Container, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from harness.blueprint import names
from harness.blueprint.choice import Candidate, choose
from harness.blueprint.commands import find_commands, logical_lines
from harness.blueprint.document import Section, read_document
from harness.blueprint.extras import read_code_changes, read_host, read_keys, read_metrics
from harness.blueprint.labels import Role, bare, is_nothing, is_placeholder, role_of
from harness.blueprint.limits import read_limits
from harness.blueprint.paths import PathValueError, exists, find_paths, resolve
from harness.blueprint.types import DEFAULT_FIRST_STEP_S, DEFAULT_MAX_TIME_S, Blueprint, Problem, Severity
from harness.codec import decode
from harness.installation import own_text, templates_dir
from harness.wording import exact_duration

T = TypeVar("T")
LARGEST_BYTES = 256 * 1024
ABOUT_WHAT_RUNS = (names.PURPOSE, names.YAML, names.COMMAND)
"""Sections of which one has to say something."""
_EXPORT = re.compile(r"export [A-Za-z_]\w*=\S*")
_ORIGINAL_DEFAULTS = {".", "venv/bin/python", ".venv/bin/python", "auto_agent/exp_results"}
_PURPOSE_LABEL = re.compile(
    r"(?:desc|purpose|goal|content|experiment purpose)|目的|描述|说明|目标|内容|实验目的"
)
_PATH_FORM = "`- path: /the/path`"
_CONFIG_FORM = "`- path: config.yaml`"
_NO_LIMITS: tuple[float | None, float | None, bool] = (None, None, False)


def read(path: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Blueprint:
    """The blueprint in a file. A file that cannot be read gives a blueprint with that as its problem.

    `cwd` is the directory where the command runs (default results go below it), `env` where `$VAR` in
    paths is looked up; both default to this process's own. A `.json` file is a blueprint as a program wrote
    it (`Blueprint.as_json`): nothing in it is interpreted.
    """
    reader = _Reader(path, cwd or Path.cwd(), os.environ if env is None else env)
    text = load_text(path)
    if isinstance(text, Problem):
        return reader.read("", text)
    if path.suffix != ".json":
        return reader.read(text)
    try:
        return decode(Blueprint, json.loads(text))
    except (ValueError, RecursionError) as error:
        message = f"no blueprint as data: {error}"
        return reader.read("", Problem(1, message, "name the blueprint.md beside it"))


def parse(text: str, path: Path, cwd: Path, env: Mapping[str, str] | None = None) -> Blueprint:
    """The blueprint in `text`, as if it stood in the file `path`."""
    return _Reader(path, cwd, os.environ if env is None else env).read(text)


class _Reader:
    """Collects problems and used defaults while the sections are read one after the other."""

    def __init__(self, path: Path, cwd: Path, env: Mapping[str, str]) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow symbolic links
        self.cwd = Path(os.path.abspath(cwd))  # noqa: PTH100
        self.folder = self.path.parent
        self.env = env
        self.problems: list[Problem] = []
        self.defaults: list[str] = []
        self.sections: dict[str, Section] = {}
        self.lines: dict[str, int] = {}

    def read(self, text: str, problem: Problem | None = None) -> Blueprint:
        notes = self._notes(text, problem)
        name = (self.folder.name if self.path.name == "blueprint.md" else self.path.stem) or "experiment"
        codebase = self._path(names.CODEBASE, "codebase directory") or self._default(
            names.CODEBASE, self.folder, "the blueprint's folder"
        )
        venv = self._venv(codebase)
        yaml = self._yaml(codebase)
        command = self._command(names.COMMAND)
        if command is None:
            self._default(names.COMMAND, "NA", "the command is derived from the Python and the config")
        result_dir = self._path(names.RESULT, "result directory") or self._default(
            names.RESULT, self.cwd / "exp_results" / name, "below the current directory"
        )
        max_time, first_step = self._limits()
        self._unfilled(says_what_runs=yaml is not None or command is not None)
        return Blueprint(
            path=self.path,
            name=name,
            purpose=self._purpose() if not problem else "",
            codebase_dir=codebase,
            venv_exe=venv,
            yaml_path=yaml,
            launch_command=command,
            result_dir=result_dir,
            max_time_s=max_time,
            first_step_s=first_step,
            notes=notes,
            metrics=self._extra(names.METRICS, read_metrics, None),
            protected_keys=self._extra(names.PROTECTED, read_keys, ()),
            code_changes=self._extra(names.CODE_CHANGES, read_code_changes, ()),
            prepare_command=self._command(names.PREPARE),
            evaluate_command=self._command(names.EVALUATE),
            cleanup_command=self._command(names.CLEANUP),
            host=self._extra(names.HOST, read_host, None),
            defaults=tuple(self.defaults) if self.sections else (),
            problems=tuple(sorted(self.problems, key=lambda problem: problem.line)),
            lines=self.lines,
        )

    def _notes(self, text: str, problem: Problem | None) -> str:
        """Sort the sections by name, with problems for repeated and unknown ones; returns the other text."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
        sections, outside = read_document(text)
        notes = []
        for section in sections:
            self._swallowed(section)
            first = self.sections.get(section.name)
            if not section.title.known:
                self._unknown(section)
                notes.append(f"[{section.name}]\n{section.text}")
            elif section.name == names.NOTES:
                behind = section.title.remark.lstrip(":： ")
                notes.append(f"{'' if behind.startswith('(') else behind}\n{section.text}".strip())
            elif first:
                message = f"[{section.name}] stands here again (first on line {first.line})"
                self._problem(section.line, message, "merge the two")
            else:
                self.sections[section.name] = section
                self.lines[section.name] = section.line
        if problem:
            self.problems.append(problem)
        elif not self.sections:
            shown = " ".join(f"[{name}]" for name in names.REQUIRED)
            fix = f"write headings such as `## [exp_purpose]`: {shown}"
            self._problem(1, "no blueprint section in this file", fix)
        kept = [part for part in (*notes, outside) if part and not (len(part) < 12 and is_nothing(part))]
        return "\n\n".join(kept)

    def _swallowed(self, section: Section) -> None:
        """A code block that was never closed takes the sections below it."""
        for item in section.items:
            for number, line in enumerate(item.text.split("\n") if item.block else (), start=item.line):
                title = names.read_title(line.lstrip("# ")) if line.startswith(("#", "[", "**")) else None
                if title and title.known and section.name != names.NOTES:
                    message = f"[{title.name}] stands inside a code block that begins on line {item.line - 1}"
                    self._problem(number, message, "close the block with ``` before it")

    def _unfilled(self, says_what_runs: bool) -> None:
        """A template that nobody has filled in is no plan; one whose purpose alone is left is one."""
        left = unfilled(self.sections)
        if names.PURPOSE in left and not (says_what_runs and not _purpose_text(self.sections[names.PURPOSE])):
            listed = ", ".join(f"[{name}]" for name in left)
            is_are = "are" if len(left) > 1 else "is"
            message = f"{listed} {is_are} still as in the template: nobody has filled it in"
            fix = "say what the experiment is for and what runs, in [exp_launch_command] or [exp_yaml_path]"
            severity: Severity = "warning" if says_what_runs else "error"
            self._problem(self.sections[names.PURPOSE].line, message, fix, severity)

    def _unknown(self, section: Section) -> None:
        meant, name = section.title.suggestion, section.name
        message = f"there is no section [{name}]" if name.startswith("exp") else f"`{name}` is no section"
        fix = f"use one of {', '.join(names.SECTIONS)}, or move it to Other Notes"
        harmless = not meant or meant in self.sections
        fix = f"did you mean [{meant}]?" if meant else fix
        self._problem(section.line, message, fix, "warning" if harmless else "error")

    def _problem(self, line: int, message: str, fix: str, severity: Severity = "error") -> None:
        self.problems.append(Problem(line, message, fix, severity))

    def _default(self, name: str, value: T, reason: str) -> T:
        missing = "names none" if name in self.sections else "is missing"
        self.defaults.append(f"[{name}] {missing}: {value} ({reason})")
        return value

    def _extra(self, name: str, reader: Callable[[Section, list[Problem]], T], absent: T) -> T:
        section = self.sections.get(name)
        return reader(section, self.problems) if section else absent

    def _chosen(
        self,
        name: str,
        find: Callable[[Section], list[Candidate]],
        what: str,
        form: str,
        same: Callable[[str], str] = str,
        standard: Container[str] = (),
    ) -> Candidate | None:
        """What a section says; None where it is missing or names nothing, which may be a problem."""
        section = self.sections.get(name)
        if not section:
            return None
        chosen = choose(find(section), self.problems, what, form, same, standard)
        if chosen is None:
            self._nothing_found(section, what, form)
        return chosen

    def _nothing_found(self, section: Section, what: str, form: str) -> None:
        """A section that talks but names no value is an error, unless it describes or says `Default:`."""
        talk = [
            item
            for item in section.items
            if not item.title and item.value and item.strength < Role.DESCRIPTION
        ]
        line, words = section.line, ""
        if talk and not any(item.role == Role.DEFAULT for item in section.items):
            message = f"[{section.name}] names no {what} that can be told from the words around it"
            self._problem(talk[0].line, message, f"write {form} or NA on a line of its own")
        elif not section.heading and section.title.remark and all(item.title for item in section.items):
            words = f"has only the words {section.title.remark!r}"
        elif any(item.role == Role.REMARK and re.search(r"[`/]", item.value) for item in section.items):
            words = "has only remarks, which are no values"
        if words:
            message = f"[{section.name}] {words}; its default is used"
            self._problem(line, message, f"write {form} if a value is meant", "warning")

    def _path(self, name: str, what: str) -> Path | None:
        """A path section's value, relative to the blueprint's folder; None where the default applies."""
        chosen = self._chosen(name, find_paths, "path", _PATH_FORM, os.path.normpath, _ORIGINAL_DEFAULTS)
        if chosen is None or chosen.value is None:
            return None
        self.lines[name] = chosen.line
        try:
            return resolve(chosen.value, self.folder, self.env)
        except PathValueError as error:
            self._problem(chosen.line, f"[{name}] {error}", f"write the {what} as an absolute path")
            return None

    def _venv(self, codebase: Path) -> Path:
        given = self._path(names.VENV, "Python interpreter")
        if given is None:
            for folder, where in ((codebase, "in the codebase"), (self.folder, "beside the blueprint")):
                for place in ("venv", ".venv"):
                    if exists(folder / place / "bin" / "python"):
                        return self._default(names.VENV, folder / place / "bin" / "python", where)
            return self._default(names.VENV, Path(sys.executable), "the Python that runs the harness")
        for candidate in (given / "bin" / "python", given.parent / "python"):
            if (given.is_dir() or given.name == "activate") and exists(candidate):
                message = f"{given} is no interpreter; taken is {candidate}"
                self._problem(self.lines.get(names.VENV, 1), message, f"write {candidate}", "warning")
                return candidate
        return given

    def _yaml(self, codebase: Path) -> Path | None:
        """The config: in the codebase where it is only there, else beside the blueprint."""

        def find(section: Section) -> list[Candidate]:
            return find_paths(section, config=True)

        chosen = self._chosen(names.YAML, find, "config", _CONFIG_FORM, os.path.normpath)
        if chosen is None or chosen.value is None:
            self._default(names.YAML, "NA", "a config is rendered when the command needs one")
            return None
        line = self.lines[names.YAML] = chosen.line
        try:
            beside, inside = (resolve(chosen.value, base, self.env) for base in (self.folder, codebase))
        except PathValueError as error:
            self._problem(line, f"[{names.YAML}] {error}", "write the config's path as an absolute path")
            return None
        if exists(beside) and exists(inside) and beside != inside:
            message = f"{chosen.value} is there twice: {beside} (taken) and {inside}"
            self._problem(line, message, "write the absolute path of the one that is meant", "warning")
        return inside if exists(inside) and not exists(beside) else beside

    def _command(self, name: str) -> str | None:
        chosen = self._chosen(name, find_commands, "command", "the command in backticks")
        command = chosen.value if chosen else None
        if chosen and command is not None:
            lines = len([line for line in logical_lines(command) if not _EXPORT.fullmatch(line.strip())])
            if lines > 1 and "<<" not in command and not command.startswith("set -e"):
                message = f"[{name}] has {lines} lines: they run in this order, also when one fails"
                self._problem(chosen.line, message, "join them with `&&` to stop at a failure", "warning")
        return command

    def _limits(self) -> tuple[float, float]:
        section = self.sections.get(names.MAX_TIME)
        max_time, first_step, silent = self._extra(names.MAX_TIME, read_limits, _NO_LIMITS)
        if section and silent and first_step is None:
            self._nothing_found(section, "length of time", "`- time: 12 hours`")
        if max_time is None:
            self._default(names.MAX_TIME, exact_duration(DEFAULT_MAX_TIME_S), "maximum time")
        if first_step is None:
            shown = exact_duration(DEFAULT_FIRST_STEP_S)
            self.defaults.append(f"[{names.MAX_TIME}] first step: {shown} (time until the first step)")
        return max_time or DEFAULT_MAX_TIME_S, first_step or DEFAULT_FIRST_STEP_S

    def _purpose(self) -> str:
        section = self.sections.get(names.PURPOSE)
        text = _purpose_text(section) if section else ""
        if not text and self.sections:
            message = "the purpose is missing: nobody will know what this run was for"
            line = section.line if section else 1
            self._problem(line, message, "say it under `## [exp_purpose]`", "warning")
        return text


def _purpose_text(section: Section) -> str:
    """The words of the section without the labels `description:` and `content 1:`; hints keep theirs."""
    body = []
    for item in section.items:
        if item.title:
            text = item.value if item.role == Role.STATED else ""
            if not text and not section.heading:
                text = re.sub(r"(?i)^(?:experiment )?purpose$|^实验目的$", "", item.value)
        else:
            empty = not item.value and role_of(item.label) in (Role.REMARK, Role.DEFAULT)
            text = item.value if empty or _PURPOSE_LABEL.match(item.label) else item.text
        if text and not (is_nothing(text) and len(text) < 12):
            body.append(text.strip())
    return "\n".join(body)


# --- the text of the file, whatever it holds ----------------------------------------------------------------


def load_text(path: Path) -> str | Problem:
    """The file as text, in UTF-8 or UTF-16; the problem of one that is no text."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return Problem(1, "there is no such file", "check the path; `harness new NAME` writes a blueprint")
    except IsADirectoryError:
        return Problem(1, "this is a folder", f"name the file in it, as {path / 'blueprint.md'}")
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        return Problem(1, message, "check its permissions")
    if len(data) > LARGEST_BYTES:
        return Problem(
            1, f"larger than {LARGEST_BYTES // 1024} KiB: this is no blueprint", "keep plans short"
        )
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return Problem(line, "not a text in UTF-8", "save it as UTF-8")
    before, binary, _ = text.partition("\0")
    if binary:
        return Problem(before.count("\n") + 1, "a binary file", "name the blueprint's Markdown file")
    return text


# --- sections that nobody has filled in ---------------------------------------------------------------------


def unfilled(sections: Mapping[str, Section]) -> tuple[str, ...]:
    """Of purpose, config and command those that are there and say nothing of their own."""
    return tuple(name for name in ABOUT_WHAT_RUNS if name in sections and _says_nothing(sections[name]))


def _says_nothing(section: Section) -> bool:
    """A heading may have words behind the name; a line of text with words behind it says something."""
    own = [item for item in section.items if item.value.strip() and not (item.title and section.heading)]
    return all(is_placeholder(bare(item.value) if item.block else item.value) for item in own) or _words(
        section
    ) in _original(section.name)


def _words(section: Section) -> str:
    return " ".join(section.text.split()).strip(" -")


@cache
def _original(name: str) -> tuple[str, ...]:
    """The template's own words for this section."""
    text = own_text(templates_dir() / "blueprints" / "original.md")
    return tuple(_words(section) for section in read_document(text)[0] if section.name == name)
