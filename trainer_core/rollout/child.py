"""The side of an episode that runs in a process of its own: play it, report, take all it started along.

Messages to the trainer: `("key", agent)`, which is answered with a key, and one `("output", WorkflowOutput)`
or `("failure", Failure)`. The end of the connection means that the trainer is gone.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from trainer_core.rollout.execution import in_caller
from trainer_core.rollout.failures import Failure, failure_of
from trainer_core.types import TrainingError
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import load_workflow


def main(fd: int) -> NoReturn:
    """Play the episode that comes over the socket `fd`."""
    os.set_inheritable(fd, False)  # or a program that it leaves behind would keep the connection open
    connection = Connection(fd)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, inbox), daemon=True).start()
    protocol, task, reference = inbox.get()
    asking = threading.Lock()

    def key(agent: str) -> str:
        with asking:
            connection.send(("key", agent))
            answer: str = inbox.get()
            return answer

    report: tuple[str, Any]
    try:
        workflow = load_workflow(protocol)
        report = ("output", asyncio.run(in_caller(workflow, task, Tuner(key=key, **reference))))
    except TrainingError as error:
        report = ("failure", Failure("workflow", str(error)))
    except BaseException as error:  # noqa: BLE001  (SystemExit too: the trainer wants to know)
        traceback.print_exc()
        report = ("failure", failure_of(error))
    try:
        connection.send(report)
    except Exception as error:  # noqa: BLE001  (the user's metadata may be anything)
        connection.send(("failure", Failure("workflow", f"its output cannot be sent: {error}")))
    sys.stdout.flush()
    _end_group()


def _read(connection: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        _end_group()


def _end_group() -> NoReturn:
    """Kill this process and all that the workflow has started and not waited for."""
    os.killpg(0, signal.SIGKILL)
    raise SystemExit
