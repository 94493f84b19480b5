"""One flag or one variable of a launch command, as `harness.command` reads and sets it.

In: shell text. Out: shell text, or a SweepError for what is not clear there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.command import CommandError, check_reaches, read
from harness.sweep.types import SweepError


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise SweepError(str(error)) from error


def set_flag(command: str, flag: str, value: str) -> str:
    """The command with the value of `flag` (`--lr`, `-n`, or `a.b` for `a.b=c`) replaced."""
    with _refused():
        return read(command).with_setting(f"arg:{flag}", value).text


def flag_value(command: str, flag: str) -> str | None:
    """The value that the command gives `flag`; None where it does not. Raises SweepError."""
    with _refused():
        return read(command).value(f"arg:{flag}")


def script_given(command: str, flag: str) -> str | None:
    """The shell script that `set_flag` would give a flag which the command does not have."""
    with _refused():
        return read(command).script_given(f"arg:{flag}")


def set_variable(command: str, name: str, value: str) -> str:
    """The command with the environment variable `name` set. Raises SweepError."""
    with _refused():
        return read(command).with_setting(f"env:{name}", value).text


def variable_value(command: str, name: str) -> str | None:
    """The value that the command itself gives the variable; or None. Raises SweepError."""
    with _refused():
        return read(command).value(f"env:{name}")


def refuse_unheard(command: str, name: str, codebase: Path) -> None:
    """Refuse a variable that the training would not see, or see with another value than the run's."""
    with _refused():
        check_reaches(command, name, codebase)
