"""Shell commands out of prose: code blocks, code spans, lines that can only be a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.blueprint.choice import Candidate
from harness.blueprint.labels import Role, bare, is_nothing, is_placeholder, spans

if TYPE_CHECKING:
    from harness.blueprint.document import Item, Section

_LAUNCHER_WORDS = """
python python3 bash sh zsh torchrun accelerate deepspeed uv uvx poetry pipenv conda mamba source cd
export env nohup make ray ajet ajet-swarm harness docker podman srun sbatch mpirun horovodrun set exec
eval sudo ssh tmux pip npm node julia Rscript java cargo cmake numactl taskset nice stdbuf timeout trl
verl swift llamafactory-cli echo nvidia-smi mkdir rm cp mv sleep cat true false test printf touch ulimit
unset . [ [[ if for while
"""
_ENGLISH_WORDS = """
make set source export test sleep if for while ray swift nice cat touch true false node env exec timeout echo
harness
"""
_SHELL_WORDS = "bash sh shell zsh console shell-session shellsession terminal cmd text txt plain"
_LAUNCHERS, _ENGLISH_TOO = frozenset(_LAUNCHER_WORDS.split()), frozenset(_ENGLISH_WORDS.split())
_SHELLS = frozenset((*_SHELL_WORDS.split(), ""))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s*")
_EVIDENCE = re.compile(r"(?:^|\s)--?[A-Za-z]|\S/\S|\.(?:py|sh|ya?ml)\b|&&|\|\||[;|>]|=\S")
_WIDE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_LABELS = re.compile(r"command|cmd|run|launch|execute|start|命令|启动|执行|运行")
_CONTINUED = re.compile(r"(?<!\\)(?:[ \t]*\\[ \t]*\n)+[ \t]*")


def find_commands(section: Section) -> list[Candidate]:
    """Every command a section may mean; lines that belong together are one."""
    items = (item for item in section.items if item.role != Role.REMARK)
    return [found for item in items for found in (_of_block(item) if item.block else _of_text(item))]


def join_lines(text: str) -> str:
    """The command as short as a shell reads it: `\\`-newline and lines that end in `&&`, `||` or `|` joined,
    comment lines dropped. Text with a here-document or with quotes over several lines stays as it is."""
    if "<<" in text or any(map(_opens_quote, text.split("\n"))):
        return text.strip("\n")
    joined = _CONTINUED.sub(lambda found: " " if re.sub(r"\\[ \t]*\n", "", found[0]) else "", text)
    lines: list[str] = []
    for line in map(str.strip, joined.split("\n")):
        if lines and line and (re.search(r"(?:&&|\|\|?)$", lines[-1]) or re.match(r"&&|\|\|?", line)):
            lines[-1] += f" {line}"
        elif line and not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)


def logical_lines(text: str) -> list[str]:
    """The lines of a command, where one inside quotes or behind `\\` belongs to the line before it."""
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and (_opens_quote(lines[-1]) or lines[-1].endswith("\\")):
            lines[-1] += f"\n{line}"
        else:
            lines.append(line)
    return lines


def _opens_quote(line: str) -> bool:
    try:
        shlex.split(line.strip().rstrip("\\"), comments=line.lstrip().startswith("#"))
    except ValueError:
        return True
    return False


def looks_like_command(text: str) -> bool:
    """True if a line outside code marks can only be a command: a launcher, a program's path, or flags."""
    rest = text.strip()
    while assignment := _ASSIGNMENT.match(rest):
        rest = rest[assignment.end() :]
    word, _, arguments = rest.partition(" ")
    if not word or word.startswith("#"):
        return False
    if word in _LAUNCHERS:
        return word not in _ENGLISH_TOO or " " not in arguments or bool(_EVIDENCE.search(rest))
    if not word.isascii() or word[-1] in ".,:;!?":
        return False
    if re.match(r"(?:[~.]|\$\{?\w+\}?)?/", word) or re.search(r"/(?:python[\d.]*|[\w-]+\.(?:py|sh))$", word):
        return True
    flags = re.search(r"(?:^|\s)--?[A-Za-z]|\.(?:py|sh)\b", arguments)
    return bool(re.fullmatch(r"[a-z][\w.+-]*", word) and flags)


def _of_block(item: Item) -> Iterator[Candidate]:
    if item.info.split(" ")[0].strip("{}.") not in _SHELLS:
        return
    text = item.text
    if re.search(r"^\s*\$ ", text, re.MULTILINE):
        text = "\n".join(re.sub(r"^\s*\$ ", "", line) for line in text.split("\n"))
    if command := join_lines(text):
        yield _candidate(command, item.line, item.strength)


def _of_text(item: Item) -> Iterator[Candidate]:
    """Commands of a paragraph or list entry."""
    role, first, text = item.strength, item.value_line, item.value.strip()
    if not text:
        return
    literals = spans(text).literals
    if is_nothing(text):
        yield Candidate(None, first, role)
    elif literals:
        yield from _of_spans(item, literals)
    elif item.title and role == Role.PROSE:
        if looks_like_command(text):
            yield Candidate(join_lines(text), first, Role.STATED, _doubt(text) or _prose_behind(text))
    elif is_placeholder(text) and not looks_like_command(text):
        yield Candidate(text, first, role, f"{text!r} was never filled in")
    else:
        yield from _of_lines(item, text)


def _of_spans(item: Item, literals: tuple[str, ...]) -> Iterator[Candidate]:
    """Code spans: alone it is the command whatever it looks like; in a sentence it must look like one."""
    is_meant = len(literals) == 1 and (not spans(item.value).before or bool(_LABELS.search(item.label)))
    for literal in literals:
        command = join_lines(literal)
        if is_nothing(command) or is_meant:
            yield _candidate(command, item.value_line, item.strength)
        elif looks_like_command(command) and (" " in command or "/" in command):
            yield _candidate(command, item.value_line, max(item.strength, Role.PROSE))


def _of_lines(item: Item, text: str) -> Iterator[Candidate]:
    """Plain lines: those that look like commands. Sentences between them are left out."""
    lines = join_lines(text).split("\n")
    commands = [line for line in lines if looks_like_command(line)]
    if not commands and len(lines) == 1 and item.strength <= Role.CONTENT and _LABELS.search(item.label):
        commands = lines if re.match(r"[\w./~$-]+(?:\s|$)", text) else []
    if commands:
        command = "\n".join(commands)
        doubt = _doubt(command) or _prose_behind(command) or _left_out(lines, commands)
        yield Candidate(command, item.value_line, item.strength, doubt)


def _candidate(command: str, line: int, role: Role) -> Candidate:
    if is_nothing(command):
        return Candidate(None, line, role)
    return Candidate(command, line, role, _doubt(bare(command)))


def _left_out(lines: list[str], commands: list[str]) -> str:
    """A doubt where a line that is no command by itself could be the end of one."""
    for line in lines[lines.index(commands[0]) :]:
        if line not in commands and re.match(r"--?[A-Za-z]|[\w.]+=\S+$", line):
            return f"does the line {line!r} belong to the command? (a line that goes on ends in `\\`)"
    return ""


def _prose_behind(command: str) -> str:
    unquoted = bare(command)
    if _WIDE.search(unquoted) or re.search(r"\.\s+[A-Z][a-z]+ [a-z]", unquoted):
        return f"where does the command end in {command!r}?"
    return ""


def _doubt(command: str) -> str:
    """Why a command cannot be meant as it stands."""
    if (found := re.search(r"<[A-Za-z][\w /.-]*>", command)) and "<<" not in command:
        return f"the placeholder {found[0]} is still there (what is meant as it stands is quoted)"
    return "the command contains a NUL character" if "\0" in command else ""
