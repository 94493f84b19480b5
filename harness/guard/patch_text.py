"""What a correction of code may not bring in, told from the file's text before and after it.

A net, not a wall: code that may be changed at all can do anything. It catches what would otherwise go the way
around config and environment: another learning rate in the code, a seed, a shorter loop, a number that is
printed differently, a program started, an address called. Python is judged by its syntax tree
(`patched_python`), other languages by patterns, which take time in proportion to the text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

from harness.config.keys import meaning, named_segments
from harness.guard import patched_python
from harness.guard.patched_python import Fact

_NAME = r"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,100})"
_TYPE = r"(?:[ \t]{0,8}:[\w\[\]., |]{1,60})?"
_WORD = r"""(?P<value>'[^'\n]{0,200}'|"[^"\n]{0,200}"|[^\s,;()\[\]{}'"]{1,200})"""
_SET = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_NAME}{_TYPE}[ \t]{{0,8}}=(?!=)[ \t]{{0,8}}(?P<value>[^,;\s][^,;\n]{{0,200}})",  # float lr = 1;
        rf"{_NAME}=(?P<value>[^\s,;)]{{1,200}})",  # LR=1 python train.py
        rf"{_NAME}['\"]?[ \t]{{0,8}}:[ \t]{{0,8}}{_WORD}",  # {"lr": 1}
        rf"['\"]{_NAME}['\"](?:\][ \t]{{0,8}}=|,)[ \t]{{0,8}}{_WORD}",  # args["lr"] = 1, setdefault("lr", 1)
        rf"(?<![\w-])--(?P<name>[A-Za-z_][\w.-]{{0,100}})[ \t=]{{1,8}}{_WORD}",  # train.py --lr 1
        r"['\"]--?(?P<name>[A-Za-z_][\w.-]{0,100})['\"][^\n]{0,200}?default[ \t]{0,8}=[ \t]{0,8}" + _WORD,
    )
)
_REACHES_OUT = re.compile(
    r"""subprocess|(?<![\w.])(?:eval|exec|compile|__import__)\s{0,8}\(|os\.(?:system|exec\w{0,8}|spawn\w{0,8}|popen
    |environ|getenv|putenv|remove|unlink|rmdir|kill|chmod|chown|symlink|link|rename)\b|\bpopen\b|importlib|ctypes
    |\bsocket\b|urllib|\brequests\b|httpx|aiohttp|http\.client|ftplib|smtplib|paramiko|shutil\.(?:rmtree|move|copy)
    |pickle|marshal|base64|codecs|\bgetattr\s{0,8}\(|__builtins__|globals\s{0,8}\(|sys\.(?:path|modules|exit)|atexit
    |signal\.|os\._exit|\.write_(?:text|bytes)\b|open\s{0,8}\([^)\n]{0,200},\s{0,8}(?:mode\s{0,8}=\s{0,8})?['"][rb]{0,2}[wax]
    |https?://|\b(?:curl|wget|nc|ssh|scp|rsync|chmod|sudo)\b|\brm\s{1,8}-|\|\s{0,8}(?:ba)?sh\b|/etc/|/proc/|~/
    |trust_remote_code|torch\.hub""",
    re.VERBOSE,
)
_EVERYDAY = frozenset(("key",))
"""Words that mean something in a config and nothing in code (`sort(key=…)`)."""


def refuse(before: str, after: str, protected: Iterable[str] = ()) -> str | None:
    """Why a file may not become `after`, or None. `protected`: config keys that stay as they are, whose last
    names are held in code too."""
    unseen = {char for char in after if not char.isprintable() and char not in "\n\t\r\f"} - set(before)
    if unseen:
        return "the new text holds characters that cannot be seen; write plain text"
    is_studied = _studied(protected)
    try:
        old = patched_python.facts(before, is_studied)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _refuse_text(before, after, is_studied)
    try:
        new = patched_python.facts(after, is_studied)
    except (SyntaxError, ValueError):
        return _refuse_text(before, after, is_studied)
    except (RecursionError, MemoryError):
        return "the new text is nested too deeply to be judged; write it in simple statements"
    return _refuse_facts(old, new)


def _refuse_facts(old: Counter[Fact], new: Counter[Fact]) -> str | None:
    gone, come = old - new, new - old
    differ = gone + come
    for fact in come:
        if fact.kind == "reach":
            return _reaching(fact.name)
    values = {fact.name for fact in differ if fact.kind == "value"}
    values |= {fact.name for fact in gone if fact.kind == "condition"}
    if values:
        return _setting(min(values))
    loops = {fact.name for fact in differ if fact.kind == "loop"}
    if loops:
        return (
            f"the patch changes how often a loop runs (`{min(loops)}`), which may be how long is trained or "
            "on what; correct the defect without it, or say in a note what a person should decide"
        )
    measured = {fact.name for fact in differ if fact.kind == "measured"}
    if measured:
        return (
            f"the patch changes what `{min(measured)}` tells of measured values; what is measured is told as "
            "the author wrote it"
        )
    return None


def _refuse_text(before: str, after: str, is_studied: Callable[[str], bool]) -> str | None:
    reached = Counter(_REACHES_OUT.findall(after)) - Counter(_REACHES_OUT.findall(before))
    if reached:
        return _reaching(next(iter(reached)).strip())
    old, new = _set_in(before, is_studied), _set_in(after, is_studied)
    differs = {name for name, _ in (old - new) + (new - old)}
    return _setting(min(differs)) if differs else None


def _set_in(code: str, is_studied: Callable[[str], bool]) -> Counter[tuple[str, str]]:
    """Names of what is studied that are given a value in the text, with that value."""
    found = ((match["name"], match["value"].strip()) for pattern in _SET for match in pattern.finditer(code))
    return Counter((name.split(".")[-1], value) for name, value in found if is_studied(name))


def _studied(protected: Iterable[str]) -> Callable[[str], bool]:
    held = {
        segments[-1] for key in protected if (segments := named_segments((key.strip().removesuffix(".*"),)))
    }

    @cache
    def is_studied(name: str) -> bool:
        last = (named_segments((name,)) or ("",))[-1]
        if not last or last in _EVERYDAY:
            return last in held
        return last in held or meaning(("code", last), is_ajet=False).role == "science"

    return is_studied


def _reaching(what: str) -> str:
    return (
        f"the new text brings in `{what}`: a correction starts no programs, calls no addresses and touches "
        "neither files nor variables; use set_environment for variables"
    )


def _setting(name: str) -> str:
    return (
        f"the patch changes the value of `{name}`, which belongs to what is studied and stays as "
        "the author wrote it; correct the defect without it, or say in a note what a person should decide"
    )
