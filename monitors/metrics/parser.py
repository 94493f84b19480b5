"""Metric lines to rows: the only parser of the console format and of everything that looks like it.

Understood, also behind Ray's prefix, a timestamp or a progress bar, and with colours:

    step:12 - actor/kl_loss:0.00123 - actor/pg_loss:np.float64(0.0456)    verl, and the bundled trainer
    Epoch 1/3, step 200/1000, loss: 0.53, lr=1e-4                         name:value or name=value with a step
    {"step": 3, "loss": 0.1}                                              a JSON object
    {'loss': 0.5, 'epoch': 0.1}                                           a printed dict (TRL); it has no step

Ordinary log lines are not rows: a line with a step must be made of pairs rather than of prose, and an object
without a step must hold numbers only, and among them something that trainings report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from monitors.logs import ESCAPES, is_progress_bar
from monitors.metrics.row import NUMBER, Row, number_of, row_from_object, row_of

LONGEST_METRIC_LINE = 65_536
METRIC_WORDS = (b"tep", b"TEP", b"}")  # without one of them no line is a row
PLAIN = rf"({NUMBER})(?![\w%:/]|[.,]\d|\.\w)"
VALUE = rf"(?:(?:(?:np|numpy|torch)\.\w+|tensor)\(({NUMBER})(?![\d.])[^()]*\)|{PLAIN})"
PAIR = re.compile(rf"(?:(?<=[\s,;|\[({{])|^)([A-Za-z_][\w./@#%-]*)\s?[:=]\s?{VALUE}", re.IGNORECASE)
STEP = re.compile(
    r"(?:(?<=[\s,;|\[({])|^)(?:global[_ ]|train(?:ing)?[_ ])?step\s{0,2}[:=#]?\s{0,2}(\d+)"
    r"(?:\s?/\s?\d+)?(?![\w.%]\w|\d)",
    re.IGNORECASE,
)
OBJECT = re.compile(r"\{.*\}\s*$")
OBJECT_PAIR = re.compile(rf"""(['"])([^'"]{{1,200}})\1\s*:\s*(?:{VALUE}|(['"])({NUMBER})\5)""", re.IGNORECASE)
OBJECT_KEY = re.compile(r"""['"]\s*:""")
RAY_PREFIX = re.compile(r"^\s*\([A-Za-z_][\w.:]* (?:pid|ip)=[^)]*\)\s?")
SOURCE_FILE = re.compile(r"\.(?:py|pyx|cc|cpp|cu|c|h|rs|go|sh)$")
REPORTED = re.compile(
    r"loss|reward|accuracy|\bacc\b|grad_norm|perplexity|entropy|\bkl\b|pass_rate|pass@|\bscore\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z]{2,}")
PATTERN_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.", re.DOTALL)
PATTERN_SIGNS = frozenset(".^$*+?()|")
NAMED_CHARACTER = re.compile(r"\\[xuUN0-9]")


def parse_line(text: str) -> Row | None:
    """Return the row that a line of a log is, or None. Never raises, whatever the line."""
    if len(text) > LONGEST_METRIC_LINE:
        return None
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    text = RAY_PREFIX.sub("", text).strip()
    if text.endswith("}"):
        return _parse_object(text)
    if ("tep" not in text and "TEP" not in text) or is_progress_bar(text):
        return None
    return _parse_pairs(text)


def _parse_object(text: str) -> Row | None:
    match = OBJECT.search(text)
    if match is None:
        return None
    before = text[: match.start()]
    if WORD.search(before) and not is_progress_bar(before) and not re.search(r"\d\d:\d\d", before):
        return None
    try:
        record = json.loads(match[0])
        row, size = row_from_object(record), len(record)
    except (ValueError, RecursionError):
        pairs = {found[2]: float(_first(found.groups()[2:])) for found in OBJECT_PAIR.finditer(match[0])}
        row, size = row_of(pairs), len(OBJECT_KEY.findall(match[0]))
    if row is None or not row.values or "train_runtime" in row.values:
        return None
    if row.step is None and (
        size > len(row.values) + (row.epoch is not None) or not any(map(REPORTED.search, row.values))
    ):
        return None
    return row


def _parse_pairs(text: str) -> Row | None:
    step = STEP.search(text)
    if step is None:
        return None
    before = text[: step.start()]
    values: dict[str, float] = {}
    rest = [PAIR.sub(" ", before)]
    end = step.end()
    for pair in PAIR.finditer(text, step.end()):
        _add_pair(values, pair)
        rest.append(text[end : pair.start()])
        end = pair.end()
    rest.append(text[end:])
    for pair in PAIR.finditer(before):
        _add_pair(values, pair)
    values.pop("step", None)
    if not values or len(WORD.findall(" ".join(rest))) > len(values):
        return None
    return Row(int(step[1][:18]), values)


def _add_pair(values: dict[str, float], match: re.Match[str]) -> None:
    name = match[1]
    if "." not in name or not SOURCE_FILE.search(name):
        values[name] = float(match[match.lastindex or 0])


def _first(groups: Sequence[str | None]) -> str:
    return next(group for group in groups if group is not None and group not in "'\"")


def literal_in(pattern: re.Pattern[str]) -> str | None:
    """Return the longest plain text outside of groups that whatever the pattern matches must hold, or
    None."""
    return None if pattern.flags & (re.IGNORECASE | re.VERBOSE) else literal_of(pattern.pattern)


def literal_of(pattern: str) -> str | None:
    """Like `literal_in`, for the text of a pattern without flags.

    It errs on the safe side: what is not surely plain text and needed is left out.
    """
    depth, pieces = 0, [""]
    for token in PATTERN_TOKEN.findall(pattern):
        if NAMED_CHARACTER.match(token) or (token == "|" and depth == 0):
            return None
        depth += (token == "(") - (token == ")")
        plain = token.removeprefix("\\")
        is_plain = plain not in PATTERN_SIGNS if plain == token else not plain.isalnum()
        if depth == 0 and len(plain) == 1 and is_plain:
            pieces[-1] += plain
            continue
        if token in ("?", "*") or token[0] == "{":
            pieces[-1] = pieces[-1][:-1]
        pieces.append("")
    return max(pieces, key=len) or None


@dataclass(frozen=True)
class MetricPatterns:
    """Patterns a user names for lines of another shape.

    `rows`: regular expressions whose named groups become values; the group `step` is the step, and the groups
    `name` and `value` together are one metric. `first_step`: what proves the first step, or None.
    """

    rows: tuple[re.Pattern[str], ...] = ()
    first_step: re.Pattern[str] | None = None

    @classmethod
    def compile(cls, rows: Sequence[str] = (), first_step: str | None = None) -> MetricPatterns:
        """Compile the patterns. Raises re.error for one that is no regular expression."""
        return cls(tuple(re.compile(row) for row in rows), re.compile(first_step) if first_step else None)

    def words(self) -> tuple[bytes, ...] | None:
        """Return words of which every line that matters to a pattern holds one; None where none are known."""
        patterns = [*self.rows, *([self.first_step] if self.first_step else [])]
        words = [literal_in(pattern) for pattern in patterns]
        return None if None in words else tuple(word.encode() for word in words if word)

    def parse(self, text: str) -> Row | None:
        """Return the row that the first matching pattern finds in a line."""
        for pattern in self.rows:
            if match := pattern.search(text):
                named = {name: raw for name, raw in match.groupdict().items() if raw is not None}
                if "name" in named and "value" in named:
                    named[named.pop("name")] = named.pop("value")
                values = {
                    name: number
                    for name, raw in named.items()
                    if (number := number_of(raw.strip())) is not None
                }
                row = row_of(values)
                if row and row.values:
                    return row
        return None
