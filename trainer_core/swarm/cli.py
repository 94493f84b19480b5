"""`ajet-swarm`: start the server that many clients train one model through."""

from __future__ import annotations

import asyncio
import importlib.util
import ipaddress
import logging
import secrets
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer
import uvicorn

from trainer_core.swarm import ledger as rows
from trainer_core.swarm import overview
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


def overwatch(
    swarm_url: Annotated[str, typer.Option(help="The server.")] = f"http://localhost:{PORT}",
    refresh_interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")] = 2.0,
    token: Annotated[
        str | None, typer.Option(envvar="AJET_SWARM_TOKEN", help="What the server asks for.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print what is now, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same, as one JSON object.")] = False,
) -> None:
    """Parse, call, print."""
    server = (swarm_url if "://" in swarm_url else f"http://{swarm_url}").rstrip("/")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        if once or as_json:
            asyncio.run(_look(server, headers, as_json))
        else:
            asyncio.run(_watch(server, headers, refresh_interval))
    except (TrainingError, httpx.InvalidURL) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


app.command("overwatch", help="Show what a swarm server does, again and again; keys are at the bottom.")(
    overwatch
)
app.command("top", help="The same as overwatch.")(overwatch)


async def _look(server: str, headers: dict[str, str], as_json: bool) -> None:
    async with httpx.AsyncClient(base_url=server, headers=headers) as client:
        reading = await overview.read(client, overview.Reading())
    shown = orjson.dumps(reading.as_json(), option=orjson.OPT_INDENT_2).decode()
    typer.echo(shown if as_json else overview.text(server, reading, datetime.now()))
    if reading.error:
        raise typer.Exit(1)


async def _watch(server: str, headers: dict[str, str], interval_s: float) -> None:
    if importlib.util.find_spec("textual") is None:
        raise TrainingError("the screen needs the package textual: pip install textual (or use --once)")
    if not (sys.stdout.isatty() and sys.stderr.isatty()):  # it is drawn to the latter
        raise TrainingError("this is no terminal: use --once or --json")
    from trainer_core.swarm.overwatch import Overwatch

    async with httpx.AsyncClient(base_url=server, headers=headers) as client:
        await Overwatch(server, client, interval_s).run_async()


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
