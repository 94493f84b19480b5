"""An interpreter that has the heavy libraries imported and runs programs in forks of itself.

A program sees what it would see when started by itself (its own `__main__`, arguments, folder, variables,
limits; the interpreter's frames are not in its tracebacks), only two seconds sooner. In: one JSON line per
program on stdin. Out: `{"pid": …}` when it has started and `{"status": …}` when it has ended.
"""

import json
import os
import sys
import threading
import traceback
import types
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, NoReturn

from tests.faults.lab.confine import confine
from tests.faults.lab.types import Limits


class WarmInterpreter:
    """The parent's side."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.faults.lab.warm"]
        root = Path(__file__).parents[3]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=root, env=environment)

    def start(
        self,
        arguments: list[str],
        folder: Path,
        log: Path,
        environment: dict[str, str],
        limits: Limits,
        groups: list[Path],
    ) -> int:
        """Start a program (`arguments[0]`, in `folder`) and return its pid."""
        order = {
            "arguments": arguments,
            "folder": str(folder),
            "log": str(log),
            "environment": environment,
            "limits": asdict(limits),
            "groups": [str(group) for group in groups],
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()["pid"]

    def wait(self) -> int:
        """The end of the program, as a shell tells it."""
        return self._answer()["status"]

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def _serve() -> None:
    import datasets
    import huggingface_hub
    import safetensors.torch
    import tokenizers
    import torch
    import transformers

    torch.set_num_threads(1)
    names = (datasets, huggingface_hub, safetensors, tokenizers, torch, transformers)
    assert threading.active_count() == 1, f"{names} started a thread; a fork would not have it"
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
        print(json.dumps({"pid": pid}), flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(json.dumps({"status": status if status >= 0 else 128 - status}), flush=True)


def _become(order: dict[str, Any]) -> NoReturn:
    """Turn this fork into the program."""
    folder = Path(order["folder"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(number, target)
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(order["environment"])
    confine(Limits(**order["limits"]), folder, [Path(group) for group in order["groups"]])
    sys.argv = order["arguments"]
    sys.path[0] = str(folder)
    os._exit(_run(folder / order["arguments"][0]))


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
