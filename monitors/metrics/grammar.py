"""One line of text → the row it is: counters ("Epoch [3/20]"), named numbers ("loss: 0.5"), and prose.

No framework is known here. A line is a row if it names something that trainings measure (`names`), or counts
steps and is made of named numbers, and if it is made of little else: prose makes it an ordinary line.
"""

import math
import re
from functools import lru_cache

from monitors.metrics.counters import TIMES, Reading, take_bars, take_counters
from monitors.metrics.names import is_validation, kind_of, splits, vocabulary, words
from monitors.metrics.row import NUMBER, Row, metric_name, number_of, step_of

SAME_TEXTS = 1024  # between numbers, which are the same in all rows of a training
MOST_WORDS_OF_A_LINE = 3  # where the number is all that follows; `Start training from score 0.1` is prose
_VALUE = re.compile(
    rf"(?<![\w.@/#'-])(?:(?:np|numpy|torch|jnp)\.\w+\(|tensor\(|Array\(|\[{{1,3}})?"
    rf"(?P<number>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|{NUMBER})(?!\d|\.\d)"
    r"(?P<percent>\s?%)?(?P<after>[^\W\d_]\w*(?:/\w+)?)?",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"(?<![^\W\d])\s*(?:ms|s|secs?|seconds?|mins?|minutes?|hours?|dB|nats|[kKMGT]i?B(?:/s)?|fps|(?:\w{1,20}/(?:s|sec|second|it|step|iter|batch|"
    r"example|sample|gpu)\w*)|/s|it/s)\b(?![:=])",
)
_GLUED = re.compile(r"[^\W\d]\w*\([\w()]{1,8}\)$")
_AFTER_CALL = re.compile(r"[^()]*\)")
_AVERAGE = re.compile(
    rf"\s*\(\s*(?:avg:?\s*)?(?P<mean>{NUMBER})\s*(?P<percent>%)?[^()]{{0,20}}\)", re.IGNORECASE
)
_LINKING = re.compile(
    r"^(?:(?:with|and|the|is|has|got|then|of|a)\s+|(?:rank|gpu|worker|device)\s*\d+\s+)+", re.IGNORECASE
)
_SPREAD = re.compile(rf"\s*(?:\+/-|±)\s*{NUMBER}", re.IGNORECASE)
_OUT_OF = re.compile(r"\s*/\s*\d+(?:\.\d+)?(?![\w.])")
_HARD = re.compile(r"[|,;•·►→\]\[(){}\x00]|\s-{1,3}\s|\s=>\s|->|(?<=[a-z]{4})\.\s+|\s{2,}|\t|^-+\s|\.\.+")
_NAME = re.compile(r"[^\W\d]['\w./@%#*+&^()-]*(?: [\w'./@%#*+&^()-]+){0,5}")
_PROSE = re.compile(r"[^\W\d_]{2,}")
_SOURCE_FILE = re.compile(r"\.(?:py|pyx|cc|cpp|cu|c|h|rs|go|sh)$")
_COUNTED_NAME = re.compile(r"([^|,;\x00]*)\x00\s*\)?\s*[:=]\s*$")


def read_line(text: str) -> Row | None:
    """Return the row that a line is, or None. `text`: without what loggers put before it."""
    found = read(text)
    return found.row() if is_row(found) else None


def is_row(found: Reading) -> bool:
    """Say whether what was found makes a row: enough named numbers, little prose."""
    if not found.values:
        return False
    known = [name for name in found.values if kind_of(name)]
    prose = len(found.prose)
    if found.counts:
        if known or any(map(is_validation, found.values)):
            return prose <= len(found.values) + 1
        plain = not any("_" in name and " " in found.printed[name] for name in found.values)
        if found.has_bar:
            return found.epoch is not None and len(found.values) > 1 and not prose
        is_plain = not found.unnamed and (plain or (len(found.values) > 2 and prose < 2))
        return found.step is not None and prose <= len(found.values) and is_plain
    is_labelled = prose == 1 and len(known) > 1  # `SDM: ssim: 0.7  psnr: 26.3`
    return (
        (not prose or is_labelled)
        and not found.unnamed
        and any(_is_telling(name, found.values[name]) for name in known)
    )


def _is_telling(name: str, value: float) -> bool:
    """True if a name says beyond doubt that it is a metric, also without a counter beside it."""
    parts = re.findall(r"[a-z0-9]+", name)
    if not words("common").issuperset(parts[-1:]):
        return True
    return value != int(value) if len(parts) > 1 and value == value and abs(value) < 1e15 else False


def read(text: str) -> Reading:
    """Take a line apart."""
    found = Reading()
    return _read(found, text.strip().lstrip("*=>-#~").strip())


def read_after(head: re.Match[str]) -> Row | None:
    """Return the row of a line in which a family's expression was found: what it names, and the rest."""
    found = Reading()
    for name, raw in head.groupdict().items():
        number = None if raw is None else number_of(raw.strip())
        if name == "split":
            found.split = splits().get((raw or "").lower(), "")
        elif number is None or (name == "epoch" and not math.isfinite(number)):
            continue
        elif name == "epoch":
            found.epoch = number
        elif name in ("step", "steps_per_epoch"):
            setattr(found, "step" if name == "step" else "total", step_of(number))
        else:
            found.values[metric_name(name)] = number
    _read(found, head.string[head.end() :])
    return found.row() if found.values else None


def _read(found: Reading, text: str) -> Reading:
    text = take_bars(found, text)
    text = TIMES.sub(" \x00 ", text)
    text = take_counters(found, text)
    _take_values(found, text)
    return found


def _take_values(found: Reading, text: str) -> None:
    """Read the named numbers; the words that belong to none are prose."""
    end = 0
    section = ""
    for match in _VALUE.finditer(text):
        if match.start() < end:
            continue
        before = text[end : match.start()]
        name, has_sign, rest = _name_in(before)
        after, share, mean, has_unit = _after(text, match)
        if name and match["after"] and match["after"].lower() not in ("x",) and not has_unit:
            continue  # `3rd`, `2b7f`: no number at all
        known = bool(name) and kind_of(metric_name(name)) is not None
        if not name and match["after"] and not has_unit:
            continue  # `3DBall`
        is_finite = match["number"].lower().lstrip("+-") not in ("nan", "inf", "infinity")
        if not (is_finite or has_sign or known or (found.counts and _is_vocabulary(name))):
            continue
        if not name and (counted := _COUNTED_NAME.search(before[-200:])):
            name, has_sign, rest = _without_link_words(counted[1]), True, before[-200:][: counted.start()]
            known = kind_of(metric_name(name)) is not None
        is_field = not rest.strip(" |,;\t\x00") and _is_field(before, text, after)
        is_name = " " not in name and (known or ("_" in name and found.counts))
        if name and not (has_sign or _is_vocabulary(name) or is_field or is_name):
            continue
        end = after
        section = _take_prose(found, rest, section)
        if not name:
            is_more = before.strip() in (",", "]", "),", "],")  # of a list
            found.unnamed += not (has_unit or match["percent"] or is_more or share is not None)
            continue
        if has_unit and not known:
            continue
        value = float(match["number"].replace(",", ""))
        if share is not None or (mean is not None and (section or found.split) and found.ends_pass):
            value = share if share is not None else mean  # type: ignore[assignment]
        _add(found, section, name, value)
    _take_prose(found, text[end:], section)


@lru_cache(SAME_TEXTS)
def _name_in(before: str) -> tuple[str, bool, str]:
    """The name at the end of what stands before a number, whether `:` or `=` follows it, and what is left."""
    stripped = before.rstrip().rstrip("[(").rstrip()
    has_sign = stripped.endswith((":", "="))
    stripped = stripped.rstrip(":= ")
    parts = [*_HARD.finditer(stripped)]
    start = parts[-1].end() if parts else 0
    name = stripped[start:]
    colon = max(name.rfind(": "), name.rfind("= "))
    if colon >= 0:
        start, name = start + colon + 2, name[colon + 2 :]
    name = _LINKING.sub("", name.strip(" \"'*<>").lstrip(". -"))
    if glued := _GLUED.search(stripped):
        name, start = glued[0], glued.start()  # `D(G(z)): 0.5`
    elif stripped.endswith(")") and (unit := re.search(r"([^\W\d][\w./ -]*?) ?\([^()]*\)$", stripped)):
        name, start = unit[1].strip(), unit.start()  # `time per iteration (ms): 5`
        name = _HARD.split(name)[-1].strip()
    if not _NAME.fullmatch(name) or _SOURCE_FILE.search(name):
        return "", has_sign, before
    return name, has_sign, stripped[:start]


def split_of(text: str) -> str:
    """The data that a heading is about ("test" for `Test Error:`), "" for none."""
    said = _PROSE.findall(text.lower())
    found = [splits()[word] for word in said if word in splits()]
    others = [
        word
        for word in said
        if word not in splits() and word not in words("tolerated") and kind_of(word) is None
    ]
    return found[0] if found and not others else ""


def _without_link_words(text: str) -> str:
    """`Training loss at` → Training loss."""
    left = re.sub(r"\s*\([^()]*\)", "", text).split()
    while left and left[-1].lower() in ("at", "after", "for", "in", "of", "on", "the", "end"):
        left.pop()
    return " ".join(left)


def _after(text: str, match: re.Match[str]) -> tuple[int, float | None, float | None, bool]:
    """What follows a number: where it ends, the share in percent and the mean it gives, whether a unit is
    there."""
    end = match.end("percent") if match["percent"] else match.end("number")
    if match[0][: match.start("number") - match.start()].endswith("(") and (
        call := _AFTER_CALL.match(text, end)
    ):
        return call.end(), None, None, False
    is_part = _OUT_OF.match(text, end)
    if is_part:
        end = is_part.end()
    unit = None if match["percent"] else _UNIT.match(text, end)
    if unit:
        end = unit.end()
    if spread := _SPREAD.match(text, end):
        end = spread.end()
    share = mean = None
    if average := _AVERAGE.match(text, end):
        mean = None if is_part or average["percent"] else float(average["mean"])
        share = float(average["mean"]) if is_part and average["percent"] else None
        end = average.end()
    return end, share, mean, unit is not None


def _is_vocabulary(name: str) -> bool:
    parts = re.findall(r"[a-z]+", name.lower())
    return bool(parts) and vocabulary().issuperset(parts)


def _is_field(before: str, text: str, after: int) -> bool:
    """True if a name and its number are all there is between two separators: `| norm 3.2 |`."""
    is_short = text.startswith(before) and len(before.split()) <= MOST_WORDS_OF_A_LINE
    begins = re.match(r"\s*[|,;\x00]", before) is not None or is_short
    return begins and re.match(r"\s*(?:[|,;]|$)", text[after:]) is not None


def _take_prose(found: Reading, text: str, section: str) -> str:
    """Note the words that name nothing; return the split ("val") that what follows is about."""
    for said in _words_of(text):
        named = [splits()[word] for word in said if word in splits()]
        if named:
            section = named[0]
        elif not {"train", "training"}.isdisjoint(said):
            section = ""
        found.prose += [word for word in said if word not in words("tolerated") and word not in splits()]
    return section


@lru_cache(SAME_TEXTS)
def _words_of(text: str) -> list[list[str]]:
    """The words of each part of a text."""
    parts = re.split(r"[|;,\x00]|\s-\s", text)
    return [[word.lower() for word in _PROSE.findall(_UNIT.sub(" ", part))] for part in parts]


def _add(found: Reading, section: str, name: str, value: float) -> None:
    """Keep a metric; of the whole line's split, or by name where a line speaks of several."""
    printed, name = name, metric_name(name)
    if name in words("no_metrics"):
        return
    if section and not found.values:
        found.split = found.split or section
    elif (section and section != found.split) or name in found.values:
        name = f"{section}/{name}" if section else name
        if name in found.values:
            return
    found.values[name] = value
    found.printed[name] = printed
