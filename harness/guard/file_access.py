"""Which files a policy may read and write.

Reading: the result folder, and source code and settings of the codebase. Writing code: what the blueprint's
[exp_code_changes] names. A path is judged after all its symbolic links have been followed; private files are
refused by name, wherever they lie.
"""

import re
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

LARGEST_BYTES = 20_000_000
LARGEST_SOURCE_BYTES = 2_000_000
SOURCE_SUFFIXES = frozenset((
    ".bash", ".c", ".cc", ".cpp", ".cu", ".cuh", ".go", ".h", ".hpp", ".jl", ".js", ".lua", ".proto", ".pxd",
    ".py", ".pyi", ".pyx", ".r", ".rs", ".sh", ".sql", ".ts",
))  # fmt: skip
READABLE_SUFFIXES = SOURCE_SUFFIXES | {
    ".cfg", ".cmake", ".conf", ".ini", ".j2", ".jinja", ".jinja2", ".json", ".jsonc", ".md", ".mk", ".rst",
    ".toml", ".txt", ".yaml", ".yml",
}  # fmt: skip
READABLE_NAMES = frozenset(("Makefile", "Dockerfile", "LICENSE", "README", "NOTICE", "CHANGELOG"))
PATCHABLE_SUFFIXES = frozenset(
    (".bash", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".py", ".pyx", ".sh")
)
OWN_PRIVATE = frozenset(("transcript.jsonl", "launch.sh"))
"""In a result folder: the model's own calls, and the script that holds the training's whole environment."""

_PRIVATE_NAME = re.compile(
    r"id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\..*)?|.*\.(pem|key|p12|pfx|pkcs12|jks|keystore|kdbx|ppk|asc|gpg|ovpn)|_?netrc"
    r"|(g?shadow|passwd|sudoers|kubeconfig|htpasswd|pgpass|authorized_keys|known_hosts)-?(\..*)?"
    r"|environ|.*service[-_]?account.*\.json|harness\.toml|kaggle\.json|auth\.(json|toml|ya?ml)",
    re.IGNORECASE,
)
_PRIVATE_WORDS = frozenset((
    "apikey", "apikeys", "credential", "credentials", "passphrase", "passwd", "password", "passwords",
    "secret", "secrets",
))  # fmt: skip
_PRIVATE_PAIRS = re.compile(r"(api|access|private|secret|auth|deploy|ssh)_?keys?")
_RESULT_WORDS = re.compile(
    r"reward|judge|rubric|verif|benchmark|(?:(?-i:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))|auto)grad(?:er?s?|ing)(?![a-z])"
    r"|(?<![a-z])(?:eval|metric|scor|valid)",
    re.IGNORECASE,
)
_STARTS_BY_ITSELF = frozenset(
    ("sitecustomize.py", "usercustomize.py", "conftest.py", "setup.py", "noxfile.py")
)
_LIBRARIES = frozenset(("site-packages", "dist-packages", "node_modules"))
_LONGEST = 500


class PlaceRefusedError(ValueError):
    """This file may not be read; the message says why."""


def resolve_reading(path: str, result_dir: Path, plan: Mapping[str, Any]) -> Path:
    """The file that `path` means, all links followed. Relative paths start at the result folder, then at the
    codebase. Raises PlaceRefusedError for a file that may not be read."""
    _refuse_wording(path)
    roots = _roots(result_dir, plan)
    for root in roots:
        if not _lexists(root / path):
            continue
        found = _resolved(root / path, path)
        home = next((place for place in roots if found.is_relative_to(place)), None)
        if home is None or (not Path(path).is_absolute() and not found.is_relative_to(root)):
            raise PlaceRefusedError(
                f"{path} leads out of the result folder and the codebase; only these are read"
            )
        _refuse_names(path, _parts(path, roots))
        _refuse_names(path, found.relative_to(home).parts)
        _refuse_kind(path, found, is_result=home == result_dir.resolve())
        return found
    if len(roots) == 1 and _codebase(plan) is None:
        raise PlaceRefusedError(
            f"there is no file {path} in the result folder; of the codebase nothing is read, because it is "
            "the home folder or a folder above it"
        )
    raise PlaceRefusedError(f"there is no file {path} in the result folder or the codebase")


def refuse_reading(path: str, result_dir: Path, plan: Mapping[str, Any]) -> str | None:
    """Why this file may not be read, or None; see `resolve_reading`."""
    try:
        resolve_reading(path, result_dir, plan)
    except PlaceRefusedError as refusal:
        return str(refusal)
    return None


def refuse_patching(path: str, plan: Mapping[str, Any]) -> str | None:
    """Why this file of the codebase may not be patched, or None."""
    allowed: Sequence[str] = tuple(plan.get("code_changes") or ())
    if not allowed:
        return "the blueprint allows no code changes ([exp_code_changes]); repair by config or environment"
    codebase = _codebase(plan)
    if codebase is None:
        return "the codebase is the home folder or a folder above it; nothing is changed there"
    try:
        _refuse_wording(path)
        if Path(path).is_absolute():
            return "give the path relative to the codebase"
        _refuse_names(path, Path(path).parts)
        if not _lexists(codebase / path):
            return f"there is no file {path} in the codebase; only files that are there can be corrected"
        if _resolved(codebase / path, path) != codebase / path:
            return f"{path} goes through a symbolic link; name the file itself"
        _refuse_special(path, codebase / path)
        if (codebase / path).stat().st_size > LARGEST_SOURCE_BYTES:
            return f"{path} is too large to be corrected here"
    except PlaceRefusedError as refusal:
        return str(refusal)
    return _refuse_patched_name(Path(path), allowed)


def _refuse_patched_name(path: Path, allowed: Sequence[str]) -> str | None:
    if path.suffix not in PATCHABLE_SUFFIXES:
        known = " ".join(sorted(PATCHABLE_SUFFIXES))
        return f"{path} is no source code ({known}); settings are changed with edit_config"
    if path.name in _STARTS_BY_ITSELF:
        return f"{path.name} is run by Python or its tools without being asked for, so it is not changed"
    if _LIBRARIES & set(path.parts):
        return f"{path} belongs to an installed library, not to the codebase"
    matching = [glob for glob in allowed if matches(path, glob)]
    if not matching:
        return f"the blueprint allows changes only in {', '.join(allowed)} ([exp_code_changes])"
    for part in path.parts:
        if _RESULT_WORDS.search(part) and not any(_names_it(glob, part) for glob in matching):
            return (
                f"{path} looks like code that computes results ({part}); it is changed only where "
                "[exp_code_changes] names it explicitly, not by a pattern such as **"
            )
    return None


def matches(path: Path, glob: str) -> bool:
    """Whether a path relative to the codebase matches a glob; `**` stands for any folders."""
    pattern = glob.strip().removeprefix("./")
    pattern += "**" if pattern.endswith("/") else ""
    return _matches(path.parts, tuple(part for part in pattern.split("/") if part))


def looks_private(name: str) -> bool:
    """Whether a file or folder of this name is hidden or likely to hold secrets."""
    if name.startswith(".") and name not in (".", ".."):
        return True
    if _PRIVATE_NAME.fullmatch(name):
        return True
    stem = name.split(".")[0] if Path(name).suffix.lower() in READABLE_SUFFIXES | {".jsonl", ".csv"} else name
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem)
    words = re.split(r"[^A-Za-z0-9]+|_", snake.lower())
    if _PRIVATE_WORDS & set(words) or _PRIVATE_PAIRS.search("_".join(words)):
        return True
    return Path(name).suffix.lower() not in SOURCE_SUFFIXES and (words[-1] == "token" or words == ["tokens"])


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(parts)
        return any(_matches(parts[skipped:], pattern[1:]) for skipped in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _names_it(glob: str, part: str) -> bool:
    """Whether the glob spells out the word for which this part of the path is held back."""
    told = {match.group().lower() for match in _RESULT_WORDS.finditer(glob)}
    return all(match.group().lower() in told for match in _RESULT_WORDS.finditer(part))


def _roots(result_dir: Path, plan: Mapping[str, Any]) -> list[Path]:
    codebase = _codebase(plan)
    return [result_dir.resolve(), *([codebase] if codebase is not None else [])]


def _codebase(plan: Mapping[str, Any]) -> Path | None:
    """The codebase, None where it is so wide that it would give away everything."""
    if not plan.get("codebase_dir"):
        return None
    codebase = Path(plan["codebase_dir"]).resolve()
    return None if Path.home().resolve().is_relative_to(codebase) else codebase


def _parts(path: str, roots: Sequence[Path]) -> tuple[str, ...]:
    """The parts of a path as it was asked for, without the place where an absolute one starts."""
    asked = Path(path)
    home = next((root for root in roots if asked.is_absolute() and asked.is_relative_to(root)), None)
    return asked.relative_to(home).parts if home is not None else () if asked.is_absolute() else asked.parts


def _refuse_wording(path: str) -> None:
    if not path or len(path) > _LONGEST or not path.isprintable():
        raise PlaceRefusedError(
            "this is no path: give plain text of one line, relative to the result folder or codebase"
        )
    if path.startswith("~") or ".." in Path(path).parts or "\\" in path:
        raise PlaceRefusedError(f"{path}: write the path without `~`, `..` and backslashes")


def _lexists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _resolved(path: Path, asked: str) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PlaceRefusedError(
            f"{asked} leads nowhere: a symbolic link in it is broken or turns in circles"
        ) from error


def _refuse_names(asked: str, parts: Sequence[str]) -> None:
    private = next((part for part in parts if looks_private(part)), None)
    if private is not None:
        raise PlaceRefusedError(
            f"{asked}: {private} is hidden or looks as if it holds secrets, so it is not touched"
        )


def _refuse_kind(asked: str, found: Path, is_result: bool) -> None:
    _refuse_special(asked, found)
    if found.name in OWN_PRIVATE and (is_result or _is_in_results(found)):
        raise PlaceRefusedError(
            f"{asked} is the harness's own record; use read_pane, search_log or read_config"
        )
    if not is_result and found.suffix.lower() not in READABLE_SUFFIXES and found.name not in READABLE_NAMES:
        raise PlaceRefusedError(
            f"{asked}: of the codebase only source code, settings and plain text are read"
        )
    if found.stat().st_size > LARGEST_BYTES:
        raise PlaceRefusedError(f"{asked} is too large to be read here; use search_log or metrics_summary")
    if b"\0" in _beginning(asked, found):
        raise PlaceRefusedError(f"{asked} is a binary file")


def _is_in_results(found: Path) -> bool:
    """Whether the file belongs to an experiment, such as an earlier one inside the codebase."""
    return any((folder / "journal.jsonl").exists() for folder in found.parents)


def _beginning(asked: str, found: Path) -> bytes:
    try:
        with found.open("rb") as file:
            return file.read(8192)
    except OSError as error:
        raise PlaceRefusedError(f"{asked} cannot be read: {error.strerror}") from error


def _refuse_special(asked: str, found: Path) -> None:
    """Anything but a plain file could block, or do something when it is opened."""
    try:
        mode = found.stat().st_mode
    except OSError as error:
        raise PlaceRefusedError(f"{asked} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise PlaceRefusedError(f"{asked} is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise PlaceRefusedError(f"{asked} is a device, pipe or socket, no file")
