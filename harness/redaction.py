"""Secrets out of text before it reaches a report, a prompt, a transcript or a notification.

Two nets: the shapes that keys of well-known services have, and values that stand behind a telling name
(`api_key: …`, `PASSWORD=…`, `Authorization: Bearer …`). Numbers, and names that only sound alike
(`eos_token`, `max_tokens`), are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "[redacted]"

_SHAPES = re.compile(
    r"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|rk|pk)-[A-Za-z0-9_-]{12,}
    | \b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{12,}
    | \b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bhf_[A-Za-z0-9]{20,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \bxapp-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    | \bpypi-[A-Za-z0-9_-]{20,}
    | \bnpm_[A-Za-z0-9]{20,}
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r"(?i)\b(bearer|basic)(\s+)(?!\[redacted\])[A-Za-z0-9._~+/=-]{8,}")
_URL_PASSWORD = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@]*):(?!\[redacted\])[^\s/@]+@")
_NAME = (
    r"[\w.-]*(?:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|private[_-]?key|secret[_-]?key|secret|token"
    r"|password|passwd|passphrase|credentials?|auth[_-]?key|cookie)"
)
_NAMED = re.compile(
    rf"""(?ix)
    (?P<name> (?<![\w.-]) {_NAME} )
    (?P<link> ["']? \s* (?:=>|:=|=|:) \s* | (?<=\w) [ \t]+ (?!\s) )
    (?P<value> \[redacted\] | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | [^\s,;&"'<>|}}\])]+ )
    """
)
_HARMLESS_NAME = re.compile(
    r"(?i)(?:eos|bos|pad|unk|sep|cls|mask|stop|start|end|next|prompt|completion|special|image|per|num|first"
    r"|last)[_-]?token$"
)
_HARMLESS_VALUE = re.compile(r"(?i)[-+]?[\d._]+(?:e[-+]?\d+)?|true|false|null|none|\$\{?\w+\}?|\[redacted\]")
_SECRET_NAME = re.compile(rf"(?i)^{_NAME}s?$")


def redact(text: str, known: Iterable[str] = ()) -> str:
    """The text with every secret replaced by `[redacted]`; applying it twice changes nothing more.

    `known` are secret values themselves (see `secret_values`), masked wherever they stand.
    """
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _SHAPES.sub(MASK, text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    return _NAMED.sub(_mask_value, text)


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of environment variables whose names say that they are secret."""
    return tuple(
        value
        for name, value in environment.items()
        if _SECRET_NAME.match(name) and len(value) >= 8 and not _HARMLESS_VALUE.fullmatch(value)
    )


def _mask_value(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    bare = value.strip("\"'")
    if match["link"].isspace() and not name.startswith("--"):
        return match[0]
    is_number = _HARMLESS_VALUE.fullmatch(bare) and not ("pass" in name.lower() and bare[:1].isdigit())
    if _HARMLESS_NAME.search(name) or not bare or is_number:
        return match[0]
    if bare.lower() in ("bearer", "basic"):  # the header's own rule has masked what follows
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{match['link']}{quote}{MASK}{quote}"
