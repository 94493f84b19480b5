"""An ASGI application at an address, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from trainer_core.types import TrainingError

_BACKLOG = 2_048
_STOPS_IN_S = 1


class _Server(uvicorn.Server):
    """Leaves signals to who listens: what runs behind it ends first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(application: Any, host: str, port: int) -> AsyncIterator[asyncio.Event]:
    """Serve while the context is open. Yields what SIGINT and SIGTERM set.

    Raises:
        TrainingError: it cannot listen there.
    """
    ending, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    try:
        place = socket.create_server((host, port), backlog=_BACKLOG)
    except OSError as error:
        told = f"cannot listen at {host}:{port}: {error.strerror}"
        raise TrainingError(f"{told}. Choose another port, or end what runs there") from error
    place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer in two parts takes 40 ms
    config = uvicorn.Config(
        application,
        interface="asgi3",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        access_log=False,
        log_level="warning",
        log_config=None,
        timeout_graceful_shutdown=_STOPS_IN_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([place]))
    try:
        yield ending
    finally:
        server.should_exit = True
        await serving
        place.close()
