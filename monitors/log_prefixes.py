"""What stands before a message in a log line: who printed it, when, and how severe it is.

Prefixes may be nested: a container's, Ray's, a rank's, a logger's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from monitors.json_records import JsonRecord, json_record

Level = Literal["", "info", "warning", "error", "fatal"]

MOST_PREFIXES = 8
LATEST_LINES = 256  # a line's prefix is asked for by several readers

_WORDS: dict[Level, str] = {
    "info": "trace debug info information notice success",
    "warning": "warn warning",
    "error": "err error severe",
    "fatal": "fatal critical crit panic emerg",
}
_LEVELS = {word: level for level, words in _WORDS.items() for word in words.split()}
_LETTERS: dict[str, Level] = {"I": "info", "W": "warning", "E": "error", "F": "fatal", "C": "fatal"}
_LEVEL = "(?P<level>" + "|".join(sorted(_LEVELS, key=len, reverse=True)) + ")"
_SHOUTED = "(?P<level>" + "|".join(sorted(map(str.upper, _LEVELS), key=len, reverse=True)) + ")"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_STAMP = (
    rf"(?:\d{{4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    rf"|\d\d[-/]\d\d(?:[-/]\d\d(?:\d\d)?)? {_CLOCK}"
    rf"|(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} [ \d]?\d (?:\d{{4}} )?{_CLOCK}(?: \d{{4}})?"
    rf"|{_CLOCK})"
)
_PLACE = r"[\w.<>/-]+(?::[\w.<>]+)?(?::\d+)?"

REPEATED = re.compile(r"\[repeated \d+x across cluster\].*$")
RAY = re.compile(
    r"^\s*\((?P<name>[A-Za-z_][\w.:<>-]*) (?P<id>(?:(?:pid|ip|rank|node|index)=[^()\s,]+[, ]*)+)\) ?"
    r"|^\s*\((?P<service>raylet|gcs_server|autoscaler|dashboard|pid=\d+)\b[^()]{0,60}\) ?"
)
_RANK = re.compile(r"\s*\[(?:rank|default|RANK ?|\d{1,3},)(?P<rank>\d+)\](?:<std(?:err|out)>)?:? ?")
_TASK = re.compile(r"(?P<rank>\d{1,5}): (?=\S|\s{2,})")
_MACHINE = re.compile(  # pdsh's, in front of a traceback only: other programs name themselves like this
    r"(?P<host>[a-z][\w.-]*\d[\w.-]*): (?=Traceback \(| {2,}\S|[A-Z]\w*(?:Error|Exception)\b)"
)
_CONTAINER = re.compile(r"(?P<name>[a-z][\w.-]*?[-_]\d+)\s*\| ?")
_RUNTIME = re.compile(rf"{_STAMP} std(?:out|err) [FP] ")  # Kubernetes' logs of containers
_POD = re.compile(r"\[pod/(?P<name>[\w.-]+)/[\w.-]+\] ?")
_SYSTEM = re.compile(
    rf"(?:<\d+>)?{_STAMP} \w[\w.-]* (?!(?i:{_LEVEL})\b)(?P<name>[\w./@-]+?)(?:\[\d+\])?: "
    r"(?:\[\s*\d+\.\d{6}\] )?"
)
_KERNEL = re.compile(r"\[\s*\d{1,10}\.\d{6}\](?:\[\s*[TC]\d+\])? ?")
_HOST = re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):(?P<tid>\d+) \[(?P<device>\d+)\] ")
_GLOG_HEAD = re.compile(
    rf"\[?(?P<letter>[IWEF])(?:\d{{4}}|\d{{8}}|\d{{4}}-?\d\d-?\d\d)? {_CLOCK}\s+\d+\s+"
    r"(?P<place>[\w./-]+:\d+)\] ?"
)
_RAY_CPP = re.compile(
    rf"\[{_STAMP} (?P<letter>[IWEFC]) \d+ \d+\] (?:\((?P<who>[\w-]+)\) )?(?P<place>[\w./-]+:\d+): "
)
_TORCH_CPP = re.compile(rf"\[(?P<letter>[IWEF])\d{{3,4}} {_CLOCK} (?P<place>[\w./-]+:\d+)\] ?")
_LOGURU = re.compile(rf"{_STAMP} \| {_LEVEL}\s*\| (?P<place>\S+?) - ", re.IGNORECASE)
_VLLM = re.compile(rf"{_LEVEL} {_STAMP}(?: \[?(?P<place>[^\[\]\s]+)\])?[ :]?", re.IGNORECASE)
_HF = re.compile(rf"\[{_LEVEL}\|(?P<place>[^\[\]]+)\] {_STAMP} >> ", re.IGNORECASE)
_UVICORN = re.compile(r"(?P<level>(?=.{9} \S)(?:INFO|ERROR|DEBUG|WARNING|CRITICAL)):(?P<place>) {1,6}(?=\S)")
_PYTHON = re.compile(r"(?P<level>(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)):(?P<place>[\w.]+):")
_INDENTED = ("(", "[")
"""How the prefixes begin that spaces may stand before."""
_HEADS = (_GLOG_HEAD, _TORCH_CPP, _RAY_CPP, _LOGURU, _VLLM, _HF, _UVICORN, _PYTHON)
_STAMP_HEAD = re.compile(rf"\[?(?P<stamp>{_STAMP})\]?(?:\s*[-:|,]\s*|\s*)")
_BRACKET = re.compile(r"\[(?P<name>[\w.:/<>|, -]{1,120})\](?:\s*[-:|]+\s*|\s?)")
_LEVEL_HEAD = re.compile(rf"\[?{_LEVEL}\b\]?(?P<after>\s*(?:[:|]|-{{1,2}}(?=\s))\s?|\s+|$)", re.IGNORECASE)
_NAME_THEN_LEVEL = re.compile(
    rf"(?!NCCL )(?P<place>{_PLACE})(?:\[\d+\])?\s+(?:[-|:]\s+)?\[?(?={_SHOUTED}"
    r"\b\]?(?:\s*[-:|\]]|\s))"
)
_RAY_PLACE = re.compile(r"(?P<place>[\w./-]+\.(?:py|cc|cpp|go|rs|java):\d+)(?:\s+--\s+|\]?:?\s+)")
_DASH_NAME = re.compile(rf"(?P<place>{_PLACE})(?:\s+-\s+|\s*\|\s+)")


@dataclass(frozen=True)
class Said:
    """What a line says. `source`: who said it; `is_record`: it begins a log record, whose `head` names the
    logger, level and place in the code. `trace`: the lines of a traceback that stands in a record of JSON."""

    text: str
    source: str = ""
    level: Level = ""
    is_record: bool = False
    head: str = ""
    trace: tuple[str, ...] = ()


@lru_cache(LATEST_LINES)
def said(text: str) -> Said:
    """Part a line's message from what stands before it."""
    line = _Reading(text)
    for _ in range(MOST_PREFIXES):
        if not line.may_have_a_prefix or not (line.take_source() or line.take_head()):
            break
    source = ", ".join(filter(None, line.sources))
    if (record := json_record(line.rest)) is not None:
        return _of_json(record, source)
    return Said(line.rest, source, line.level, line.is_record, " ".join(line.head))


def _of_json(record: JsonRecord, source: str) -> Said:
    if record.wrapped:
        inner = said(record.message)
        return replace(inner, source=", ".join(filter(None, (source, inner.source))))
    level = _LEVELS.get(record.level.lower(), "")
    source = ", ".join(filter(None, (source, record.rank)))
    return Said(record.message, source, level, True, f"{level} {record.logger}".strip(), record.trace)


class _Reading:
    """Takes one prefix after the other off a line."""

    def __init__(self, text: str) -> None:
        self.rest = REPEATED.sub("", text).rstrip() if "[repeated " in text else text
        self.sources: list[str] = []
        self.level: Level = ""
        self.head: list[str] = []
        self.is_record = False

    @property
    def may_have_a_prefix(self) -> bool:
        return not self.rest[:1].isspace() or self.rest.lstrip()[:1] in _INDENTED

    def take_source(self) -> bool:
        first = self.rest.lstrip()[:1]
        for pattern, signs, name in _SOURCES:
            if signs and first not in signs:
                continue
            if found := pattern.match(self.rest):
                self.rest = self.rest[found.end() :]
                self.sources.append(name(found))
                self.is_record = self.is_record or pattern in (_SYSTEM, _KERNEL)
                return True
        return False

    def take_head(self) -> bool:
        """Take what a logger puts before a message: time, level, name of the logger, place in the code."""
        rest = self.rest
        if self.is_record or not rest or rest[0].isspace():
            return False
        for pattern in _HEADS:
            if found := pattern.match(rest):
                return self._record(_level(found), found["place"] or "", rest[found.end() :])
        if found := _STAMP_HEAD.match(rest):
            return self._details(rest[found.end() :].removeprefix("- "))
        if found := _level_head(rest):
            shouted = found["level"].isupper() or rest[0] == "["
            return self._record(_level(found), "", rest[found.end() :] if shouted else rest)
        if rest[0] == "[" and (found := _BRACKET.match(rest)):
            name, after = found["name"], rest[found.end() :]
            if level := _LEVEL_HEAD.match(name):
                return self._record(_level(level), name[level.end() :], after)
            if stamped := _STAMP_HEAD.match(name):
                return self._details(f"{name[stamped.end() :]} {after}".lstrip())
            if after[:1] == "[" or _level_head(after):
                return self._details(rest)
        if found := _NAME_THEN_LEVEL.match(rest):
            after = rest[found.end() :]
            level = _LEVEL_HEAD.match(after)
            after = after[level.end() :].removeprefix("- ") if level else after
            return self._record(_level(found), found["place"], after)
        return False

    def _details(self, rest: str) -> bool:
        """Take level, logger and place after a time, in any order."""
        self.is_record, self.rest = True, rest
        for _ in range(5):
            if not self._take_detail():
                break
        if self.level:
            self.head.insert(0, self.level)
        return True

    def _take_detail(self) -> bool:
        if not self.level and (found := _level_head(self.rest)):
            self.level = _level(found)
        elif (found := _BRACKET.match(self.rest)) and not _RANK.match(self.rest):
            level = None if self.level else _LEVEL_HEAD.fullmatch(found["name"].strip())
            if level is not None:
                self.level = _level(level)
            else:
                self.head.append(found["name"])
        else:
            places = (_RAY_PLACE, _DASH_NAME) if self.level else (_RAY_PLACE, _NAME_THEN_LEVEL, _DASH_NAME)
            found = next((hit for place in places if (hit := place.match(self.rest))), None)
            if found is None:
                return False
            self.head.append(found["place"])
        self.rest = self.rest[found.end() :]
        return True

    def _record(self, level: Level, place: str, rest: str) -> bool:
        self.level, self.is_record, self.rest = level, True, rest
        self.head += [part for part in (level, place) if part]
        if not place and (found := _BRACKET.match(rest)) and not _RANK.match(rest):
            self.head.append(found["name"])
            self.rest = rest[found.end() :]
        return True


def _level(found: re.Match[str]) -> Level:
    letter = found.groupdict().get("letter")
    return _LETTERS[letter] if letter else _LEVELS[found["level"].lower()]


def _level_head(text: str) -> re.Match[str] | None:
    """A level's name at the start of a line, if it is a head rather than a word: "ERROR text" and "error:
    text" are, "Error in atexit" and "Critical batch size" are not."""
    found = _LEVEL_HEAD.match(text)
    is_head = found and (found["level"].isupper() or found["after"].strip() or found[0].startswith("["))
    return found if is_head else None


_SOURCES: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str]], str]], ...] = (
    (RAY, "(", lambda found: found["service"] or f"{found['name']} {found['id'].strip(', ')}"),
    (_RANK, "[", lambda found: f"rank {found['rank']}"),
    (_POD, "[", lambda found: found["name"]),
    (_RUNTIME, "0123456789", lambda _: ""),
    (_KERNEL, "[", lambda found: "kernel"),
    (_HOST, "", lambda found: f"{found['host']} pid={found['pid']}"),
    (_TASK, "0123456789", lambda found: f"task {found['rank']}"),
    (_SYSTEM, "<0123456789JFMASONDTW", lambda found: found["name"]),
    (_CONTAINER, "", lambda found: found["name"]),
    (_MACHINE, "", lambda found: found["host"]),
)
