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
PREPARE = "exp_prepare_command"
CLEANUP = "exp_cleanup_command"
HOST = "exp_host"
NOTES = "notes"

REQUIRED = (PURPOSE, CODEBASE, VENV, YAML, COMMAND, RESULT, MAX_TIME)
OPTIONAL = (METRICS, PROTECTED, CODE_CHANGES, PREPARE, CLEANUP, HOST)
SECTIONS = (*REQUIRED, *OPTIONAL)

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


@dataclass(frozen=True)
class Title:
    """The name a line of text gives to what follows it."""

    name: str
    """One of `SECTIONS` or `NOTES`, or the unknown name as written."""
    known: bool
    remark: str
    """What stands after the name on the same line."""
    bracketed: bool
    bold: bool
    suggestion: str | None = None
    """For an unknown name: the section that was probably meant."""
    loose: bool = False
    """True for a word as common as `Notes:`, which opens a section only as a real heading."""


def normalise(name: str) -> str:
    """`Exp-Launch Command` → `exp_launch_command`."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def read_title(text: str) -> Title | None:
    """The section that a heading (or a line used as one) opens; None for text that names no section.

    Understands brackets of both widths, numbering, bold, code, escaped brackets and trailing remarks.
    """
    text = _ESCAPE.sub(r"\1", text.strip())
    lead = _LEAD.match(text)
    start = lead.end() if lead else 0
    bold = "**" in text[: start + 3] or "__" in text[: start + 3]
    bracketed = _BRACKETED.match(text, start)
    if bracketed:
        return _title(bracketed, text, bracketed=True, bold=bold)
    numbering = _NUMBERING.match(text)
    notes = _NOTES.match(text, numbering.end() if numbering else 0)
    if notes:
        remark = _remark(text[notes.end() :])
        return Title(NOTES, True, remark, False, bold, loose=notes["loose"] is not None)
    bare = _BARE.match(text, start)
    return _title(bare, text, bracketed=False, bold=bold) if bare else None


def read_heading(text: str) -> Title | None:
    """Like `read_title` for a real heading, where the bracketed name may also stand further back
    (`Purpose [exp_purpose]`) and a name without `exp_` is recognised as a slip."""
    title = read_title(text)
    if title:
        return title
    for found in _BRACKETED.finditer(_ESCAPE.sub(r"\1", text)):
        if normalise(found["name"]) in SECTIONS:
            return Title(normalise(found["name"]), True, _remark(text[found.end() :]), True, False)
    numbering = _NUMBERING.match(text)
    plain = re.sub(r"[(（].*|[:：].*|[*`\]】]", "", text[numbering.end() if numbering else 0 :])
    meant = "exp_" + normalise(plain)
    if meant in SECTIONS:
        return Title(plain.strip(), False, "", False, False, suggestion=meant)
    return None


def suggest(name: str) -> str | None:
    """The section whose name is closest to a misspelt one; None when nothing is close."""
    close = difflib.get_close_matches(normalise(name), SECTIONS, n=1, cutoff=0.6)
    return close[0] if close else None


def _title(found: re.Match[str], text: str, *, bracketed: bool, bold: bool) -> Title | None:
    name = normalise(found["name"])
    known = {n.replace("_", ""): n for n in SECTIONS}.get(name.replace("_", ""))
    remark = _remark(text[found.end() :])
    if known:
        return Title(known, True, remark, bracketed, bold)
    if _NOTES.fullmatch(name) or _NOTES.fullmatch(name.replace("_", " ")):
        return Title(NOTES, True, remark, bracketed, bold)
    if name.startswith("exp_"):
        return Title(found["name"], False, remark, bracketed, bold, suggestion=suggest(name))
    return None


def _remark(rest: str) -> str:
    rest = rest.strip().lstrip("]】").strip()
    if rest.startswith(("**", "__", "`")):
        rest = rest.lstrip("*_`").strip()
    if rest.count("**") == 1:
        rest = rest.replace("**", "")
    return rest.strip(" |\t")
