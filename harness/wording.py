"""Numbers, durations, times, values, labels and lists as a reader wants them: the one place for each.

In: plain values. Out: short texts for tables, reports, logs and prompts. Nothing heavy is imported, so every
room may use it.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from harness.config.values import Scalar, as_text

DASH = "—"
_NAME = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^\[\]|]*\{\w+\}[^\[\]|]*)(?:\|([^\[\]]*))?\]")


def number_text(value: float, unit: str = "number") -> str:
    """A number by its unit: a rate with three decimals, seconds as a duration, a count whole; in digits that
    another program reads."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "-∞"
    if unit == "seconds":
        return duration(value)
    is_large = 1e4 <= abs(value) < 1e12
    plain = ".0f" if is_large or (value == int(value) and abs(value) < 1e4) else ".4g"
    forms = {"count": ".0f", "rate": ".3f", "difference": "+.3f"} if abs(value) < 1e15 else {}
    return f"{value + 0.0:{forms.get(unit, plain)}}"


def metric_value_text(value: float) -> str:
    """A metric's value: three decimals where it may be a rate, else four digits."""
    return number_text(value, "rate" if 0.001 <= abs(value) <= 1 or value == 0 else "number")


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`, or a dash."""
    if seconds is None or not abs(seconds) < 1e15:
        return DASH
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, part, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {below}"
    return f"{whole} s"


def short_duration(seconds: float | None) -> str:
    """For columns of a terminal: `7s`, `1m 05s`, `1h 02m`, or a dash."""
    if seconds is None or not abs(seconds) < 1e15:
        return "–"
    minutes, left = divmod(max(0, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    return f"{minutes}m {left:02d}s" if minutes else f"{left}s"


def exact_duration(seconds: float) -> str:
    """`1 day 2 hours 3 minutes`: nothing rounded away, and a blueprint reads it back."""
    parts = []
    rest = seconds
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        found, rest = divmod(rest, size)
        if found:
            parts.append(count_text(int(found), name))
    if rest or not parts:
        parts.append(count_text(rest, "second"))
    return " ".join(parts)


def time_text(seconds: float | None) -> str:
    """`2026-11-21 14:02:11 UTC`, or a dash."""
    if seconds is None:
        return DASH
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return DASH


def shortened(text: str, longest: int) -> str:
    """The text, cut to `longest` characters with `…` at its end."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def filled(text: str, values: Mapping[str, object]) -> str:
    """The text with `{name}` replaced by the value of that name. A part in brackets that names a value which
    is not there is left out, or what stands behind its last `|` is taken; elsewhere it becomes "?"."""

    def part(match: re.Match[str]) -> str:
        known = all(values.get(name) for name in _NAME.findall(match[1]))
        return match[1] if known else match[2] or ""

    return _NAME.sub(lambda name: str(values.get(name[1]) or "?").strip(), _OPTIONAL.sub(part, text))


def did_you_mean(
    word: str, known: Iterable[str], form: str = "; did you mean {}?", cutoff: float = 0.5
) -> str:
    """The known name that was probably meant, or the two that are equally near, in these words; "" where none
    is close, or more are equally so."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=3, cutoff=cutoff)
    near = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    nearest = sorted(name for name, ratio in zip(close, near, strict=True) if ratio == near[0])
    between = "` or `" if "`{}`" in form else " or "
    return form.format(between.join(nearest)) if 0 < len(nearest) < 3 else ""


def listed(words: Sequence[str], most: int, separator: str = ", ") -> str:
    """`a, b and 3 more`: the first words, and how many there are beyond `most`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return separator.join(words[:most]) + more


def count_text(number: float, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def short_labels(keys: Iterable[str]) -> dict[str, str]:
    """The shortest ending of each key that tells it from the others: `lr`; `actor.lr` beside `critic.lr`."""
    parts = {key: key.rpartition(":")[2].lstrip("-+").split(".") for key in keys}
    found = {}
    for key, own in parts.items():
        others = [f".{'.'.join(other)}" for name, other in parts.items() if name != key]
        endings = (".".join(own[-length:]) for length in range(1, len(own) + 1))
        clear = (end for end in endings if not any(other.endswith(f".{end}") for other in others))
        found[key] = next(clear, key)
    return found


def point_label(changed: Mapping[str, Scalar], labels: Mapping[str, str]) -> str:
    """A point by the levels in which it is not the baseline: `lr=0.1 beta=2`; `baseline` for none."""
    words = " ".join(f"{labels.get(key, key)}={as_text(level)}" for key, level in changed.items())
    return words or "baseline"


def answering(run: str, options: Sequence[str] = ()) -> list[str]:
    """The commands that answer what this run or sweep asks a person."""
    run = shlex.quote(str(run))
    if options:
        return [f"harness approve {run} --choose {shlex.quote(option)}" for option in options]
    return [f"harness approve {run}", f'harness deny {run} --because "…"']


def answer_text(ways: Sequence[str], question: str) -> str:
    """The command that answers a question, and its first line."""
    return f"answer with `{ways[0]}`: {question.splitlines()[0]}"
