"""`ajet-swarm`: the server that many clients train one model through, and an endpoint for applications."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from trainer_core.config.tasks import TaskJudge
from trainer_core.gateway.recording import OtherModel
from trainer_core.outside_model import OutsideModel
from trainer_core.swarm import ledger as rows
from trainer_core.swarm.book import RefusedError
from trainer_core.swarm.ledger import Ledger
from trainer_core.swarm.proxy import Proxy
from trainer_core.swarm.proxy_group import ProxySettings
from trainer_core.swarm.proxy_reward import function_reward, judge_reward
from trainer_core.swarm.server import SwarmServer
from trainer_core.swarm.wire import PORT
from trainer_core.types import TrainingError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
_BACKLOG = 2_048
_RUNNING = "(Interchange server is running in blocking mode)"
"""AgentJet's scripts wait for these words."""


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


@app.command(help="Answer an application's requests from a swarm server, and train on what its users ask.")
def proxy(
    swarm_url: Annotated[str, typer.Option(help="Where the swarm server is.")] = f"http://127.0.0.1:{PORT}",
    port: Annotated[int, typer.Option(help="The port.")] = 8090,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0: all of them.")] = "127.0.0.1",
    num_repeat: Annotated[int, typer.Option(min=1, help="Answers to a request that is trained on.")] = 8,
    reward: Annotated[
        str | None, typer.Option(help="Compares them: file.py->function, called (request, answers).")
    ] = None,
    judge_model: Annotated[str | None, typer.Option(help="An outside model that does so instead.")] = None,
    judge_criteria: Annotated[
        str, typer.Option(help="What makes an answer better, for that model.")
    ] = TaskJudge().criteria,
    sample_every: Annotated[int, typer.Option(min=1, help="Train on one request in so many.")] = 1,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Compare the answers that are there after so long.")
    ] = 120.0,
    wait_seconds: Annotated[
        float, typer.Option(min=0.0, help="The longest wait for a server that is not sampling.")
    ] = 60.0,
    token: Annotated[str | None, typer.Option(envvar="AJET_SWARM_TOKEN", help="Of the swarm server.")] = None,
    fallback_base_url: Annotated[
        str | None, typer.Option(help="Of an endpoint that answers where the swarm server cannot, with /v1.")
    ] = None,
    fallback_api_key_env: Annotated[
        str | None, typer.Option(help="The environment variable that has its key; else it is sent none.")
    ] = None,
    fallback_model: Annotated[str, typer.Option(help="Its model.")] = "",
) -> None:
    """Parse, call, print."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        if (reward is None) == (judge_model is None):
            raise TrainingError("give one of --reward and --judge-model: what compares the answers")
        fallback = _fallback(fallback_base_url, fallback_api_key_env, fallback_model)
        compare = (
            function_reward(reward)
            if reward is not None
            else judge_reward(OutsideModel(judge_model or ""), judge_criteria)
        )
        settings = ProxySettings(num_repeat, sample_every, max_seconds, wait_seconds, fallback)
        asyncio.run(_proxy(Proxy(swarm_url, compare, settings, token=token), host, port))
    except TrainingError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


def _fallback(base_url: str | None, key_env: str | None, model: str) -> OtherModel | None:
    if base_url is None:
        return None
    if not model:
        raise TrainingError("--fallback-base-url needs --fallback-model, the name to ask it for")
    if key_env is not None and key_env not in os.environ:
        raise TrainingError(f"--fallback-api-key-env: {key_env} is not set; export it, or name another")
    return OtherModel(base_url, os.environ[key_env] if key_env else "none", model)


async def _proxy(proxy: Proxy, host: str, port: int) -> None:
    line = f"[proxy] http://{host}:{port}/v1: counters at /requests"
    await _listen(proxy, host, port, line, proxy.close)


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
        watching = asyncio.create_task(server.watch())
        line = f"[swarm] http://{host}:{port}: {server.book.state} {_RUNNING}"
        try:
            await _listen(server, host, port, line, server.engine.close)
        finally:
            watching.cancel()
    finally:
        ledger.close()


async def _listen(
    application: Any, host: str, port: int, line: str, close: Callable[[], Awaitable[None]]
) -> None:
    """Serve an ASGI application until it is told to end. `line` is printed once it listens; `close` is called
    at the end, while requests are still answered.

    Raises:
        TrainingError: it cannot listen there.
    """
    config = uvicorn.Config(
        application,
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
    try:
        await _Announced(config, line, close).serve()
    except SystemExit:
        raise TrainingError(f"the server cannot listen at {host}:{port}; is one running there?") from None


class _Announced(uvicorn.Server):
    """Says when it listens, and ends in order at Ctrl-C or SIGTERM."""

    def __init__(self, config: uvicorn.Config, line: str, close: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._line, self._close = line, close

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._line, flush=True)

    async def shutdown(self, sockets: Any = None) -> None:
        await self._close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Leave it at that: uvicorn would raise the signal again when it has ended, before we have."""
        self.force_exit = self.should_exit
        self.should_exit = True


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
