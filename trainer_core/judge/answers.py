"""Judges that look at one answer and its task, and at nothing else: from a text to a reward.

exact match   1 when the answer, without surrounding white space, is the expected one to the character
boxed         1 when the content of the last `\\boxed{…}` is the expected one
numeric       1 when the last number is the expected one, within a tolerance
regex         1 when a pattern matches
countdown     1 when the arithmetic uses the given numbers and comes to the target; 0.1 when it is another
              result
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from trainer_core.judge.judge import Score, expected_answer
from trainer_core.types import DataError, Episode, Task, TrainingError

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)\]}])[-+−])?(?P<currency>[$€£])?"
    r"(?:\\[dt]?frac\{(?P<above>\d{1,300})\}\{(?P<below>\d{1,300})\}"
    rf"|(?P<number>(?:{_DIGITS}(?:\.\d+)?|(?<!\d)\.\d+)(?:[eE][-+]?\d{{1,6}}(?!\w))?)"
    r"(?:\s*/\s*(?P<over>\d{1,300})(?!\d|[.,]\d))?)"
    r"(?P<percent>\s*\\?%)?"
)
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}
_CHARACTERS = frozenset("0123456789+-*/() ")
_LONGEST_EXPRESSION = 300
_WELL_FORMED = 0.1
_PATTERN_MEMORY = 8 * 2**20


class AnswerJudge:
    """A function of task and answer as a judge."""

    def __init__(self, name: str, reward: Callable[[Task, str], float]) -> None:
        self.name = name
        self._reward = reward

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        return [Score(self._reward(task, episode.output)) for episode in episodes]


def boxed(task: Task, text: str) -> float:
    """1 when the last `\\boxed{…}` holds the expected answer, white space aside, or the same number
    written otherwise; else 0. The task's answer may be boxed itself."""
    expected = expected_answer(task)
    inner = last_boxed(expected)
    return float(_same(last_boxed(text), expected if inner is None else inner))


def last_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{…}`, whose braces may be nested; None where there is none or it is
    not closed."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    begin = position = start + len("\\boxed{")
    depth = 1
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1  # \{ and \} are characters of the answer
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return text[begin:position]
        position += 1
    return None


def _same(found: str | None, expected: str) -> bool:
    if found is None:
        return False
    left, right = ("".join(text.strip().strip("$").split()) for text in (found, expected))
    return left == right or (
        (one := _NUMBER.fullmatch(left)) is not None
        and (other := _NUMBER.fullmatch(right)) is not None
        and _close(one, other, 1e-9)
    )


def numeric(tolerance: float) -> Callable[[Task, str], float]:
    """Compare the last number of the answer with the last of the expected answer: equal when they differ by
    at most `tolerance` times the expected one, or times 1 where that is smaller.

    Read are 1000, 1,000, -3.5, .5, 1e3, 3/4, `\\frac{3}{4}` and 12.5 %; currency signs are passed over. A
    comma is decimal nowhere. A percentage is a hundredth; where only one of the two has the sign, 50 %
    equals 50 too.
    """

    def reward(task: Task, text: str) -> float:
        expected = _last(_NUMBER, expected_answer(task))
        if expected is None:
            raise DataError(
                f"task {task.task_id!r}: there is no number in its answer {task.answer!r}, which judge_type: "
                "numeric compares with. Correct the data, or choose another judge_type"
            )
        found = _last(_NUMBER, text)
        return float(found is not None and _close(found, expected, tolerance))

    return reward


def _last(pattern: Any, text: str) -> re.Match[str] | None:
    """The last match."""
    found = None
    for found in pattern.finditer(text):  # noqa: B007
        pass
    return found


def _close(found: re.Match[str], expected: re.Match[str], tolerance: float) -> bool:
    value, wanted = _value(found), _value(expected)
    if not (math.isfinite(value) and math.isfinite(wanted)):
        return False
    readings = [(value, wanted)]
    if bool(found["percent"]) != bool(expected["percent"]):
        readings.append((value * 100.0, wanted) if found["percent"] else (value, wanted * 100.0))
    return any(abs(one - other) <= tolerance * max(1.0, abs(other)) for one, other in readings)


def _value(match: re.Match[str]) -> float:
    """The number; NaN where something is divided by 0, infinite where it is too large."""
    above = match["above"] or match["number"].replace(",", "")
    below = float(match["below"] or match["over"] or 1)
    value = float(above) / below if below else math.nan
    return (-value if match["sign"] in ("-", "−") else value) / (100.0 if match["percent"] else 1.0)


def regex(pattern: str | None) -> Callable[[Task, str], float]:
    """1 when the pattern is found in the answer. With a group in it, the group of the last match has to be
    the task's answer. None: the task's answer is the pattern.

    Patterns are those of RE2, which reads any text in a time that grows with its length alone, so neither a
    hostile pattern nor a hostile answer can hold the training up; it has no look-around and no
    back-references.

    Raises:
        TrainingError: it is not a pattern.
    """
    given = _compiled(pattern, "task_judge.pattern") if pattern is not None else None

    def reward(task: Task, text: str) -> float:
        used = given or _compiled(expected_answer(task), f"task {task.task_id!r}: its answer")
        if given is None or not given.groups:
            return float(bool(used.search(text)))
        last = _last(given, text)
        return float(last is not None and (last.group(1) or "").strip() == expected_answer(task).strip())

    return reward


def _compiled(pattern: str, where: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise TrainingError(
            f"{where}: {pattern!r} is not a pattern that RE2 reads: {why}. See "
            "https://github.com/google/re2/wiki/Syntax"
        ) from None


def countdown(task: Task, text: str) -> float:
    """1 when the answer is arithmetic over each of the task's `numbers`, used once, that comes to its
    `target`; 0.1 when it uses them and comes to something else; else 0.

    The arithmetic is what stands in the last `<answer>…</answer>`, or in the last line; what follows an
    equals sign is passed over. +, -, *, / (or × and ÷), parentheses and whole numbers may be used.
    """
    numbers = task.metadata.get("numbers", task.metadata.get("nums"))
    target = task.metadata.get("target")
    try:
        wanted, given = Fraction(target), sorted(int(each) for each in numbers)  # type: ignore[arg-type]
    except (TypeError, ValueError, ZeroDivisionError):
        raise DataError(
            f"task {task.task_id!r}: judge_type: countdown needs rows with `numbers`, a list of whole "
            f"numbers, and `target`; this one has numbers {numbers!r} and target {target!r}"
        ) from None
    used: list[int] = []
    try:
        result = _evaluated(_expression_in(text), used)
    except (ArithmeticError, RecursionError, SyntaxError, ValueError, MemoryError):
        return 0.0
    if sorted(used) != given:
        return 0.0
    return 1.0 if result == wanted else _WELL_FORMED


def _expression_in(text: str) -> ast.expr:
    inside = text.rpartition("</answer>")[0].rpartition("<answer>")[2] if "</answer>" in text else text
    lines = inside.strip().splitlines() or [""]
    written = lines[-1].partition("=")[0].strip().translate({ord("×"): "*", ord("÷"): "/", ord("−"): "-"})
    if len(written) > _LONGEST_EXPRESSION or not _CHARACTERS.issuperset(written):
        raise ValueError("not arithmetic")
    return ast.parse(written, mode="eval").body


def _evaluated(node: ast.expr, used: list[int]) -> Fraction:
    """The value, exactly; the numbers that occur are appended to `used`."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _evaluated(node.left, used), _evaluated(node.right, used)
        return _OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    raise ValueError("not arithmetic")
