"""A swarm server as a process: with its ledger, its engine, and clients beside it if asked for."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sqlite3
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trainer_core.swarm import ledger as rows
from trainer_core.swarm.book import RefusedError
from trainer_core.swarm.ledger import Ledger
from trainer_core.swarm.listening import listening
from trainer_core.swarm.server import SwarmServer
from trainer_core.swarm.states import Event, State
from trainer_core.types import TrainingError

_LOOKS_S = 0.2
_GRACE_S = 10.0


@dataclass(frozen=True)
class Place:
    """Where a server is, and who may ask it."""

    folder: Path
    """What it must not forget."""
    host: str
    port: int
    token: str | None = None

    @property
    def url(self) -> str:
        """What clients on this machine use."""
        return f"http://{self.host}:{self.port}"


@asynccontextmanager
async def serving(place: Place, conf: Path | None) -> AsyncIterator[tuple[SwarmServer, asyncio.Event]]:
    """A server, for as long as the context is open; its training ends with it. Yields it, and what a signal
    sets. `conf`: a config for clients that send none.

    Raises:
        TrainingError: it cannot listen there, or its folder or the config cannot be used.
    """
    ledger = Ledger(place.folder / "swarm.sqlite")
    try:
        server = SwarmServer(ledger, place.folder, secret=await ledger.do(_secret), token=place.token)
        async with listening(server, place.host, place.port) as ending:
            await server.engine.reopen()
            if conf is not None and server.engine.training is None:
                try:
                    text = await asyncio.to_thread(conf.read_text, encoding="utf-8")
                    taken = await server.engine.configure(text)
                except (OSError, RefusedError) as error:
                    raise TrainingError(f"{conf}: {error}") from error
                for warning in taken["warnings"]:
                    print(f"warning: {warning}", file=sys.stderr, flush=True)
            watching = asyncio.create_task(server.watch())
            try:
                yield server, ending
            finally:
                watching.cancel()
                await server.engine.close()
    finally:
        ledger.close()


def _secret(database: sqlite3.Connection) -> bytes:
    """Of the keys for the model, made once."""
    found = rows.noted("secret")(database)
    if found is None:
        found = secrets.token_hex(32)
        rows.note("secret", found)(database)
    return bytes.fromhex(found)


async def run_clients(place: Place, conf: Path, commands: Sequence[str]) -> int:
    """A server, its training and clients together: what all of them print goes to stdout. It ends when the
    training has done its steps, or when the clients have ended.

    Returns:
        0 when all went well, 1 when the training or a client failed (stderr says how), 130 after a signal.

    Raises:
        TrainingError: see `serving`.
    """
    async with serving(place, conf) as (server, ending):
        print(f"[swarm] {place.url}", flush=True)
        console = _Console(Path(server.engine.experiment_dir, "console.log"))
        await server.engine.start()
        token = {} if place.token is None else {"AJET_SWARM_TOKEN": place.token}
        environment = {**os.environ, **token, "AJET_SWARM_URL": place.url}
        clients = [
            await asyncio.create_subprocess_shell(each, env=environment, process_group=0) for each in commands
        ]
        failed: set[int] = set()

        def tell() -> None:
            for number, client in enumerate(clients):
                if client.returncode and number not in failed:  # the others go on
                    failed.add(number)
                    told = (
                        f"error: the client `{commands[number]}` ended with exit status {client.returncode}"
                    )
                    print(told, file=sys.stderr, flush=True)

        try:
            while not ending.is_set() and server.book.state is not State.OFFLINE:
                tell()
                if all(each.returncode is not None for each in clients):
                    break
                console.show()
                with suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), _LOOKS_S)
        finally:
            tell()
            await asyncio.gather(*map(_end, clients))
            detail = server.book.detail
            await server.engine.stop()
            console.show()
        if ending.is_set():
            return 128 + signal.SIGINT
        if server.engine.outcome is Event.CRASHED:
            print(f"error: {detail}", file=sys.stderr, flush=True)
            return 1
        return 1 if failed else 0


async def _end(client: Process) -> None:
    """End a client and all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(client.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(client.wait(), _GRACE_S)
            return


class _Console:
    """What a training prints from now on, passed on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size if path.is_file() else 0

    def show(self) -> None:
        """Print the lines that have come."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        if whole := new[: new.rfind(b"\n") + 1]:
            sys.stdout.buffer.write(whole)
            sys.stdout.flush()
            self._at += len(whole)
