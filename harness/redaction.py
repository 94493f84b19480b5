"""Secrets out of text before it leaves a run: reports, prompts, transcripts, notifications, the terminal.

Three nets: the shapes that keys of well-known services have; values that stand behind a telling name
(`api_key: …`, `PASSWORD=…`, `Authorization: Bearer …`); and `Secrets`, which are known themselves
(`harness.environment.known_secrets` has those of a run). Numbers, and names that only sound alike
(`eos_token`, `max_tokens`), are kept. Every pattern takes time in proportion to the text.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from monitors.launch import is_secret_name

MASK = "[redacted]"
SHORTEST = 6
"""Characters of a value that is masked wherever it stands; shorter ones stand in ordinary words."""
_MOST_PASSES = 4

_SHAPES = re.compile(
    r"""
      -----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY-----|\Z)
    | \b(?:sk|rk|pk)-(?:(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_-]{12,}|[A-Za-z0-9]{12,})
    | \b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{12,}
    | \b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \b(?:hf|npm|gsk|r8|sbp|ntn|rpa|wandb_v1|lin_api)_[A-Za-z0-9]{20,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \bxapp-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{30,}
    | (?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    | \bxai-[A-Za-z0-9]{20,}
    | \b(?:tvly|pplx)-[A-Za-z0-9-]{16,}
    | \b(?:pypi-|nvapi-|GOCSPX-|PMAK-|ya29\.|hvs\.|dckr_pat_|glsa_|lsv2_|pcsk_|shp(?:at|ca|pa|ss)_|whsec_)
        [A-Za-z0-9_-]{20,}
    | \bdop_v1_[a-f0-9]{40,}
    | \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
    | \bdapi[a-f0-9]{32}(?:-\d{1,3})?\b
    | (?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])
    | \b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}
    | \bhooks\.slack\.com/(?:services|workflows|triggers)/[^\s"'<>)]+
    | \bdiscord(?:app)?\.com/api/webhooks/[^\s"'<>)]+
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(
    r"(?i)\b(bearer|basic)(\s{1,20})(?!\[redacted\])(?=[A-Za-z._~+/=-]{0,500}[\d=])[A-Za-z0-9._~+/=-]{8,}"
)
_AUTHORIZATION = re.compile(
    r"""(?i)(authorization["']?[ \t]{0,9}[:=][ \t]{0,9}["']?)"""
    r"(?!(?:[a-z][a-z-]{0,20}[ \t]{1,9})?\[redacted\])((?:[a-z][a-z-]{0,20}[ \t]{1,9})?)"
    r"[A-Za-z0-9._~+/=-]{6,}"
)
_URL_PASSWORD = re.compile(
    r"(?i)([a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,300}):(?!\[redacted\])[^\s/\"'<>]{1,1000}@"
)
_URL_TOKEN = re.compile(r"(?i)(https?://)(?!\[redacted\])[^\s/:@\"'<>]{6,1000}@")
_SIGNED = re.compile(
    r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=)"
    r"(?!\[redacted\])[^\s&\"'<>]{6,2000}"
)
_LOGIN = re.compile(
    r"""(?ix)
    \b(?P<before> (?:wandb|swanlab|comet|neptune|clearml) [ \t]{1,9} login
        (?:[ \t]{1,9} --?[\w=:/.-]{1,80}){0,4} [ \t]{1,9}
      | login \( [ \t]{0,9} (?:\w{1,20} = (?:\w{1,20}|"[^"\n]{0,80}") [ \t]{0,9} , [ \t]{0,9}){0,3}
        (?:key[ \t]{0,9}=[ \t]{0,9})? ["'] )
    (?=[^\s"']{0,100}\d) [^\s"'\[-][^\s"']{7,1000}
    """
)
_USER = re.compile(r"""((?<=\s)(?:-u|--user)[ =]["']?[^\s:"']{1,100}:)(?!\[redacted\])([^\s"']{1,300})""")
_STRONG = (
    r"(?:api[_-]?keys?|apikeys?|access[_-]?keys?(?:[_-]?id)?|private[_-]?keys?|secret[_-]?keys?|secrets?|token"
    r"|(?:account|signing|encryption|master|storage)[_-]?keys?|pwd"
    r"|(?:api|access|auth|bearer|refresh|hf)[_-]?tokens|passwords?|passwd|passphrase|[_-]pass|credentials?"
    r"|auth[_-]?keys?|cookie)"
)
_NAME = rf"(?<![\w.-])[\w.-]*(?:{_STRONG}|keys?|auth|pat|pass)"
_STRONG_NAME = re.compile(rf"(?i){_STRONG}$")
_BLOCK = re.compile(
    rf"""(?imx)
    ^(?P<indent>[ \t]{{0,200}}) (?:-[ ]{{1,9}})? ["']? (?P<name>{_NAME}) ["']? [ \t]{{0,9}} : [ \t]{{0,9}}
    (?P<mark> [>|][-+\d]{{0,2}} )? [ \t]{{0,9}} (?:\#[^\n]*)? \n
    (?P<lines> (?:(?P=indent) (?(mark)[ \t]{{1,200}}|[ \t]{{0,200}}-[ ]) [^\n]* (?:\n|\Z))+ )
    """
)
_INDENT = re.compile(r"(?m)^(?![ \t]*(?:- )?\[redacted\]$)([ \t]*(?:- )?)\S[^\n]*")
_NAMED = re.compile(
    rf"""(?ix)
    (?P<name> {_NAME} )
    (?P<link> [ ]{{0,9}} : [ ]{{0,9}} (?:str(?:[ ]\|[ ]None)?|SecretStr|Optional\[str\]) [ ]{{0,9}} = [ ]?
      | ["']? [ \t]{{0,9}} \]? \s{{0,80}} (?:=>|:=|=(?!=)|:) \s{{0,80}}
      | ["'] [ \t]{{0,9}} , [ \t]{{0,9}} (?=["'])
      | (?<=\w) [ \t]{{1,20}} (?!\s) )
    (?P<value> \[redacted\] | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \[[^\]\n]{{1,2000}}\]
      | \([ \t]{{0,9}}["'][^)\n]{{1,2000}}\) | [^\s,;&"'<>|}}\])]+ )
    """
)
_HARMLESS_NAME = re.compile(
    r"(?i)(?:eos|bos|pad|unk|sep|cls|mask|stop|start|end|next|prev|prompt|completion|special|image|video|audio"
    r"|vision|tool|eot|per|num|first|last)[_-]?token$|(?:one|two|first|second|multi|single|by)[_-]pass$"
)
_HARMLESS_VALUE = re.compile(
    r"(?i)[-+]?[\d._]+(?:e[-+]?\d+)?|true|false|null|none|str|bool|int|bytes|\$\{?\w+\}?|\[redacted\]|\[[\d\s,.]*\]"
    r"|os\.(?:environ|getenv)\b.*"
)
_CAMEL = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_INSIDE = re.compile(r"(?i)(?:://[^\s/:@]*:([^\s/]+)@|(?:password|pwd|key|secret|token)\s*=\s*([^;\s]+))")
_RANDOM = re.compile(r"(?=(?:[^\d]*\d){2})(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=-]{12,}")
_WORDS_OF_KEYS = re.compile(r"[A-Za-z0-9+/=-]+")
_VARIABLE = re.compile(r"[A-Z0-9]+_[A-Z0-9_]+=[^\s()\[\]{}]{6,}")
_WORDS_OR_CODE = re.compile(r"[a-z]+(?:-[a-z]+)*|[A-Za-z_][\w.]*[\[(].*")  # `per token: length-normalised`
_YES_OR_NO = re.compile(r"(?i)|true|false|yes|no|on|off|none|null")
_FILE = re.compile(r"(?:/[\w.@-]+){2,}/?")
WORD = re.compile(r"(?=.{6,15}\Z)(?:[A-Z]?[a-z]+(?:[._/][a-z]+)*|[A-Z]+(?:_[A-Z]+)*)")
"""A plain word, or a name of such (`val_loss`, `report.html`), as any text may hold: such a secret is masked
behind a telling name alone."""


@dataclass(frozen=True)
class Memory:
    """Secrets of which only the lengths and keyed digests are known: enough to know them again where they
    stand whole, with no letter, digit or underscore directly before or after them.

    `salt`: hexadecimal, random, of one run; `digests`: with the length in characters of each. Whoever reads
    both cannot compute a random key from them, nor see that two runs had the same; a password that can be
    guessed can be found by trying, as with any digest (a slow one would not do: every word that is shown is
    digested). So they are kept where only the owner reads.
    """

    salt: str
    digests: frozenset[tuple[int, str]]

    @cached_property
    def _lengths(self) -> list[int]:
        return sorted({length for length, _ in self.digests}, reverse=True)

    @cached_property
    def _keyed(self) -> hashlib.blake2b:
        return hashlib.blake2b(key=bytes.fromhex(self.salt), digest_size=16)

    def digest(self, value: str) -> tuple[int, str]:
        """How a value would be remembered here."""
        keyed = self._keyed.copy()
        keyed.update(value.encode("utf-8", "surrogatepass"))
        return len(value), keyed.hexdigest()

    def masked(self, text: str) -> str:
        """The text with these secrets masked; the longest first where several begin at one place."""
        if not self.digests or len(text) < self._lengths[-1]:
            return text
        ends, kept, at = {found.end() for found in _TOKEN_ENDS.finditer(text)}, [], 0
        others: set[str] = set()  # logs repeat themselves, and rulers of one character most of all
        for found in _TOKEN_BEGINS.finditer(text):
            start = found.start()
            lengths = (length for length in self._lengths if start >= at and start + length in ends)
            for length in lengths:
                piece = text[start : start + length]
                if piece not in others and self.digest(piece) in self.digests:
                    kept.append(text[at:start])
                    at = start + length
                    break
                others.add(piece)
        return MASK.join([*kept, text[at:]])


_TOKEN_BEGINS, _TOKEN_ENDS = re.compile(r"\b\w|[^\w\s]"), re.compile(r"\w\b|[^\w\s]")


@dataclass(frozen=True)
class Secrets:
    """Secrets that are masked wherever they stand: `values` in clear, and `memories` of others."""

    values: tuple[str, ...] = ()
    memories: tuple[Memory, ...] = ()

    def masked(self, text: str) -> str:
        for secret in sorted(filter(None, self.values), key=len, reverse=True):
            text = text.replace(secret, MASK)
        for memory in self.memories:
            text = memory.masked(text)
        return text


NO_SECRETS = Secrets()


def redact(text: str, known: Secrets = NO_SECRETS) -> str:
    """The text with every secret replaced by `[redacted]`; applying it twice changes nothing more."""
    text = known.masked(text)
    for _ in range(_MOST_PASSES):  # a mask can bring a name and a value together
        masked = _masked(text)
        if masked == text:
            break
        text = masked
    return text


def redact_diff(text: str, known: Secrets = NO_SECRETS) -> str:
    """A unified diff redacted for a person who judges it, so that nothing hides behind a telling name: of
    added lines only known secrets are masked, and keys that stood in the removed lines."""
    lines = text.split("\n")
    removed = "\n".join(line for line in lines if line.startswith("-"))
    kept = set(_WORDS_OF_KEYS.findall(redact(removed, known)))
    held = {word for word in _WORDS_OF_KEYS.findall(removed) if _RANDOM.fullmatch(word) and word not in kept}
    of_added = Secrets((*known.values, *held), known.memories)
    return "\n".join(
        of_added.masked("\n".join(part)) if is_added else redact("\n".join(part), known)
        for is_added, part in groupby(lines, key=lambda line: line.startswith("+"))
    )


def _masked(text: str) -> str:
    text = _SHAPES.sub(MASK, text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _AUTHORIZATION.sub(rf"\1\2{MASK}", text)
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _URL_TOKEN.sub(rf"\1{MASK}@", text)
    text = _SIGNED.sub(rf"\1{MASK}", text)
    text = _LOGIN.sub(rf"\g<before>{MASK}", text)
    if "curl" in text:
        text = _USER.sub(lambda found: found[0] if found[2].isdigit() else f"{found[1]}{MASK}", text)
    text = _BLOCK.sub(_mask_block, text)
    return _NAMED.sub(_mask_value, text)


def is_secret(name: str, value: str) -> bool:
    """True if an environment variable holds a secret: its name or its value says so. What only names a file,
    or says yes or no, is none."""
    is_named = is_secret_name(name) or _STRONG_NAME.search(name)
    if is_named and not _HARMLESS_NAME.search(name):
        return not (_FILE.fullmatch(value) or _YES_OR_NO.fullmatch(value))
    return redact(value) != value


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the secrets among these variables would print: their values, each line of those that have several,
    and the passwords in addresses and connection strings. No numbers, no words, nothing short."""
    secrets = (value for name, value in environment.items() if is_secret(name, value))
    return tuple(dict.fromkeys(part for value in secrets for part in parts(value)))


def parts(secret: str) -> tuple[str, ...]:
    """The texts by which a secret is known again."""
    inside = (found[1] or found[2] for found in _INSIDE.finditer(secret))
    texts = dict.fromkeys(map(str.strip, (secret, *secret.splitlines(), *inside)))
    common = (_HARMLESS_VALUE, _FILE, WORD)
    return tuple(
        each for each in texts if len(each) >= SHORTEST and not any(kind.fullmatch(each) for kind in common)
    )


def _mask_value(match: re.Match[str]) -> str:
    name, link, value = match["name"], match["link"], match["value"]
    bare = value.strip("\"'")
    if link.isspace() and not name.startswith("--"):
        return match[0]
    if "\n" in link and (value.endswith(":") or value == "-"):  # a mapping or list of its own
        return match[0]
    is_number = _HARMLESS_VALUE.fullmatch(bare) and not ("pass" in name.lower() and bare[:1].isdigit())
    if not bare or is_number or not _is_secret(name, bare, certain="," not in link):
        return match[0]
    if bare.lower() in ("bearer", "basic"):  # the header's own rule has masked what follows
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{link}{quote}{MASK}{quote}"


def _is_secret(name: str, value: str, certain: bool = True) -> bool:
    """True if a value behind this name is a secret. Some names say so; others, as `AZURE_KEY` and `sort_key`,
    only together with how they are written or what stands behind them."""
    name = _CAMEL.sub("_", name)
    if _HARMLESS_NAME.search(name) or (name.lower().endswith("pwd") and value[0] in "/~"):
        return False
    if certain and _STRONG_NAME.search(name):
        return not (name.lower() in ("token", "tokens") and _WORDS_OR_CODE.fullmatch(value))
    last = re.split(r"[.-]", name)[-1]
    if not is_secret_name(last) and not _STRONG_NAME.search(name):
        return False
    return bool(_RANDOM.fullmatch(value)) or (certain and bool(_VARIABLE.fullmatch(f"{last}={value}")))


def _mask_block(match: re.Match[str]) -> str:
    """Every line of a YAML block scalar or list behind a telling name, one for one."""
    if _HARMLESS_NAME.search(match["name"]) or not _STRONG_NAME.search(match["name"]):
        return match[0]
    return match[0][: match.start("lines") - match.start()] + _INDENT.sub(rf"\1{MASK}", match["lines"])


def redact_keys(text: str, known: Secrets = NO_SECRETS) -> str:
    """The text with known secrets and key shapes masked and nothing else: for what a model decides and code
    then carries out, where a telling name in front of a value is no evidence. Known values are found in the
    form that JSON gives them, too."""
    quoted = (
        json.dumps(secret, ensure_ascii=ascii)[1:-1] for secret in known.values for ascii in (True, False)
    )
    return _SHAPES.sub(MASK, Secrets((*known.values, *quoted), known.memories).masked(text))
