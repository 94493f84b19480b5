"""The root exception of a log: Python itself writes the chains that are read here."""

import subprocess
import sys
import textwrap

import pytest

from harness.diagnosis import tracebacks


def output_of(code: str) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return list(enumerate((done.stdout + done.stderr).splitlines(), start=1))


def root_of(lines: list[tuple[int, str]]) -> str:
    block = tracebacks.root(tracebacks.find(lines))
    assert block is not None
    assert dict(lines)[block.line].endswith(block.exception)
    return block.exception


def test_explicit_cause() -> None:
    code = """
    try:
        {}["answer"]
    except KeyError as error:
        raise RuntimeError("worker failed") from error
    """
    assert root_of(output_of(code)) == "KeyError: 'answer'"


def test_error_while_handling_an_error() -> None:
    code = """
    try:
        1 / 0
    except ZeroDivisionError:
        try:
            int("x")
        except ValueError:
            open("/nowhere/at/all")
    """
    assert root_of(output_of(code)) == "ZeroDivisionError: division by zero"


def test_handled_and_printed_earlier_is_not_the_root() -> None:
    code = """
    import traceback
    try:
        1 / 0
    except ZeroDivisionError:
        traceback.print_exc()
    raise OSError(28, "No space left on device")
    """
    assert root_of(output_of(code)) == "OSError: [Errno 28] No space left on device"


def test_suppressed_context_is_not_shown_so_the_visible_one_is_the_root() -> None:
    code = """
    class ConfigProblem(Exception): ...
    try:
        1 / 0
    except ZeroDivisionError:
        raise ConfigProblem("bad key") from None
    """
    assert root_of(output_of(code)).endswith("ConfigProblem: bad key")


def test_ray_prefixes_are_seen_through() -> None:
    lines = output_of("def f():\n    raise ValueError('bad row')\nf()")
    prefixed = [(number, f"(TaskRunner pid=123) {text}") for number, text in lines]
    assert root_of(prefixed) == "ValueError: bad row"


@pytest.mark.parametrize("cut", [1, 2])
def test_an_unfinished_traceback_is_left_out(cut: int) -> None:
    assert tracebacks.find(output_of("1/0")[:-cut]) == []


def test_words_that_look_like_exceptions_are_none() -> None:
    lines = ["step:1 - actor/pg_loss:0.5", "Error: not a traceback", "ValueError: said in passing", "done"]
    assert tracebacks.find(enumerate(lines, start=1)) == []
