"""How severe a line is that is part of no traceback: of shells, kernels, schedulers, C++ and loggers.

What is searched for anywhere in a line is an RE2 expression: with so many alternatives `re` takes a hundred
times as long.
"""

import re

import re2

from harness.diagnosis.types import FAULTS, Level
from monitors.log_prefixes import Said

_FATAL = re2.compile(
    r"^(?:Killed|Terminated|Aborted|Bus error|Segmentation fault|Illegal instruction|Floating point exc\w+)"
    r"(?:\s*$|\s*[(:.,])"
    r"|\(core dumped\)"
    r"|^(?:\S+: )*line \d+:\s+\d+ (?:Killed|Terminated|Aborted|Segmentation|Bus|Illegal|Floating)"  # bash
    r"|^(?:\[\d+\])?\s*\d+ (?:killed|abort|segmentation fault|bus error)\b"  # zsh
    r"|\bterminate called (?:after|without)|\bterminating (?:due to|with) uncaught"
    r"|[Oo]ut of memory: Kill|[Mm]emory cgroup out of memory"
    r"|oom-kill:|oom_reaper:|OOMKilled|invoked oom-killer"
    r"|\bFatal Python error\b|^Fatal error\b"
    r"|\*\*\* (?:Aborted at|SIG[A-Z]+ |Process received signal)"
    r"|\b[Cc]heck fail(?:ed|ure)[: ]|\bAssertion [`'(].{0,200}failed"
    r"|double free|\bmalloc\(\)|stack smashing|corrupted (?:size|double)"
    r"|\bCANCELLED AT\b|\bDUE TO (?:TIME LIMIT|PREEMPTION)\b"
    r"|general protection fault|\bsegfault at\b|\btraps: "
    r"|\bXid \(PCI"
)
_ERROR = re2.compile(
    r"^(?:[\w./\-\[\]]+(?: [\w-]+)?: )?(?:(?:fatal|internal|import|runtime|usage|syntax) )?"
    r"(?i:error|fatal|panic)\b\s*[:!]\s*\S"
    r"|^\W*ERROR\b"
    r"|^(?:Failed|Cannot|Can't|Could not|Couldn't|Unable|Error|Aborting|Exception|Missing|Invalid) \w"
    r"|^[\w./-]+: (?:can't|cannot|could not|couldn't|unable to|failed to) "
    r"|: (?:command not found|Permission denied|No such file or directory|cannot execute|not found)\W*$"
    r"|: (?:Is a directory|No space left on device|Disk quota exceeded|Input/output error)\W*$"
    r"|: (?:Connection refused|Read-only file system|Exec format error|Argument list too long)\W*$"
    r"|: (?:Cannot allocate memory|Resource temporarily unavailable|Device or resource busy)\W*$"
    r"|\bNCCL WARN\b"
    r"|undefined symbol:|cannot open shared object file|while loading shared libraries"
    r"|\b(?:exit(?:ed|s|ing)?|terminated|died|finished|failed)\b.{0,40}"
    r"\b(?:exit ?code|return code|code|status|signal)\W{0,3}(?:= ?)?-?[1-9]\d*\b"
    r"|\bexitcode\s*[:=] *-?[1-9]"
)
_HANDLED = re2.compile(
    r"(?i)\bretrying\b|\bre-?try(?:ing)? (?:in|after)\b|\bwill (?:be )?re-?tr(?:y|ied)\b"
    r"|\b(?:try|trying|tried|tries) again\b"
    r"|\b(?:falling|falls?) back\b|\bfallback to\b|\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b"
    r"|\bcontinuing (?:without|anyway|with)\b|\bre-?connecting\b|\brecovered\b|\bnon-fatal\b"
    r"|\busing (?:the )?defaults?\b|\b(?:entering|starting) (?:a )?re-?try loop\b"
    r"|\balready (?:gone|removed|deleted)\b"
)
_OVER = re2.compile(
    r"(?i)\b(?:succeeded|recovered|resolved|reconnected|worked)\b|\bresum(?:ing|ed) normal\b|\bretrying in\b"
)
_OUTPUT = re.compile(
    r"^\[(?:\w+[ _-])?(?:sandbox|tool|prompt|response|std(?:err|out)|output|generated|completion|answer)"
    r"(?:[ _-]\w+)?\]",
    re.IGNORECASE,
)
_ROW = re.compile(
    r"^\s*> |^(?:prompt|completion|generation|question|instruction|sample|ground.?truth)s?(?: #?\d+)?: "
    r'|^\{(?:.{0,60}, )?"(?:prompts?|messages|response|completion|question|instruction|text)": ?["\[]',
    re.IGNORECASE,
)
_ATTEMPT = re2.compile(r"(?i)\b(?:attempt|retry|try)\s*#?\(?(\d+)\s*(?:/|of|out of)\s*(\d+)")
_GAVE_UP = re2.compile(
    r"(?i)\b(?:giving|gave) up\b|\bno (?:more )?retries\b|\bnot retrying\b|\b(?:cannot|can't) be ignored\b"
)
ALONE = re.compile(
    r"^(?:Killed|Terminated|Aborted)\s*$|^(?:\S+: )*line \d+:\s+\d+ |core dumped\)|[Oo]ut of memory: Kill"
    r"|oom-kill:|CANCELLED AT|Xid \(PCI"
)
STACK_LINE = re.compile(
    r"^\s*(?:frame #\d+: |#\d+ +0x|@ +0x|\[bt\]|\[0x|what\(\): |Exception raised from |PC: @|/\S+\.so\S*\()"
)


def is_quoted(text: str) -> bool:
    """True if a line shows what a program in a sandbox, a tool or a model has said, or a row of a dataset."""
    return opens_output(text) or _ROW.match(text) is not None


def opens_output(text: str) -> bool:
    """True if that goes on in the lines below."""
    return _OUTPUT.match(text) is not None


def severity(said: Said) -> Level:
    """How severe a line is that is no exception: "" where it only says what it does."""
    if is_quoted(said.text) or "NCCL INFO" in said.text or said.level == "info":
        return "info"
    if _FATAL.search(said.text):
        return "fatal"
    if said.level in FAULTS:
        return said.level
    if said.level == "" and _ERROR.search(said.text):
        return "error"
    return said.level


def is_handled(text: str) -> bool:
    """True if a line says that the failure was got over: tried again, ignored, replaced."""
    if _GAVE_UP.search(text):
        return False
    if attempt := _ATTEMPT.search(text):
        return int(attempt[1][:9]) < int(attempt[2][:9])
    return _HANDLED.search(text) is not None


def is_over(text: str) -> bool:
    """True if a line says that what stands right above it has passed."""
    return _OVER.search(text) is not None and _GAVE_UP.search(text) is None
