"""The setting whose value a program refused: where it stands, and the value that it should have.

In: a failure in its situation. Out: advice with the exact edit. The value comes from the message (a choice
that is spelt nearly so, a bound, a multiple); where it gives none, the key is named and a person chooses.
"""

import difflib
import re
from collections.abc import Iterable, Iterator

from harness.attempt import UNKNOWN, Remedy
from harness.config.values import Scalar, as_text
from harness.repair.remedies.situation import Setting, Situation

FAMILIES = frozenset(
    "batch_divisibility code_error config_error dataset_error length_limit parallelism_config "
    f"shape_mismatch tokenizer_template version_skew {UNKNOWN}".split()
)
"""Those that a wrong value can lead to."""
MOST_CHOICES = 12
_OF_A_PERSON = "A person must say so: it may be part of what is studied."
_LIKENESS = 0.6
_SHORTEST = 3
_GPU = re.compile(r"(?i)cuda(?::\d+)?|gpu")
_LIST = re.compile(
    r"(?i)\b(?:choose(?: one)? (?:from|of)|choices|one of|select(?: one)? (?:from|of)|available|supported|"
    r"valid|allowed|permitted|options|possible|known|registered|columns|input should be|expected)\b"
    r"[^\n\[({'\"`:]{0,60}(?P<items>[^\n]{1,600})"
)
_QUOTED = re.compile(r"['\"`]([^'\"`\n]{1,60})['\"`]")
_BARE = re.compile(r"[\[({:]\s*([\w./+-]+(?:,\s*[\w./+-]+)+)")
_GIVEN = re.compile(
    r"(?i)\b(?:got|given|received|found|input_value=|invalid choice:|invalid \w+ value:|unknown(?: \w+)?:?|"
    r"unsupported(?: \w+)?:?|unrecogni[sz]ed(?: \w+)?:?|invalid(?: \w+)?:)\W{0,3}(?P<value>[\w.+/-]+)"
)
_NUMBER = r"(-?\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)"
_MULTIPLE = re.compile(r"(?i)(?:divisible by|multiple of)(?:[^\d\n]{0,60}?)(\d{1,9})")
_LEAST = re.compile(
    rf"(?i)(?:at least|>=|greater than or equal to|minimum(?: is| of)?|no less than) ?{_NUMBER}"
)
_MOST = re.compile(rf"(?i)(?:at most|<=|less than or equal to|maximum(?: is| of)?|no more than) ?{_NUMBER}")
_WHOLE = re.compile(r"(?i)\b(?:int|integer)\b")
_OPTION = re.compile(r"--[\w-]+")
_ONE_OF_SEVERAL = re.compile(r"\n\s*For further information visit")
"""Ends each error of a list of pydantic's; the cause names the first."""


def correction(now: Situation) -> Iterator[Remedy]:
    """What to write instead of the refused value, where the message or the config shows which that is."""
    if now.diagnosis.family == "driver_or_arch":
        yield from _devices(now)
    if now.diagnosis.family not in FAMILIES:
        return
    yield from _options(now)
    said = _ONE_OF_SEVERAL.split(now.captured("message"))[0]
    choices = _choices(said)
    given = [value for value in _given(now, said) if value not in choices]
    setting = _setting(now, said, given)
    if setting is None:
        meant = _nearest(given, choices)
        name = _option(now)
        if meant:
            yield _advice(f"Write {meant[1]} instead of {meant[0]}{f' for {name}' if name else ''}")
        return
    values = _nearest([as_text(setting.value)], choices)[1:] or _numbers(setting, said)
    where = f"{setting.key} in {now.where(setting.key)}"
    if values:
        edit = now.written(setting.key, values[0])
        change = f"Change {where}: {as_text(setting.value)} → {' or '.join(values)}"
        yield _advice(change, "" if isinstance(setting.value, str) else _OF_A_PERSON, edit)
    elif choices:
        yield _advice(f"Set {where} (now {as_text(setting.value)}) to one of {', '.join(choices)}")
    else:
        yield _advice(f"A person must choose another value for {where} (now {as_text(setting.value)})")


def _advice(change: str, why: str = "", by_hand: str = "") -> Remedy:
    return Remedy.advice(f"{change}.", why, by_hand)


def _devices(now: Situation) -> Iterator[Remedy]:
    """What a machine without a GPU needs otherwise."""
    for each in now.settings.all:
        is_gpu = isinstance(each.value, str) and _GPU.fullmatch(each.value) is not None
        is_type = each.value is True and each.name in ("bf16", "fp16", "tf32")
        if is_gpu or (is_type and each.name in now.captured("message").lower()):
            new = "cpu" if is_gpu else "false"
            change = (
                f"Without a GPU, change {each.key} in {now.where(each.key)}: {as_text(each.value)} → {new}"
            )
            yield _advice(change, by_hand=now.written(each.key, new))


def _options(now: Situation) -> Iterator[Remedy]:
    """Options that a command line does not know or lacks."""
    said = now.captured("key")
    if "required" in now.captured("message") and said.startswith("-"):
        yield _advice(f"Add `{said} VALUE` to the launch command; a person must say which value")
        return
    known = sorted(set(_OPTION.findall(now.captured("usage"))))
    for wrong in _OPTION.findall(said) if known else ():
        meant = _nearest([wrong], known)
        if meant:
            yield _advice(f"Write `{meant[1]}` instead of `{wrong}` in the launch command")
        else:
            yield _advice(f"Write one of {', '.join(known)} instead of `{wrong}`, or leave it out")


def _option(now: Situation) -> str:
    return (now.captured("key") or now.captured("argument")).strip("'\"` ")


def _choices(said: str) -> list[str]:
    """What a message lists as possible, in its order; none where it lists less than two."""
    for match in _LIST.finditer(said):
        items = re.split(r"\[type=|\bbut got\b|\bgot\b", match["items"])[0]
        bare = _BARE.search(items)
        found = _QUOTED.findall(items) or (re.split(r",\s*", bare[1]) if bare else [])
        found = list(dict.fromkeys(each.strip() for each in found if each.strip()))
        if len(found) >= 2:
            return found[:MOST_CHOICES]
    return []


def _given(now: Situation, said: str) -> list[str]:
    """What may be the value that was refused, the most likely first."""
    captured = [now.captured(name) for name in ("value", "column", "wanted")]
    found = [*(match["value"] for match in _GIVEN.finditer(said)), *captured, *_QUOTED.findall(said)]
    return list(dict.fromkeys(each.strip("'\"` .,") for each in found if each.strip("'\"` .,")))


def _setting(now: Situation, said: str, given: Iterable[str]) -> Setting | None:
    """The one setting that the failure is about: by its name where the log captured it, else by the refused
    value, else by its name in the message."""
    all_of = [each for each in now.settings.all if not each.is_default]
    names = {_plain(part.rpartition(".")[2]) for part in re.split(r"[, /]+", _option(now)) if part}
    named = [each for each in all_of if _plain(each.name) in names]
    texts = {value for value in given if len(value) >= _SHORTEST or value.isdigit()}
    valued = [each for each in all_of if as_text(each.value) in texts and each.value not in (True, False)]
    words = set(map(_plain, re.findall(r"[A-Za-z_][\w-]*", said)))
    mentioned = [each for each in all_of if len(each.name) >= _SHORTEST and _plain(each.name) in words]
    both = [each for each in valued if each in mentioned]
    chosen = (found for found in (named, both, _texts(valued), mentioned) if found)
    best = next(chosen, [])
    return best[0] if len(best) == 1 else None


def _texts(found: Iterable[Setting]) -> list[Setting]:
    """Without numbers: an equal one says nothing where nothing names the key."""
    return [each for each in found if isinstance(each.value, str)]


def _plain(name: str) -> str:
    return name.strip("'\"`- ").replace("-", "_").lower()


def _nearest(given: Iterable[str], choices: Iterable[str]) -> list[str]:
    """The first given value that one choice is spelt nearly like, and that choice; nothing else."""
    known = {each.lower(): each for each in choices}
    for value in given:
        close = difflib.get_close_matches(value.lower(), known, n=1, cutoff=_LIKENESS)
        if close and known[close[0]] != value:
            return [value, known[close[0]]]
    return []


def _numbers(setting: Setting, said: str) -> list[str]:
    """The nearest values that a bound or multiple in the message allows, or the number that a text means."""
    value: Scalar = setting.value
    if isinstance(value, str):
        is_number = bool(re.fullmatch(_NUMBER, value)) and _WHOLE.search(said) is not None
        return [str(int(float(value)))] if is_number and float(value).is_integer() else []
    if isinstance(value, float) and value.is_integer() and _WHOLE.search(said):
        return [str(int(value))]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    if isinstance(value, int) and (match := _MULTIPLE.search(said)) and int(match[1]) > 1:
        step = int(match[1])
        around = (value // step * step, (value // step + 1) * step)
        return [str(each) for each in around if each > 0] if value % step else []
    for pattern, is_wrong in ((_LEAST, lambda bound: value < bound), (_MOST, lambda bound: value > bound)):
        if (match := pattern.search(said)) and is_wrong(float(match[1])):
            return [match[1]]
    return []
