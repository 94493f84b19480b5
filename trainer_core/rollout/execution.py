"""Where the user's code runs: in the caller's thread, in a thread of its own, in a process of its own.

Each is `await execute(workflow, task, tuner)`; to cancel it is to stop it. A thread that blocks cannot be
stopped: it goes on unheeded, and a process is killed with all that it started.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from trainer_core.rollout.failures import EpisodeError, Failure
from trainer_core.types import Task
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import LoadedWorkflow, WorkflowOutput, output_of

_T = TypeVar("_T")

Execute = Callable[[LoadedWorkflow, Task, Tuner], Awaitable[WorkflowOutput]]

_START_CHILD = (
    "import json, sys; fd, sys.path[:] = json.loads(sys.argv[1]); "
    "from trainer_core.rollout.child import main; main(fd)"
)


async def in_caller(workflow: LoadedWorkflow, task: Task, tuner: Tuner) -> WorkflowOutput:
    """Play in this thread and event loop, where a debugger is at home."""
    try:
        returned = workflow.make()(task, tuner)
        return output_of(await returned if inspect.isawaitable(returned) else returned)
    finally:
        await tuner.close()


async def in_one_loop(workflow: LoadedWorkflow, task: Task, tuner: Tuner) -> WorkflowOutput:
    """Play beside all other episodes in the caller's event loop, as libraries need that keep clients from one
    episode to the next; a function that is not async plays in a thread."""
    return await (in_caller if workflow.is_async else in_thread)(workflow, task, tuner)


async def in_thread(workflow: LoadedWorkflow, task: Task, tuner: Tuner) -> WorkflowOutput:
    """Play in a thread with an event loop of its own, so that code that blocks holds up no other episode."""
    inside: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    gone = threading.Event()

    async def play() -> WorkflowOutput:
        running = asyncio.current_task()
        assert running is not None
        inside.append((asyncio.get_running_loop(), running))
        if gone.is_set():
            raise asyncio.CancelledError
        return await in_caller(workflow, task, tuner)

    try:
        return await _in_own_thread(lambda: asyncio.run(play()), f"episode of {task.task_id}")
    except asyncio.CancelledError:
        gone.set()
        for loop, running in inside:
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(running.cancel)
        raise


async def in_process(workflow: LoadedWorkflow, task: Task, tuner: Tuner) -> WorkflowOutput:
    """Play in a process that leads a group of its own and dies with this one, however that ends."""
    child = _Child(workflow, task, tuner)
    try:
        return await _in_own_thread(child.play, f"episode of {task.task_id}")
    finally:
        child.kill()


class _Child:
    """A process that plays one episode; see `child.py` for its side."""

    def __init__(self, workflow: LoadedWorkflow, task: Task, tuner: Tuner) -> None:
        self._job = (workflow.protocol, task, tuner.reference())
        self._key = tuner.key
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _START_CHILD, json.dumps([theirs.fileno(), sys.path])]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
            )
        self._connection = Connection(ours.detach())

    def play(self) -> WorkflowOutput:
        """Blocks until the episode has ended."""
        with self._connection as connection:
            try:
                connection.send(self._job)
                while True:
                    kind, content = connection.recv()
                    if kind == "output":
                        output: WorkflowOutput = content
                        return output
                    if kind == "failure":
                        raise EpisodeError(content)
                    connection.send(self._key(content))
            except (EOFError, ConnectionError):
                status = self._process.wait()
                text = f"the workflow's process died with exit status {status}"
                raise EpisodeError(Failure("crash", text)) from None

    def kill(self) -> None:
        """Kill it and all that it started."""
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that is gone
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


async def _in_own_thread(work: Callable[[], _T], name: str) -> _T:
    """What `work` returns or raises, in a daemon thread; there are as many as there are callers."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[_T | None, BaseException | None]] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def body() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001  (SystemExit too: it is the caller's to judge)
            error = raised
        with suppress(RuntimeError):  # the caller's loop is closed: it has given up
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=body, name=name, daemon=True).start()
    result, error = await done
    if isinstance(error, asyncio.CancelledError | SystemExit | KeyboardInterrupt):
        raise EpisodeError(Failure("workflow", f"the workflow ended itself with {error!r}")) from error
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
