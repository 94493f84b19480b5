"""`ajet-swarm`: start the server that many clients train one model through."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from trainer_core.swarm import ledger as rows
from trainer_core.swarm.book import RefusedError
from trainer_core.swarm.ledger import Ledger
from trainer_core.swarm.server import SwarmServer
from trainer_core.swarm.wire import PORT
from trainer_core.types import TrainingError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
_BACKLOG = 2_048


@app.callback()
def _swarm() -> None:
    """Many clients train one model over HTTP."""


@app.command(help="Start a swarm server; it ends, and its training with it, at Ctrl-C.")
def start(
    swarm_port: Annotated[int, typer.Option(help="The port.")] = PORT,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0: all of them.")] = "127.0.0.1",
    conf: Annotated[Path | None, typer.Option(help="A config, for clients that send none.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="AJET_SWARM_TOKEN",
            help="What clients have to send; one is made where others than this machine can connect.",
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--dir", help="Where the server keeps what it must not forget.")
    ] = Path("ajet-swarm"),
) -> None:
    """Parse, call, print."""
    if token is None and not _is_loopback(host):
        token = secrets.token_urlsafe(24)
        typer.echo(f"[swarm] token {token} (clients: AJET_SWARM_TOKEN={token})")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve(folder, host, swarm_port, token, conf))
    except TrainingError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


async def serve(folder: Path, host: str, port: int, token: str | None, conf: Path | None) -> None:
    """Run a server until it is told to end.

    Raises:
        TrainingError: it cannot listen there, or its folder or config cannot be used.
    """
    ledger = Ledger(folder / "swarm.sqlite")
    try:
        secret = await ledger.do(_secret)
        server = SwarmServer(ledger, folder, secret=secret, token=token)
        await server.engine.reopen()
        if conf is not None and server.engine.training is None:
            try:
                await server.engine.configure(await asyncio.to_thread(conf.read_text, encoding="utf-8"))
            except (OSError, RefusedError) as error:
                raise TrainingError(f"--conf {conf}: {error}") from error
        config = uvicorn.Config(
            server,
            interface="asgi3",
            host=host,
            port=port,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            access_log=False,
            log_level="warning",
            log_config=None,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=1,
        )
        running = _Announced(config, f"[swarm] http://{host}:{port}: {server.book.state}")
        watching = asyncio.create_task(server.watch())
        try:
            await running.serve()
        except SystemExit:
            raise TrainingError(f"the swarm server cannot listen at {host}:{port}; is one running?") from None
        finally:
            watching.cancel()
            await server.engine.close()
    finally:
        ledger.close()


class _Announced(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self._line = line

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:  # AgentJet's scripts wait for the words in brackets
            print(f"{self._line} (Interchange server is running in blocking mode)", flush=True)


def _secret(database: Any) -> bytes:
    """Of the keys for the model, made once."""
    found = rows.noted("secret")(database)
    if found is None:
        found = secrets.token_hex(32)
        rows.note("secret", found)(database)
    return bytes.fromhex(found)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="ajet-swarm")


if __name__ == "__main__":
    main()
