"""Tracebacks as programs print them. What Python prints comes from Python itself, by generated chains."""

import random
import re
import traceback
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.diagnosis.types import Fault
from tests.harness.diagnosis.reading.reading_text import faults_of, only_fault

UNHEARD = type("Unheard", (Exception,), {})
KINDS = (KeyError, ValueError, OSError, RuntimeError, ZeroDivisionError, TimeoutError, UNHEARD)
MESSAGES = ("", "bad row", "two\nlines", "size (3) must match: 4", "no 'x' in {'a': 1}", "100% done [1/2]")

_PARTS = re.split(r"^== ", Path(__file__).with_name("tracebacks.txt").read_text(), flags=re.MULTILINE)[1:]
TEXTS = {head: text for head, _, text in (part.partition("\n") for part in _PARTS)}
"""Texts of tracebacks by name; the names of tables hold what is to be found."""


class Made:
    """Exceptions of random kinds and depths, raised for real; `truth` is what a reader must find: type, first
    line and functions of each, root first."""

    def __init__(self, chance: random.Random, links: int) -> None:
        self._errors: list[BaseException] = []
        self.error = self._chain(chance, links)
        self.text = "".join(traceback.format_exception(self.error))
        self.truth = [
            (
                type(error).__qualname__,
                traceback.format_exception_only(error)[0].splitlines()[0].rstrip(),
                [frame.name for frame in traceback.extract_tb(error.__traceback__)],
            )
            for error in self._errors
        ]

    def _chain(self, chance: random.Random, links: int) -> Exception:
        earlier = self._chain(chance, links - 1) if links > 1 else None
        kind, message, depth = chance.choice(KINDS), chance.choice(MESSAGES), chance.randrange(1, 4)
        explicit = chance.random() < 0.5
        try:
            self._raise(kind(message), earlier, explicit, depth)
        except Exception as error:  # noqa: BLE001
            self._errors.append(error)
            return error
        raise AssertionError

    def _raise(self, error: Exception, earlier: BaseException | None, explicit: bool, depth: int) -> None:
        if depth > 1:
            self._raise(error, earlier, explicit, depth - 1)
        if earlier is None:
            raise error
        if explicit:
            raise error from earlier
        try:
            raise earlier
        except BaseException:  # noqa: BLE001
            raise error  # noqa: B904


def name_of(fault: Fault) -> str:
    return fault.type.split(".")[-1]


def functions(fault: Fault) -> list[str]:
    return [frame.function for frame in fault.frames]


def lines_of_others(chance: random.Random, source: str) -> list[str]:
    return [f"({source}) step:{step} - loss:{chance.random():.3f}" for step in range(chance.randrange(4))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    links=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    style=st.integers(0, 2),
)
def test_chains_of_several_processes_at_once_are_read_back(
    tmp_path: Path, seed: int, links: list[int], style: int
) -> None:
    chance = random.Random(seed)
    made = [Made(chance, count) for count in links]
    name = ("(Worker{0} pid={0}) ", "[rank{0}]: ", "w-{0}  | ")[style]
    talks = [
        [f"{name.format(place)}{line}" for line in one.text.splitlines()] for place, one in enumerate(made, 1)
    ]
    mixed: list[str] = []
    while any(talks):
        talk = chance.choice([talk for talk in talks if talk])
        mixed.append(talk.pop(0))
        if chance.random() < 0.1:
            mixed += lines_of_others(chance, "Other pid=9")
    faults = faults_of(tmp_path, "\n".join(mixed))
    for place, one in enumerate(made, start=1):
        mine = sorted((each for each in faults if str(place) in each.source), key=lambda each: each.depth)
        assert [(name_of(each), each.said[0].rstrip(), functions(each)) for each in mine] == one.truth
        assert {fault.chain > 0 for fault in mine} == {len(mine) > 1}
        assert len({fault.chain for fault in mine}) == 1


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as caught:  # noqa: BLE001
        return caught


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3), outer=st.booleans()
)
def test_groups_in_groups_are_read_back(tmp_path: Path, seed: int, sizes: list[int], outer: bool) -> None:
    chance = random.Random(seed)
    made: list[Made] = []
    error: Exception | None = None
    for size in sizes:
        made += (parts := [Made(chance, chance.randrange(1, 3)) for _ in range(size)])
        error = raised(
            ExceptionGroup("several", [*(part.error for part in parts), *([error] if error else [])])
        )
        made.sort(key=lambda one: one in parts, reverse=True)
    if outer:
        error = raised(RuntimeError("last"), error)
    faults = faults_of(tmp_path, "".join(traceback.format_exception(error)))
    told = [(name_of(fault), functions(fault)) for fault in faults]
    truth = [(kind, frames) for one in made for kind, _, frames in one.truth]
    assert told == [*truth, *([("RuntimeError", ["raised"])] if outer else [])]
    assert all(fault.wrapped_in == ("ExceptionGroup",) for fault in faults[: len(truth)])
    if outer:
        assert [fault.depth for fault in faults] == list(range(len(faults)))


def test_parts_of_a_group_are_roots_and_the_group_only_carries_them(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, TEXTS["groups"])
    assert [fault.type for fault in faults] == ["KeyError", "ValueError", "ZeroDivisionError", "OSError"]
    assert [(fault.chain, fault.depth) for fault in faults] == [(1, 0), (1, 1), (0, 0), (0, 0)]
    assert [fault.wrapped_in for fault in faults] == [("ExceptionGroup",)] * 4
    # what follows from it is in one chain with its parts
    faults = faults_of(tmp_path, TEXTS["groups"] + TEXTS["after groups"])
    assert {fault.chain for fault in faults} == {1}
    assert [fault.depth for fault in faults] == [0, 1, 2, 3, 4]
    assert faults[-1].wrapped_in == ()


@pytest.mark.parametrize("head", [head for head in TEXTS if head.startswith("carried | ")])
def test_the_true_exception_is_found_in_what_carries_it(tmp_path: Path, head: str) -> None:
    fault = only_fault(tmp_path, TEXTS[head])
    found = (fault.type, fault.message, functions(fault), fault.wrapped_in)
    assert list(map(str, found)) == head.split(" | ")[2:]


def test_one_exception_carries_those_of_several_ranks(tmp_path: Path) -> None:
    first, second = faults_of(tmp_path, TEXTS["several ranks"])
    assert (first.message, second.message) == ("RuntimeError: Missing key v", "RuntimeError: Missing key w")
    assert first.wrapped_in == ("torch.distributed.checkpoint.api.CheckpointException",)


def test_a_remote_traceback_is_the_root_of_what_its_caller_raises(tmp_path: Path) -> None:
    root, raised = faults_of(tmp_path, TEXTS["remote"])
    assert (root.depth, root.frames[-1].function) == (0, "worker")
    assert root.wrapped_in == ("multiprocessing.pool.RemoteTraceback",)
    assert (raised.depth, raised.wrapped_in, raised.chain) == (1, (), root.chain)
    assert root.uncaught


def test_what_a_chain_merely_wraps_stands_in_its_root(tmp_path: Path) -> None:
    root = faults_of(tmp_path, TEXTS["merely wrapped"])[0]
    assert (root.type, root.wrapped_in) == ("TypeError", ("datasets.exceptions.DatasetGenerationError",))


@pytest.mark.parametrize("head", [head for head in TEXTS if head.startswith("form | ")])
def test_forms_of_tracebacks(tmp_path: Path, head: str) -> None:
    fault = only_fault(tmp_path, TEXTS[head])
    found = (fault.type, len(fault.said), functions(fault))
    assert list(map(str, found)) == head.split(" | ")[2:]
    assert TEXTS[head].splitlines()[fault.line - 1].endswith(fault.said[0])


@pytest.mark.parametrize(
    "head",
    [
        "Exception ignored in: <function A.__del__ at 0x7f>",
        "Exception ignored in atexit callback: <function f at 0x7f>",
        "Error in atexit._run_exitfuncs:",
        "--- Logging error ---",
        "2026-11-21 06:12:13,825 WARNING [cache] could not read, retrying",
    ],
)
def test_what_is_announced_as_got_over_is_handled(tmp_path: Path, head: str) -> None:
    text = f'{head}\nTraceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\nKeyError: 1\n'
    assert only_fault(tmp_path, text).handled
    for other in ("starting", "overflow, ignoring this gradient"):
        text = text.replace(head, f"2026-11-21 06:12:13,825 INFO [trainer] {other}")
        assert not only_fault(tmp_path, text).handled


def test_an_exception_that_python_ignores_below_another_one_does_not_speak_of_it(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in main\n    x()\nRuntimeError: 1\n'
    ignored = (
        "Exception ignored in: <function A.__del__ at 0x7f>\nAssertionError: can only test a child process\n"
    )
    first, second = faults_of(tmp_path, text + ignored)
    assert (first.type, first.handled) == ("RuntimeError", False)
    assert (second.type, second.handled) == ("AssertionError", True)


def test_what_a_program_prints_below_an_exception_under_its_own_name_is_no_part_of_it(tmp_path: Path) -> None:
    text = "ValueError: unsupported scheduler\n[tracker] upload 1/25 ... connection reset by peer\n"
    assert only_fault(tmp_path, text).said == ("ValueError: unsupported scheduler",)


def test_a_warning_above_the_last_words_of_a_log_may_be_about_something_else(tmp_path: Path) -> None:
    text = "2026-11-21 06:12:13,825 WARNING [registry] failed to find a scope\n"
    text += 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\nKeyError: 1\n'
    assert not only_fault(tmp_path, text).handled
    assert only_fault(tmp_path, f"{text}\nstep 3\n").handled


def test_a_retry_said_right_below_makes_it_handled_unless_it_ended_the_process(tmp_path: Path) -> None:
    text = TEXTS["tried again"]
    assert only_fault(tmp_path, text.format("run")).handled
    fatal = only_fault(tmp_path, text.format("<module>"))
    assert fatal.uncaught
    assert not fatal.handled


def test_a_call_stack_is_no_traceback(tmp_path: Path) -> None:
    first, second = faults_of(tmp_path, TEXTS["call stack"])
    assert (first.type, first.handled) == ("TypeError", True)
    assert (second.type, second.handled, second.frames) == ("ValueError", False, ())


def test_an_unfinished_traceback_is_told_by_its_first_line(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\n')
    assert (fault.line, fault.type, functions(fault)) == (1, "", ["f"])


def test_frames_keep_their_lines_and_code(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, TEXTS["frames"])
    assert [(frame.line, frame.path, frame.code) for frame in fault.frames] == [
        (2, "/opt/a.py", "x = g()"),
        (5, "/opt/b.py", "return 1/0"),
    ]
    assert fault.line == 8


def test_words_that_look_like_exceptions_are_none(tmp_path: Path) -> None:
    lines = ["step:1 - val/error:0.5", "UserWarning: error", "the ValueError: in passing", "Epoch: 3 errors"]
    assert [fault.type for fault in faults_of(tmp_path, "\n".join(lines)) if fault.type] == []


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_other_lines_inside_do_not_end_it(tmp_path: Path, cut: int) -> None:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "    x()", "KeyError: 1"]
    bar = "45%|████▌     | 9/20 [00:03<00:04,  2.7it/s]"
    lines[cut:cut] = ["2026-11-21 06:12:13,825 INFO [other] still here", bar]
    fault = only_fault(tmp_path, "\n".join(lines))
    assert (fault.type, functions(fault)) == ("KeyError", ["f"])


def test_a_prefix_that_only_the_launcher_knows_is_taken_off(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, TEXTS["launcher"])
    assert (fault.type, fault.message) == ("openai.RateLimitError", "openai.RateLimitError: Error code: 429")
    assert functions(fault) == ["judge"]


@pytest.mark.parametrize("quoted", ["[sandbox] problem 1 exit=1\n", "[tool output] "])
def test_what_a_quoted_program_prints_is_handled(tmp_path: Path, quoted: str) -> None:
    error = "ModuleNotFoundError: No module named 'sympyy'\n"
    text = f'{quoted}Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n{error}'
    assert only_fault(tmp_path, text).handled


def test_a_record_of_its_own_below_an_exception_says_nothing_about_it(tmp_path: Path) -> None:
    text = "KeyError: 'x'\nWARNING 11-21 06:12:13 request 871 failed (ReadTimeout), retrying in 1s [1/5]\n"
    assert not only_fault(tmp_path, text).handled
