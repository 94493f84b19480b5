"""Which files a policy may read and write, by their names. Pure: what a path leads to on the disk is
looked at in `agent/disk_access.py`, at the moment of acting.

Reading: the result folder, and source code and settings of the codebase. Writing code: what the
blueprint's [exp_code_changes] names. Private files are refused by name, wherever they lie.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from harness.blueprint.names import is_condition

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
LIBRARIES = frozenset(("site-packages", "dist-packages", "node_modules"))
_LONGEST = 500


def refuse_reading(path: str) -> str | None:
    """Why a file of this name may not be read, or None."""
    parts = Path(path).parts
    return refuse_wording(path) or refuse_names(path, parts[-1:] if Path(path).is_absolute() else parts)


def refuse_patching(path: str, allowed: Sequence[str]) -> str | None:
    """Why this file of the codebase may not be corrected, or None; `allowed`: the globs of
    [exp_code_changes]."""
    globs = [glob for glob in allowed if not is_condition(glob)]
    if not globs:
        return "the blueprint allows no code changes ([exp_code_changes]); repair by config or environment"
    if why := refuse_wording(path):
        return why
    if Path(path).is_absolute():
        return "give the path relative to the codebase"
    return refuse_names(path, Path(path).parts) or _refuse_patched_name(Path(path), globs)


def refuse_wording(path: str) -> str | None:
    """Why this text is no path that can be judged, or None."""
    if not path or len(path) > _LONGEST or not path.isprintable():
        return "this is no path: give plain text of one line, relative to the result folder or codebase"
    if path.startswith("~") or ".." in Path(path).parts or "\\" in path:
        return f"{path}: write the path without `~`, `..` and backslashes"
    return None


def refuse_names(asked: str, parts: Sequence[str]) -> str | None:
    """Why one of these names is not touched, or None."""
    private = next((part for part in parts if looks_private(part)), None)
    if private is None:
        return None
    return f"{asked}: {private} is hidden or looks as if it holds secrets, so it is not touched"


def _refuse_patched_name(path: Path, allowed: Sequence[str]) -> str | None:
    if path.suffix not in PATCHABLE_SUFFIXES:
        known = " ".join(sorted(PATCHABLE_SUFFIXES))
        return f"{path} is no source code ({known}); settings are changed with edit_config"
    if path.name in _STARTS_BY_ITSELF:
        return f"{path.name} is run by Python or its tools without being asked for, so it is not changed"
    if LIBRARIES & set(path.parts):
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
    """True if a path relative to the codebase matches a glob; `**` stands for any folders."""
    pattern = glob.strip().removeprefix("./")
    pattern += "**" if pattern.endswith("/") else ""
    return _matches(path.parts, tuple(part for part in pattern.split("/") if part))


def is_readable_source(path: Path) -> bool:
    """True for source code, settings and plain text, by its name."""
    return path.suffix.lower() in READABLE_SUFFIXES or path.name in READABLE_NAMES


def is_shown(path: Path) -> bool:
    """True for source that can be read, in no place that is private."""
    return is_readable_source(path) and not any(map(looks_private, path.parts))


def looks_private(name: str) -> bool:
    """True if a file or folder of this name is hidden or likely to hold secrets."""
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
    """True if the glob spells out the word for which this part of the path is held back."""
    named = {match.group().lower() for match in _RESULT_WORDS.finditer(glob)}
    return all(match.group().lower() in named for match in _RESULT_WORDS.finditer(part))
