"""Where a training in a copy would still be led to the author's own, uncorrected code.

In: a copy, the blueprint. Out: lines (of scripts, settings, the launch command, the config) that name code of
which the copy has its own. Paths to what the copy only links to and to what is not there yet lead nowhere
else.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.blueprint.types import Blueprint
from harness.command import paths_replaced
from harness.guard.file_access import SOURCE_SUFFIXES
from harness.repair import code_copy
from harness.repair.code_copy import CodeCopy

_LARGEST = 2_000_000
_SETTINGS = frozenset((".cfg", ".conf", ".env", ".ini", ".json", ".mk", ".toml", ".yaml", ".yml", ""))
_PATH_GOES_ON = r"(?:/[^\s'\"`$(){}\[\]<>|;&*?,:#\\]*)?(?![\w.-])"


def relocated(command: str, copy: CodeCopy) -> str:
    """The command with its absolute paths into the codebase pointing into this copy."""

    def moved(path: str) -> str | None:
        return copy.moved(str(Path(path).expanduser()) if path.startswith("~/") else path)

    return paths_replaced(command, moved)


def original_in(name: str, text: str, copy: CodeCopy) -> list[str]:
    """Places of a text that name code of which the copy has its own, as `run.sh:3 (/home/ada/code)`."""
    home = str(Path.home())
    roots = [str(copy.named), str(copy.source)]
    below_home = [root.removeprefix(home) for root in roots if root.startswith(f"{home}/")]
    roots += [f"{start}{rest}" for rest in below_home for start in ("~", "$HOME", "${HOME}")]
    if not any(root in text for root in roots):
        return []
    spelled = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, roots))}){_PATH_GOES_ON}")
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in spelled.finditer(line) if not line.lstrip().startswith(("#", "//")) else ():
            path = re.sub(r"\A(?:~|\$HOME|\$\{HOME\})(?=/)", lambda _: home, match.group())
            place = copy.moved(path.rstrip("/") or path)
            if place is not None and _is_code(Path(place)):
                where = name if " " in name else f"{name}:{number}"
                found.append(f"{where} ({match.group()})")
    return found


def leading_to_original(copy: CodeCopy, plan: Blueprint, patched: Mapping[Path, str]) -> list[str]:
    """The same for everything that a launch reads: the command, the config, scripts and settings of the
    copy."""
    command = relocated(plan.launch_command or "", copy)
    found = original_in("the launch command", command, copy)
    config = plan.yaml_path
    if config is not None and config.is_file():
        found += original_in(config.name, _read(config), copy)
    for file in _scripts(copy):
        here = file.relative_to(copy.codebase if file.is_relative_to(copy.codebase) else copy.root)
        found += original_in(str(here), patched.get(file) or _read(file), copy)
    return list(dict.fromkeys(found))


def _is_code(place: Path) -> bool:
    """True if something that may have been corrected lies there."""
    if not place.is_dir():
        return place.suffix in SOURCE_SUFFIXES or place.suffix == ""
    return any(
        file.suffix in SOURCE_SUFFIXES for file in place.rglob("*") if not code_copy.CACHES & set(file.parts)
    )


def _scripts(copy: CodeCopy) -> Iterator[Path]:
    """Scripts and settings of the copy, those of earlier results left out."""
    results = {file.parent for file in copy.files() if file.name == "journal.jsonl"}
    for file in copy.files():
        is_text = file.suffix.lower() in SOURCE_SUFFIXES | _SETTINGS and file.stat().st_size <= _LARGEST
        if is_text and not results & set(file.parents):
            yield file


def _read(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")
