"""Lines that are a section although they have no `#`, brackets or colon: `exp_venv_exe /usr/bin/python3`.

Such a line is told from a sentence that mentions a section by its structure: the name stands first, spelled
as it is, and what stands behind it has the form of that section's value. Free text, as in a purpose, counts
only where the line begins a paragraph.
"""

import re
from dataclasses import replace

from harness.blueprint import durations, names
from harness.blueprint.commands import looks_like_command
from harness.blueprint.labels import is_nothing
from harness.blueprint.names import Title

_NAME_FIRST = re.compile(r"\s*(?P<marker>[-*+]\s+|\d+[.)]\s+|\|\s*)?`?exp(?:_[A-Za-z0-9]+)+`?(?=[\s|]|$)")
_PATH = re.compile(r"(?:`[^`]+`|\"[^\"]+\"|'[^']+'|(?P<word>\S*[/\\~$]\S*|\.{1,2}|\S*\.\w+))(?:\s+[(（#].*)?")
_PATHS = (names.CODEBASE, names.VENV, names.YAML, names.RESULT)
_COMMANDS = (names.COMMAND, names.PREPARE, names.EVALUATE, names.CLEANUP)


def bare_title(line: str, title: Title, begins: bool) -> Title | None:
    """The title as if a colon stood behind its name, where the line is a section; else None. `begins`: the
    line is the first of its paragraph, or follows the line of another section."""
    found, section = _NAME_FIRST.match(line), title.name if title.known else title.suggestion
    if not found or not section:
        return None
    value = title.remark
    begins = begins or bool(found["marker"])
    if value and not (_is_value(section, value) or (begins and _may_be_value(section, value))):
        return None
    return replace(title, remark=f": {value}" if value else "")


def _is_value(section: str, value: str) -> bool:
    """True if the text can be nothing but this section's value."""
    if is_nothing(value):
        return True
    if section in _PATHS:
        return bool(_PATH.fullmatch(value))
    if section == names.MAX_TIME:
        return durations.single(value) is not None
    is_code = value.startswith("`") and value.find("`", 1) == len(value) - 1
    return is_code or (section in _COMMANDS and _is_command(value) and bool(re.search(r"[./]", value)))


def _may_be_value(section: str, value: str) -> bool:
    """True if the text is this section's value where a paragraph begins with the name."""
    if section == names.PURPOSE:
        return True
    if section in _COMMANDS:
        return _is_command(value)
    return not re.search(r"[^\s,]\s+[^\s,]", value) and value[-1:] not in ".!?"


def _is_command(value: str) -> bool:
    """True if a program, and not a word of a sentence, comes first."""
    first, _, rest = value.partition(" ")
    begins_well = "=" in first or rest.lstrip().startswith("-") or looks_like_command(first)
    return begins_well and looks_like_command(value)
