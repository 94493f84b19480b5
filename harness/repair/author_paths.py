"""Where a training in the private copy would still be led to the author's own, uncorrected code.

In: a copy, the plan. Out: the place in the copy that an absolute path means, and the lines (of scripts,
settings, the launch command, the config) that name code of which the copy has its own. Paths to what the copy
only links to (data, environments, results) and to what is not there yet lead nowhere else.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.guard.file_access import SOURCE_SUFFIXES
from harness.repair import private_copy
from harness.repair.private_copy import PrivateCopy

_SETTINGS = frozenset((".cfg", ".conf", ".env", ".ini", ".json", ".mk", ".toml", ".yaml", ".yml", ""))
_QUOTED_PATH = re.compile(r"""['"](/[^'"\n]+)['"]""")
_LARGEST = 2_000_000
_MOST_FILES = 20_000
_MOST_SHOWN = 3
_PATH_GOES_ON = r"(?:/[^\s'\"`$(){}\[\]<>|;&*?,:#\\]*)?(?![\w.-])"

Roots = Sequence[tuple[str, Path]]


def roots(copy: PrivateCopy, plan: Mapping[str, Any]) -> list[tuple[str, Path]]:
    """How the author may write the codebase or its repository, each with its place in the copy."""
    codebase = Path(plan["codebase_dir"])
    named = [(codebase, copy.codebase), (codebase.resolve(), copy.codebase), (copy.source, copy.root)]
    return [(str(place), there) for place, there in named]


def moved(text: str, copy: PrivateCopy, known: Roots) -> str | None:
    """Where an absolute path into the codebase lies in the copy; None when the copy has no own one."""
    path = os.path.normpath(text) if ".." in Path(text).parts else text
    if path.startswith("/") and not any(path == root or path.startswith(f"{root}/") for root, _ in known):
        path = os.path.realpath(path)
    for root, there in known:
        if path != root and not path.startswith(f"{root}/"):
            continue
        place = Path(f"{there}{path.removeprefix(root)}")
        if place.exists() and place.resolve().is_relative_to(copy.root.resolve()):
            return str(place) + ("/" if text.endswith("/") and not str(place).endswith("/") else "")
    return None


def installed_from(venv_exe: Path) -> list[str]:
    """Folders that editable installs in a virtual environment take their modules from."""
    found: list[str] = []
    for site in sorted((venv_exe.parent.parent / "lib").glob("python3*/site-packages")):
        for file in sorted([*site.glob("*.pth"), *site.glob("__editable__*.py")]):
            text = file.read_text(encoding="utf-8", errors="replace")
            if file.suffix == ".pth":
                found += [line.strip() for line in text.split("\n") if line.startswith("/")]
            else:
                found += [str(Path(name).parent) for name in _QUOTED_PATH.findall(text)]
    return found


def leading_out(
    copy: PrivateCopy, plan: Mapping[str, Any], command: str, patched: Mapping[Path, str] | None = None
) -> list[str]:
    """Lines that name the author's own code, as `run.sh:3 (/home/ada/code)`. `command`: the launch command as
    it points into the copy; `patched`: files of the copy as they are about to be."""
    known = roots(copy, plan)
    names = _named(known)
    found = leading_out_of_command(copy, plan, command)
    config = Path(plan["yaml_path"]) if plan.get("yaml_path") else None
    if config is not None and config.is_file():
        found += [f"{config.name}:{line} ({path})" for line, path in _hits(_read(config), names, copy, known)]
    for file in _files(copy):
        here = (
            file.relative_to(copy.codebase)
            if file.is_relative_to(copy.codebase)
            else file.relative_to(copy.root)
        )
        if file.is_symlink():
            target = str(file.readlink())
            found += [f"{here} (a link to {target})" for _ in _hits(target, names, copy, known)]
        else:
            text = (patched or {}).get(file) or _read(file)
            found += [f"{here}:{line} ({path})" for line, path in _hits(text, names, copy, known)]
    return list(dict.fromkeys(found))


def leading_out_of_command(copy: PrivateCopy, plan: Mapping[str, Any], command: str) -> list[str]:
    """The same for a launch command alone."""
    known = roots(copy, plan)
    return [f"the launch command ({path})" for _, path in _hits(command, _named(known), copy, known)]


def refusal(found: Sequence[str]) -> str:
    """What to say of such lines."""
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return (
        f"{', '.join(found[:_MOST_SHOWN])}{more}: this names the author's own folder, so a launch would run "
        "the code there instead of the corrected copy; write it relative to the codebase first, or repair by "
        "config or environment"
    )


def _named(known: Roots) -> list[tuple[str, re.Pattern[str]]]:
    """The spellings of each root, with a pattern for paths that begin with it."""
    home = str(Path.home())
    spelled: dict[str, str] = {}
    for root, _ in known:
        spelled[root] = root
        if root.startswith(f"{home}/"):
            rest = root.removeprefix(home)
            spelled |= {f"{start}{rest}": root for start in ("~", "$HOME", "${HOME}")}
    return [
        (text, re.compile(rf"(?<![\w.])(?:{re.escape(text)})(?P<rest>{_PATH_GOES_ON})")) for text in spelled
    ]


def _hits(
    text: str, names: Sequence[tuple[str, re.Pattern[str]]], copy: PrivateCopy, known: Roots
) -> Iterator[tuple[int, str]]:
    """Line and path of everything in the text that leads to code of which the copy has its own."""
    if not any(name in text for name, _ in names):
        return
    home = str(Path.home())
    for number, line in enumerate(text.split("\n"), start=1):
        if line.lstrip().startswith(("#", "//")):
            continue
        for name, pattern in names:
            for match in pattern.finditer(line) if name in line else ():
                path = re.sub(r"\A(?:~|\$HOME|\$\{HOME\})(?=/)", lambda _: home, match.group())
                place = moved(path.rstrip("/") or path, copy, known)
                if place is not None and _is_code(Path(place)):
                    yield number, match.group()


def _is_code(place: Path) -> bool:
    """Whether something that may have been corrected lies there."""
    if not place.is_dir():
        return place.suffix in SOURCE_SUFFIXES or place.suffix == ""
    for _, folders, names in os.walk(place):
        folders[:] = [name for name in folders if name not in private_copy.CACHES and name != ".git"]
        if any(Path(name).suffix in SOURCE_SUFFIXES for name in names):
            return True
    return False


def _files(copy: PrivateCopy) -> Iterator[Path]:
    """Scripts and settings of the copy: those that git tracks at the author's, and other scripts."""
    tracked = [
        name for name in private_copy.tracked(copy.source) if _suffix(name) in SOURCE_SUFFIXES | _SETTINGS
    ]
    others = [name for name in private_copy.untracked(copy.root) if _suffix(name) in SOURCE_SUFFIXES]
    for name in [*tracked, *others][:_MOST_FILES]:
        file = copy.root / name
        is_result = any((parent / "journal.jsonl").exists() for parent in file.parents if parent != copy.root)
        if file.is_symlink() or (file.is_file() and file.stat().st_size <= _LARGEST and not is_result):
            yield file


def _suffix(name: str) -> str:
    return Path(name).suffix.lower()


def _read(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")
