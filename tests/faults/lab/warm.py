"""An interpreter that has the heavy libraries imported and runs programs in forks of itself.

A program sees what it would see when started by itself (its own `__main__`, arguments, folder, variables,
limits; the interpreter's frames are not in its tracebacks), only two seconds sooner. In, on stdin: the
arguments of `_become` for each program, pickled. Out: a line with its pid, then one with its exit status.
"""

import gc
import os
import pickle
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NoReturn

from tests.faults.lab.confine import confine
from tests.faults.lab.types import Limits


class WarmInterpreter:
    """The parent's side."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.faults.lab.warm"]
        root = Path(__file__).parents[3]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE, cwd=root, env=environment)

    def start(
        self,
        arguments: list[str],
        folder: Path,
        environment: dict[str, str],
        limits: Limits,
        groups: list[Path],
    ) -> int:
        """Start a program (`arguments[0]`, in `folder`) and return its pid."""
        assert self._process.stdin is not None
        pickle.dump((arguments, folder, environment, limits, groups), self._process.stdin)
        self._process.stdin.flush()
        return self.wait()

    def wait(self) -> int:
        """The end of the program, as a shell tells it."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


@contextmanager
def warm_when_asked(environment: dict[str, str]) -> Iterator[Callable[[], WarmInterpreter]]:
    """Gives the warm interpreter, which starts when it is asked for first."""
    with ExitStack() as at_end:

        @cache
        def interpreter() -> WarmInterpreter:
            started = WarmInterpreter(environment)
            at_end.callback(started.close)
            return started

        yield interpreter


def _serve() -> None:
    gc.disable()
    import datasets
    import huggingface_hub
    import safetensors.torch
    import tokenizers
    import torch
    import transformers

    gc.freeze()  # a fork that looks through all of it for garbage copies it
    gc.enable()
    torch.set_num_threads(1)
    names = (datasets, huggingface_hub, safetensors, tokenizers, torch, transformers)
    assert threading.active_count() == 1, f"{names} started a thread; a fork would not have it"
    while sys.stdin.buffer.peek(1):
        order = pickle.load(sys.stdin.buffer)
        pid = os.fork()
        if pid == 0:
            _become(*order)
        print(pid, flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(status if status >= 0 else 128 - status, flush=True)


def _become(
    arguments: list[str], folder: Path, environment: dict[str, str], limits: Limits, groups: list[Path]
) -> NoReturn:
    """Turn this fork into the program."""
    log = os.open(folder / "pane.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(number, target)
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    confine(limits, folder, groups)
    sys.argv = arguments
    sys.path[0] = str(folder)
    os._exit(_run(folder / arguments[0]))


def _run(program: Path) -> int:
    """Run it as `__main__`; its exit status. What the interpreter prints at an exception is printed alike."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(program), __builtins__=__builtins__)
    sys.modules["__main__"] = main
    status = 0
    try:
        exec(compile(program.read_text(), str(program), "exec"), main.__dict__)
    except SystemExit as wanted:
        status = wanted.code if isinstance(wanted.code, int) else int(wanted.code is not None)
        if isinstance(wanted.code, str):
            print(wanted.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001
        _print_below(error)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _print_below(error: BaseException) -> None:
    """Print the traceback without the frame of this file, in every exception of the chain."""
    seen: BaseException | None = error
    while seen is not None:
        if seen.__traceback__ is not None and seen.__traceback__.tb_frame.f_code.co_filename == __file__:
            seen.__traceback__ = seen.__traceback__.tb_next
        seen = seen.__cause__ or seen.__context__
    sys.stdout.flush()
    traceback.print_exception(error)


if __name__ == "__main__":
    _serve()
