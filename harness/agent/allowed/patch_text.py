"""What a correction of code may not bring in, told from the file's text before and after it.

A net, not a wall: code that may be changed at all can do anything. It catches what would otherwise go the way
around config and environment: another learning rate in the code, a program started, an address called.
"""

import re
from collections import Counter

from harness.agent.allowed.config_keys import meaning

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+)"
_LITERAL = rf"""(?P<value>{_NUMBER}|'[^'\n]*'|"[^"\n]*"|(?i:true|false|none)\b)"""
_NAME = r"(?P<name>[A-Za-z_][\w.-]*)"
_SET = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_NAME}\s*(?::\s*[\w\[\]., |]+?)?\s*=(?!=)\s*{_LITERAL}",  # lr = 1, f(lr=1), lr: float = 1
        rf"['\"]?{_NAME}['\"]?\s*:\s*{_LITERAL}",  # {"lr": 1}
        rf"['\"]{_NAME}['\"]\s*(?:\]\s*=|,)\s*{_LITERAL}",  # args["lr"] = 1, setdefault("lr", 1)
        rf"--{_NAME}[\s=]+{_LITERAL}",  # train.py --lr 1
        rf"['\"]--?{_NAME}['\"][^\n]*?default\s*=\s*{_LITERAL}",  # add_argument("--lr", default=1)
    )
)
_REACHES_OUT = re.compile(
    r"""subprocess|(?<![\w.])(?:eval|exec|compile|__import__)\s*\(|os\.(?:system|exec\w*|spawn\w*|popen|environ|getenv
    |putenv|remove|unlink|rmdir|kill|chmod|chown|symlink|link|rename)\b|\bpopen\b|importlib|ctypes|\bsocket\b|urllib
    |\brequests\b|httpx|aiohttp|http\.client|ftplib|smtplib|paramiko|shutil\.(?:rmtree|move|copy\w*)|pickle|marshal
    |base64|codecs|\bgetattr\s*\(|__builtins__|globals\s*\(|sys\.(?:path|modules|exit)|atexit|signal\.|os\._exit
    |\.write_(?:text|bytes)\b|open\s*\([^)\n]*,\s*(?:mode\s*=\s*)?['"][rb]*[wax]|https?://|\b(?:curl|wget|nc|ssh|scp|rsync
    |chmod|sudo)\b|\brm\s+-|\|\s*(?:ba)?sh\b|/etc/|/proc/|~/|trust_remote_code|torch\.hub""",
    re.VERBOSE,
)


def refuse(before: str, after: str) -> str | None:
    """Why a file may not become `after`, or None."""
    unseen = {char for char in after if not char.isprintable() and char not in "\n\t\r\f"} - set(before)
    if unseen:
        return "the new text holds characters that cannot be seen; write plain text"
    reached = Counter(_REACHES_OUT.findall(after)) - Counter(_REACHES_OUT.findall(before))
    if reached:
        return (
            f"the new text brings in `{next(iter(reached)).strip()}`: a correction starts no programs, calls "
            "no addresses and touches neither files nor variables; use set_environment for variables"
        )
    old, new = _science_set(before), _science_set(after)
    differs = {name for name, _ in (old - new) + (new - old)}
    if differs:
        return (
            f"the patch changes the value of `{min(differs)}`, which belongs to what is studied and stays as "
            "the author wrote it; correct the defect without it, or say in a note what a person should decide"
        )
    return None


def _science_set(code: str) -> Counter[tuple[str, str]]:
    """Names of science that are given a literal value in the code, with that value."""
    found = ((match["name"], match["value"]) for pattern in _SET for match in pattern.finditer(code))
    last = ((name.split(".")[-1], value) for name, value in found)
    return Counter((name, value) for name, value in last if _is_science(name))


def _is_science(name: str) -> bool:
    return meaning(("code", name), is_ajet=False).role == "science"
