"""Shell commands out of prose: code blocks, code spans, lines that can only be a command."""

import re
from collections.abc import Iterator

from harness.blueprint.choice import Candidate
from harness.blueprint.document import Item, Section
from harness.blueprint.inline import is_nothing, is_placeholder, spans
from harness.blueprint.labels import Role

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
_LAUNCHERS = frozenset(_LAUNCHER_WORDS.split())
_ENGLISH_TOO = frozenset(_ENGLISH_WORDS.split())
_SHELLS = frozenset(
    {
        "",
        "bash",
        "sh",
        "shell",
        "zsh",
        "console",
        "shell-session",
        "shellsession",
        "terminal",
        "cmd",
        "text",
        "txt",
        "plain",
    }
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s*")
_EVIDENCE = re.compile(r"(?:^|\s)--?[A-Za-z]|\S/\S|\.(?:py|sh|ya?ml)\b|&&|\|\||[;|>]|=\S")
_WIDE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_QUOTED_NEWLINE = "\0"
_LABELS = re.compile(r"command|cmd|run|launch|execute|start|命令|启动|执行|运行")


def find_commands(section: Section) -> list[Candidate]:
    """Every command a section may mean; lines that belong together are one."""
    found: list[Candidate] = []
    for item in section.items:
        if item.role == Role.REMARK:
            continue
        if item.block:
            found += _of_block(item)
        else:
            found += _of_text(item)
    return found


def join_lines(text: str) -> str:
    """The command as short as a shell reads it: `\\`-newline and lines that end in `&&`, `||` or `|` joined,
    comment lines dropped. Text with a here-document stays as it is."""
    if "<<" in text:
        return text.strip("\n")
    joined = _without_continuations(text)
    lines: list[str] = []
    for line in joined.split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if lines and (re.search(r"(?:&&|\|\|?)$", lines[-1]) or re.match(r"&&|\|\|?", line)):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines).replace(_QUOTED_NEWLINE, "\n")


def looks_like_command(text: str) -> bool:
    """Whether a line outside code marks can only be a command: a known launcher, a program's path, or
    flags."""
    rest = text.strip()
    while assignment := _ASSIGNMENT.match(rest):
        rest = rest[assignment.end() :]
    word, _, arguments = rest.partition(" ")
    if not word:
        return False
    if word in _LAUNCHERS:
        return (
            word not in _ENGLISH_TOO or not arguments or bool(_EVIDENCE.search(rest)) or " " not in arguments
        )
    if not word.isascii() or word[-1] in ".,:;!?":
        return False
    if re.match(r"(?:[~.]|\$\{?\w+\}?)?/", word) or re.search(r"/(?:python[\d.]*|[\w-]+\.(?:py|sh))$", word):
        return True
    return bool(
        re.fullmatch(r"[a-z][\w.+-]*", word) and re.search(r"(?:^|\s)--?[A-Za-z]|\.(?:py|sh)\b", arguments)
    )


def _of_block(item: Item) -> Iterator[Candidate]:
    role = item.role or Role.STATED
    if item.info.split(" ")[0].strip("{}.") not in _SHELLS:
        return
    text = item.text
    content = [line for line in text.split("\n") if line.strip()]
    if any(line.lstrip().startswith("$ ") for line in content):
        text = "\n".join(re.sub(r"^\s*\$ ", "", line) for line in text.split("\n"))
    command = join_lines(text)
    if is_nothing(command):
        yield Candidate(None, item.line, role)
    elif command:
        yield Candidate(command, item.line, role, _doubt(command))


def _of_text(item: Item) -> Iterator[Candidate]:
    """Commands of a paragraph or list entry."""
    role = item.role or Role.STATED
    first = item.line + item.text.count("\n") - item.value.count("\n")
    text = item.value.strip()
    if not text:
        return
    if is_nothing(text):
        yield Candidate(None, first, role)
        return
    literals = spans(text).literals
    if literals:
        yield from _of_spans(item, literals, first, role)
    elif item.title and role == Role.PROSE:
        if looks_like_command(text):
            yield Candidate(join_lines(text), first, Role.STATED, _doubt(text) or _prose_behind(text))
    elif is_placeholder(text) and not looks_like_command(text):
        yield Candidate(text, first, role, f"{text!r} was never filled in")
    else:
        yield from _of_lines(item, text, first, role)


def _of_spans(item: Item, literals: tuple[str, ...], first: int, role: Role) -> Iterator[Candidate]:
    """Code spans: alone in the item it is the command whatever it looks like; in a sentence it must look
    like one."""
    alone = spans(item.value).before == "" and len(literals) == 1
    labelled = bool(_LABELS.search(item.label)) and len(literals) == 1
    for literal in literals:
        command = join_lines(literal)
        if is_nothing(command):
            yield Candidate(None, first, role)
        elif alone or labelled:
            yield Candidate(command, first, role, _doubt(command))
        elif looks_like_command(command) and (" " in command or "/" in command):
            yield Candidate(command, first, max(role, Role.PROSE), _doubt(command))


def _of_lines(item: Item, text: str, first: int, role: Role) -> Iterator[Candidate]:
    """Plain lines: those that look like commands. Sentences between them are left out."""
    lines = join_lines(text).split("\n")
    commands = [line for line in lines if looks_like_command(line)]
    if (
        not commands
        and _LABELS.search(item.label)
        and role <= Role.CONTENT
        and re.match(r"[\w./~$-]+(?:\s|$)", text)
    ):
        commands = lines if len(lines) == 1 else []
    if commands:
        command = "\n".join(commands)
        doubt = _doubt(command) or _prose_behind(command) or _left_out(lines, commands)
        yield Candidate(command, first, role, doubt)


def _left_out(lines: list[str], commands: list[str]) -> str:
    """Whether a line that is no command by itself could be the end of one."""
    for line in lines[lines.index(commands[0]) :]:
        if line not in commands and re.match(r"--?[A-Za-z]|[\w.]+=\S+$", line):
            return f"does the line {line!r} belong to the command? (a line that goes on ends in `\\`)"
    return ""


def _prose_behind(command: str) -> str:
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", command)
    if _WIDE.search(bare) or re.search(r"\.\s+[A-Z][a-z]+ [a-z]", bare):
        return f"where does the command end in {command!r}?"
    return ""


def _doubt(command: str) -> str:
    """Why a command cannot be meant as it stands."""
    if re.search(r"<[A-Za-z][\w /.-]*>", command) and "<<" not in command:
        return f"{command!r} still has a placeholder"
    if "\0" in command:
        return "the command contains a NUL character"
    return ""


def _without_continuations(text: str) -> str:
    """Join `\\`-newline as the shell does: nothing inside double quotes, one space between words, kept in
    single quotes."""
    out: list[str] = []
    quote = ""
    position = 0
    while position < len(text):
        char = text[position]
        continued = re.compile(r"\\[ \t]*\n").match(text, position) if quote != "'" else None
        if continued:
            position = continued.end()
            if not quote:
                spaced = (out and out[-1].isspace()) or text[position : position + 1].isspace()
                while position < len(text) and text[position] in " \t":
                    position += 1
                while out and out[-1] in " \t":
                    out.pop()
                out += [" "] if spaced else []
            continue
        if char == "\\" and quote != "'":
            out.append(text[position : position + 2])
            position += 2
            continue
        if char == "#" and not quote and (not out or out[-1].isspace()):
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            out.append(text[position:end])
            position = end
            continue
        if char == "\n" and quote:
            char = _QUOTED_NEWLINE
        if char in "\"'":
            quote = "" if quote == char else quote or char
        out.append(char)
        position += 1
    return "".join(out)
