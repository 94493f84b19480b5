"""What counts in a line: steps, epochs and batches named by a word, in brackets, or shown by a progress bar.

In: the text of a line. Out: the same without its counters, `\\x00` in their places, and a `Reading` that
holds them.
"""

import re
from dataclasses import dataclass, field

from monitors.metrics.names import splits, words
from monitors.metrics.row import Row, number_of, step_of

_INT = r"\d{1,3}(?:,\d{3})+|\d{1,18}"
_WORDS = (
    (r"epoch(?:[ _](?:id|index|idx|number|num|no))?|epochs|ep|eps", "epoch"),
    (
        r"(?:global|train|training|optimizer)[_ ](?:steps?|iterations?)|steps?|iters?|iterations?|it"
        r"|num_updates|updates?|total_timesteps|num_timesteps|timesteps?",
        "step",
    ),
    (r"batch(?:es|[ _](?:index|idx|id))?|round|episodes?", "batch"),
)
_AXIS = "|".join(f"(?P<{axis}>{words})" for words, axis in _WORDS)
COUNTER = re.compile(
    rf"(?<![\w./-])(?:{_AXIS})(?:\((?P<split>\w+)\))?(?:\s*[:=#]\s*|\.{{1,3}}\s*|\s+(?:no\.?\s*)?|\s*(?=[\[(]))"
    rf"[\[(]?\s*(?P<n>{_INT})(?P<part>(?:\.\d+)?(?:e\+?\d{{1,2}})?)\s*(?:(?:/|of)\s*~?(?P<total>{_INT}))?(?![\w%]|\.\w)\s*[\])]?",
    re.IGNORECASE,
)
BRACKET = re.compile(
    rf"[\[(]\s*(?P<n>{_INT})\s*(?:/\s*(?P<total>{_INT})\s*)?(?:\(\s*[\d.]+\s*%\s*\)\s*)?[\])]"
)
COUNTED = re.compile(
    rf"(?<![\w./:-])(?P<n>{_INT})\s*/\s*(?P<total>{_INT})(?![\w./:-])"
    r"(?P<unit>\s*(?:batches|steps|iters|iterations)\b)?(?:\s*\(\s*[\d.]+\s*%\))?",
    re.IGNORECASE,
)
BAR = re.compile(
    r"(?P<share>\d{1,3})%\s?\|[^|]*\|\s*(?P<n>[\d.]+)/(?P<total>[\d.]+)\s*"
    r"\[(?P<time>[^\],<]*(?:<[^\],]*)?)(?:,\s*[^\],]*/[^\],]*)?(?P<postfix>(?:,[^\]]*)?)(?:\]|$)"
)
KERAS_BAR = re.compile(r"^(?P<n>\d+)/(?P<total>\d+|Unknown)\s*(?:\[[=>.\s]*\]|[━╸╺─]+(?=\s)|(?=- \d+m?s\b))")
RICH_BAR = re.compile(r"(?:\d{1,3}%\s)?[━╸╺─]{3,}\s*(?P<n>\d+)/(?P<total>\d+)")
TIMES = re.compile(
    r"(?<![\w.])\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)?"
    r"|(?<!\S@)(?:(?<![\w.])(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?(?![\w])"  # `acc@1:10.0` is a metric
    r"|\b\d+h\d+m(?:\d+s)?\b|\b\d+m\d+(?:\.\d+)?s\b)|\b[a-z]{1,12}://\S+"
)
_LAST_WORD = re.compile(r"([^\W\d_]+) $")


@dataclass
class Reading:
    """What was found in a line so far."""

    step: int | None = None
    epoch: float | None = None
    total: int | None = None
    epochs: int | None = None
    split: str = ""
    values: dict[str, float] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    prose: list[str] = field(default_factory=list)
    unnamed: int = 0
    has_bar: bool = False

    @property
    def counts(self) -> bool:
        return self.step is not None or self.epoch is not None

    @property
    def ends_pass(self) -> bool:
        """True at the last batch of all."""
        return self.step is not None and self.total is not None and self.step >= self.total

    def row(self) -> Row:
        return Row(self.step, self.values, self.epoch, self.total, self.split, self.epochs)


def take_bars(found: Reading, text: str) -> str:
    """Read the counter of a progress bar; return what stands before and behind it."""
    if match := BAR.search(text):
        found.has_bar = True
        if found.step is None:
            found.step, found.total = _whole(match["n"]), _whole(match["total"])
        before = text[: match.start()].rstrip().rstrip(":|")
        return f"{before} \x00 {match['postfix']} \x00 {text[match.end() :]}"
    if match := KERAS_BAR.match(text) or RICH_BAR.search(text):
        found.step, found.total = _whole(match["n"]), _whole(match["total"])
        return f"{text[: match.start()]} \x00 {text[match.end() :]}"
    return text


def take_counters(found: Reading, text: str) -> str:
    """Read what counts: words with a number first, then counters in brackets."""
    pieces, end = [], 0
    batch: tuple[int, int | None] | None = None
    for match in COUNTER.finditer(text):
        word = _LAST_WORD.search(text[max(end, match.start() - 40) : match.start()])
        if word and word[1].lower() not in words("before_counters"):
            continue  # `number of nan iterations: 0`
        total = _whole(match["total"])
        if match["split"]:
            found.split = splits().get(match["split"].lower(), "")
        if match["epoch"]:
            is_short = not match["epoch"].lower().startswith("epoch")
            if total is None and ((is_short and match["part"]) or match["epoch"].lower().endswith("s")):
                continue  # `epochs: 3` is a setting, `ep:0.5` a metric
            if found.epoch is None:
                found.epoch = float(match["n"].replace(",", "") + match["part"])
                found.epochs = total
        elif (number := _whole(match["n"] + match["part"])) is None:
            continue
        elif match["step"]:
            if found.step is None or match["step"].lower().startswith("global"):
                found.step, found.total = number, total
        elif total is None and found.epoch is None and re.match(r"batch\s*[:=]", match[0]):
            continue  # `batch: 256` is a setting
        else:
            batch = batch or (number, total)
        pieces += [text[end : match.start()], " \x00 "]
        end = match.end()
    text = "".join([*pieces, text[end:]])
    if batch and found.step is None:
        found.step, found.total = batch
    text = _take_counted(found, text)
    brackets: list[tuple[int | None, int | None]] = []
    text = BRACKET.sub(lambda match: _take_bracket(brackets, match), text)
    counts_both = len(brackets) > 1 or (brackets and found.step is not None)
    if counts_both and found.epoch is None and brackets[0][1] is not None:  # `[0/25][10/1583]`
        epoch, found.epochs = brackets.pop(0)
        found.epoch = float(epoch or 0)
    if brackets and found.step is None:
        found.step, found.total = brackets[0]
    return text


def _take_counted(found: Reading, text: str) -> str:
    """`200/ 2983 batches`, and `50/1251 (4%)` where the epoch is known or the line begins with it."""
    match = COUNTED.search(text)
    if match is None or found.step is not None:
        return text
    begins = not text[: match.start()].strip(" |\x00[(:")
    if match["unit"] or (begins and (found.epoch is not None or text[match.end() :].startswith(":"))):
        found.step, found.total = _whole(match["n"]), _whole(match["total"])
        return f"{text[: match.start()]} \x00 {text[match.end() :]}"
    return text


def _take_bracket(brackets: list[tuple[int | None, int | None]], match: re.Match[str]) -> str:
    before = match.string[: match.start()]
    begins = not before.strip(" \x00|:[](/)0123456789")
    if (match["total"] is None and not (begins and match[0][0] == "[")) or (
        match["total"] is not None and match[0][0] == "(" and not (begins or before.rstrip().endswith("\x00"))
    ):
        return match[0]
    brackets.append((_whole(match["n"]), _whole(match["total"])))
    return " \x00 "


def _whole(text: str | None) -> int | None:
    number = number_of((text or "").replace(",", ""))
    return None if number is None else step_of(number)
