"""What a heading names: one of the blueprint's sections, something like one, or nothing of ours."""

import difflib
import re
from dataclasses import dataclass

PURPOSE = "exp_purpose"
CODEBASE = "exp_codebase_dir"
VENV = "exp_venv_exe"
YAML = "exp_yaml_path"
COMMAND = "exp_launch_command"
RESULT = "exp_result_dir"
MAX_TIME = "exp_max_time"
METRICS = "exp_metrics"
PROTECTED = "exp_protected_keys"
CODE_CHANGES = "exp_code_changes"
UNATTENDED = "without asking"
"""In that section: the author wants no person to be asked before code is changed."""
NO_NETWORK = "no network"
"""There too: changed code is kept from the network."""
WRITABLE = "writable: "
"""There too, before a folder that changed code may write beside its own."""
READABLE = "readable: "
"""There too, before what changed code may read in a place that it does not see, as the home folder."""
PREPARE = "exp_prepare_command"
EVALUATE = "exp_evaluate_command"
CLEANUP = "exp_cleanup_command"
HOST = "exp_host"
NOTES = "notes"

REQUIRED = (PURPOSE, CODEBASE, VENV, YAML, COMMAND, RESULT, MAX_TIME)
SECTIONS = (*REQUIRED, METRICS, PROTECTED, CODE_CHANGES, PREPARE, EVALUATE, CLEANUP, HOST)
_BY_LETTERS = {name.replace("_", ""): name for name in SECTIONS}

_LEAD = re.compile(r"[^A-Za-z\[【]{0,16}")
_BRACKETED = re.compile(r"[\[【]\s*[*`]*\s*(?P<name>[A-Za-z][A-Za-z0-9_ -]*?)\s*[*`]*\s*[\]】]")
_KNOWN = "|".join(name.replace("_", "[_ -]?") for name in sorted(SECTIONS, key=len, reverse=True))
_BARE = re.compile(rf"(?P<name>(?:{_KNOWN})(?![A-Za-z0-9_])|exp_[A-Za-z0-9_]+)", re.IGNORECASE)
_NOTES = re.compile(
    r"(?P<name>(?:exp[_ ])?(?:other|additional|extra|further|free)[_ ]+(?:notes?|remarks?)"
    r"|(?:其他|其它|附加|补充|额外)(?:说明|备注|注意事项|事项|信息|内容)"
    r"|(?P<loose>(?:exp[_ ])?(?:notes?|remarks)|备注|附注|注意事项)(?=[\s*_`\]】]*(?:$|[:：(（])))"
    r"(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
_NUMBERING = re.compile(r"[\s*_`#|\d.)）、（(:：-]*(?:[一二三四五六七八九十]+[、.．])?[\s*_`\[【]*")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def is_condition(entry: str) -> bool:
    """True for an entry of that section that names no code but says how it may be changed."""
    return entry in (UNATTENDED, NO_NETWORK) or entry.startswith((WRITABLE, READABLE))


@dataclass(frozen=True)
class Title:
    """The name a line of text gives to what follows it."""

    name: str
    """One of `SECTIONS` or `NOTES`, or the unknown name as written."""
    known: bool
    remark: str
    """What stands after the name on the same line."""
    bracketed: bool = False
    bold: bool = False
    suggestion: str | None = None
    """For an unknown name: the section that was probably meant."""
    loose: bool = False
    """True for a word as common as `Notes:`, which opens a section only as a real heading."""


def read_title(text: str) -> Title | None:
    """The section that a heading (or a line used as one) opens; None for text that names no section.
    Understands brackets of both widths, numbering, bold, code, escaped brackets and trailing remarks."""
    text = _ESCAPE.sub(r"\1", text.strip())
    start = _end(_LEAD, text)
    bold = "**" in text[: start + 3] or "__" in text[: start + 3]
    if bracketed := _BRACKETED.match(text, start):
        return _title(bracketed, text, bracketed=True, bold=bold)
    if notes := _NOTES.match(text, _end(_NUMBERING, text)):
        return Title(NOTES, True, _remark(text[notes.end() :]), bold=bold, loose=notes["loose"] is not None)
    bare = _BARE.match(text, start)
    return _title(bare, text, bracketed=False, bold=bold) if bare else None


def read_heading(text: str) -> Title | None:
    """Like `read_title` for a real heading, where the bracketed name may also stand further back
    (`Purpose [exp_purpose]`) and a name without `exp_` is recognised as a slip."""
    if title := read_title(text):
        return title
    for found in _BRACKETED.finditer(_ESCAPE.sub(r"\1", text)):
        if _normal(found["name"]) in SECTIONS:
            return Title(_normal(found["name"]), True, _remark(text[found.end() :]), bracketed=True)
    plain = re.sub(r"[(（].*|[:：].*|[*`\]】]", "", text[_end(_NUMBERING, text) :])
    meant = "exp_" + _normal(plain)
    return Title(plain.strip(), False, "", suggestion=meant) if meant in SECTIONS else None


def _title(found: re.Match[str], text: str, *, bracketed: bool, bold: bool) -> Title | None:
    name = _normal(found["name"])
    remark = _remark(text[found.end() :])
    known = _BY_LETTERS.get(name.replace("_", ""))
    if not known and (_NOTES.fullmatch(name) or _NOTES.fullmatch(name.replace("_", " "))):
        known = NOTES
    if known:
        return Title(known, True, remark, bracketed, bold)
    if not name.startswith("exp_"):
        return None
    close = difflib.get_close_matches(name, SECTIONS, n=1, cutoff=0.6)
    return Title(found["name"], False, remark, bracketed, bold, close[0] if close else None)


def _normal(name: str) -> str:
    """`Exp-Launch Command` → `exp_launch_command`."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def _end(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return found.end() if found else 0


def _remark(rest: str) -> str:
    rest = rest.lstrip("]】")
    if rest.startswith(("**", "__", "`")):  # what opened before the name is closed here
        rest = rest.lstrip("*_`")
    rest = rest.strip()
    if rest.count("**") == 1:
        rest = rest.replace("**", "")
    return rest.strip(" |\t")
