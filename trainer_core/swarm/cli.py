"""`ajet-swarm`: the server that many clients train one model through, and what belongs to it."""

from __future__ import annotations

import asyncio
import importlib.util
import ipaddress
import logging
import secrets
import socket
import sys
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer

from trainer_core.config.load import load_config
from trainer_core.config.problems import ConfigError
from trainer_core.swarm import overview
from trainer_core.swarm.book import RefusedError
from trainer_core.swarm.engine import SWARM_MODE
from trainer_core.swarm.listening import listening
from trainer_core.swarm.serving import Place, run_clients, serving
from trainer_core.swarm.wire import PORT
from trainer_core.types import TrainingError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
_READY = "(Interchange server is running in blocking mode)"
"""AgentJet's scripts wait for these words."""
Host = Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0: all of them.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="AJET_SWARM_TOKEN",
        help="What clients have to send; one is made where others than this machine can connect.",
    ),
]
SwarmUrl = Annotated[str, typer.Option(envvar="AJET_SWARM_URL", help="Where the swarm server is.")]
TokenOfServer = Annotated[
    str | None, typer.Option(envvar="AJET_SWARM_TOKEN", help="What the swarm server asks for.")
]
Folder = Annotated[Path, typer.Option("--dir", help="Where the server keeps what it must not forget.")]


@app.callback()
def _swarm() -> None:
    """Many clients train one model over HTTP."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


@app.command(help="Start a swarm server; it ends, and its training with it, at Ctrl-C.")
def start(
    swarm_port: Annotated[int, typer.Option(help="The port.")] = PORT,
    host: Host = "127.0.0.1",
    conf: Annotated[Path | None, typer.Option(help="A config, for clients that send none.")] = None,
    token: Token = None,
    folder: Folder = Path("ajet-swarm"),
) -> None:
    """Parse, call, print."""
    if token is None and not _is_loopback(host):
        token = secrets.token_urlsafe(24)
        typer.echo(f"[swarm] token {token} (clients: AJET_SWARM_TOKEN={token})")
    do(_serve(Place(folder, host, swarm_port, token), conf))


async def _serve(place: Place, conf: Path | None) -> None:
    async with serving(place, conf) as (server, ending):
        typer.echo(f"[swarm] {place.url}: {server.book.state} {_READY}")
        await ending.wait()


@app.command(help="Start a server, its training and clients together; all that they print is shown.")
def run(
    conf: Annotated[Path, typer.Option(help="The config of the training.")],
    client: Annotated[
        list[str],
        typer.Option(
            help="A command, as typed in `sh`, that finds the server in AJET_SWARM_URL; several may be."
        ),
    ],
    swarm_port: Annotated[int, typer.Option(help="The port; 0: any that is free.")] = 0,
) -> None:
    """Parse, call, print."""
    try:
        ajet = load_config(conf, now=datetime.now(), overrides=[SWARM_MODE]).config.ajet
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(2) from None
    folder, port = Path(ajet.experiment_dir, "swarm"), swarm_port or _free_port()
    raise typer.Exit(do(run_clients(Place(folder, "127.0.0.1", port), conf, client)))


@app.command(help="The same as overwatch.", name="top")
@app.command(help="Show what a swarm server does, again and again; keys are at the bottom.")
def overwatch(
    swarm_url: SwarmUrl = f"http://localhost:{PORT}",
    refresh_interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")] = 2.0,
    token: TokenOfServer = None,
    once: Annotated[bool, typer.Option("--once", help="Print what is now, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same, as one JSON object.")] = False,
) -> None:
    """Parse, call, print."""
    server = (swarm_url if "://" in swarm_url else f"http://{swarm_url}").rstrip("/")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    is_once = once or as_json
    do(_look(server, headers, as_json) if is_once else _watch(server, headers, refresh_interval))


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
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        raise TrainingError("this is no terminal: use --once or --json")
    from trainer_core.swarm.overwatch import Overwatch

    async with httpx.AsyncClient(base_url=server, headers=headers) as client:
        await Overwatch(server, client, interval_s).run_async()


@app.command(help="Answer an application's requests from a swarm server, and train on what its users ask.")
def proxy(
    swarm_url: SwarmUrl = f"http://localhost:{PORT}",
    port: Annotated[int, typer.Option(help="The port.")] = 8090,
    host: Host = "127.0.0.1",
    num_repeat: Annotated[int, typer.Option(min=1, help="Answers to a request that is trained on.")] = 8,
    reward: Annotated[
        str | None, typer.Option(help="Compares them: file.py->function, called (request, answers).")
    ] = None,
    judge_model: Annotated[str | None, typer.Option(help="An outside model that does so instead.")] = None,
    judge_criteria: Annotated[
        str | None, typer.Option(help="What makes an answer better, for that model.")
    ] = None,
    sample_every: Annotated[int, typer.Option(min=1, help="Train on one request in so many.")] = 1,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Compare the answers that are there after so long.")
    ] = 120.0,
    wait_seconds: Annotated[
        float, typer.Option(min=0.0, help="The longest wait for a server that is not sampling.")
    ] = 60.0,
    token: TokenOfServer = None,
    fallback_base_url: Annotated[
        str | None, typer.Option(help="Of an endpoint that answers where the swarm server cannot, with /v1.")
    ] = None,
    fallback_api_key_env: Annotated[
        str | None, typer.Option(help="The environment variable that has its key; else it is sent none.")
    ] = None,
    fallback_model: Annotated[str, typer.Option(help="Its model.")] = "",
) -> None:
    """Parse, call, print."""
    from trainer_core.swarm.proxy import Proxy
    from trainer_core.swarm.proxy_group import ProxySettings, fallback_of
    from trainer_core.swarm.proxy_reward import comparison

    async def serve() -> None:
        compare = comparison(reward, judge_model, judge_criteria)
        fallback = fallback_of(fallback_base_url, fallback_api_key_env, fallback_model)
        settings = ProxySettings(num_repeat, sample_every, max_seconds, wait_seconds, fallback)
        application = Proxy(swarm_url, compare, settings, token=token)
        async with listening(application, host, port) as ending:
            typer.echo(f"[proxy] http://{host}:{port}/v1: counters at /requests")
            await ending.wait()
            await application.close()

    do(serve())


def do(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of it; its errors are lines for a person, and end the program."""
    try:
        return asyncio.run(work)
    except (TrainingError, RefusedError, httpx.InvalidURL) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])


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
