"""What a client of a swarm server asks of its engine: to start, to stop, to wait for it."""

from __future__ import annotations

import atexit
import inspect
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import httpx

from trainer_core.swarm.connection import PATIENCE_S, SHORT_PATIENCE_S, Connection
from trainer_core.swarm.errors import (
    NO_CODE,
    SwarmError,
    SwarmRefusedError,
    SwarmServerOfflineError,
    error_of,
)
from trainer_core.swarm.states import State

if TYPE_CHECKING:
    from trainer_core.swarm.job import AgentJetJob

CANNOT_CONNECT = "ENGINE.CANNOT_CONNECT"
"""What `get_engine_status` returns where no server answers."""
POLL_S = 30.0
"""So long the server is asked to wait for what it is asked for."""
_AGAIN_S = 2.0
_log = logging.getLogger(__name__)


class EngineClient:
    """See `AsyncSwarmClient`."""

    _blocks = False

    def __init__(
        self,
        server_url: str,
        verbose: bool = True,
        agentjet_job: AgentJetJob | None = None,
        auto_start_swarm_server: bool = False,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """
        Args:
            verbose: print what goes on; else it is logged.
            agentjet_job: for `sync_train_config`.
            auto_start_swarm_server: start one on this machine, which ends with this program, unless one runs.
            token: of the server; None: the environment variable AJET_SWARM_TOKEN, if it is set.
            transport: instead of the network, of a client that does not block.

        Raises:
            ValueError: the url is not one, or not one of this machine where a server is to be started.
        """
        given: Any = {"verbose": verbose, "blocks": self._blocks, "transport": transport}
        self._to = Connection(server_url, token, **given)
        self.server_url, self.client_uuid = self._to.url, self._to.client_uuid
        self._job = agentjet_job
        self._given_up_at: dict[str, float] = {}
        """When each episode that was begun is given up."""
        if auto_start_swarm_server:
            _start_server(server_url)

    async def get_engine_status(self) -> tuple[str, dict[str, Any]]:
        """The engine's state, and all that the server tells about it; `ENGINE.CANNOT_CONNECT` and nothing
        where no server answers within 5 seconds."""
        try:
            status = await self._status(patience_s=SHORT_PATIENCE_S)
        except SwarmServerOfflineError:
            return CANNOT_CONNECT, {}
        return status["engine_status"], status

    async def get_global_step(self) -> int:
        """Optimizer steps that the weights have seen."""
        return int((await self._status())["global_step"])

    async def sync_train_config(self, agentjet_job: AgentJetJob | None = None) -> dict[str, Any]:
        """Send the config of the next training; without a job that of the constructor. Return what the server
        says: `changed`, `experiment_dir`, `warnings`.

        Raises:
            SwarmConfigError: the server cannot train with it.
            SwarmRefusedError: the engine is not offline (code `not_offline`).
        """
        job = agentjet_job or self._job
        if job is None:
            raise ValueError("which job? Give one here, or to the constructor of the client")
        answer = await self._to.ask("POST", "/sync_train_config", {"yaml_as_string": job.as_yaml()})
        for warning in answer["warnings"]:
            self._to.say(f"warning: {warning}")
        return answer

    async def sync_train_code(self, path: str, force_restart: bool = False) -> NoReturn:
        """Servers of AgentJet take the code of the training from a client; this one does not.

        Raises:
            SwarmRefusedError: always (code `no_code`); it says what to do instead.
        """
        raise SwarmRefusedError(NO_CODE, "no_code")

    async def start_engine(self) -> None:
        """Start the training unless it runs, and return when episodes can be claimed.

        Raises:
            SwarmConfigError: the server has no config.
            SwarmServerOfflineError: the training has ended before; the message says why.
        """
        await self._to.ask("POST", "/start_engine")
        await self._until(lambda status: status["engine_status"] == State.ROLLING)

    async def stop_engine(self) -> None:
        """End the training, which saves a checkpoint first; episodes that run are lost."""
        await self._to.ask("POST", "/stop_engine")

    async def auto_sync_train_config_and_start_engine(
        self, agentjet_job: AgentJetJob | None = None, force_restart: bool = False
    ) -> None:
        """Make the server train the job, and return when episodes can be claimed. A training that runs goes
        on with the config it has, unless `force_restart`.

        Raises:
            SwarmConfigError: the server cannot train with it.
            SwarmServerOfflineError: the training has ended before; the message says why.
        """
        state = (await self._status())["engine_status"]
        if force_restart and state != State.OFFLINE:
            await self.stop_engine()
        if force_restart or state == State.OFFLINE:
            try:
                await self.sync_train_config(agentjet_job)
            except SwarmRefusedError as error:
                if error.code != "not_offline":  # another client was quicker
                    raise
        else:
            self._to.say(f"{state}: it goes on with the config it has; force_restart=True gives it this one")
        await self.start_engine()

    async def wait_for_step(self, step: int) -> int:
        """Return the global step as soon as it is `step` or more.

        Raises:
            SwarmServerOfflineError: the training has ended before.
        """
        return int((await self._until(lambda status: status["global_step"] >= step))["global_step"])

    async def wait_for_status(self, desired_status: str = State.ROLLING) -> None:
        """Return as soon as the engine is in a state; whoever starts it, and however late that is.

        Raises:
            SwarmServerOfflineError: the training has ended before.
        """
        status = await self._status()
        while status["engine_status"] == State.OFFLINE and desired_status != State.OFFLINE:
            status = await self._status(f"?wait_s={POLL_S:g}&seen={status['number']}")
        await self._until(lambda status: status["engine_status"] == desired_status)

    async def call_at_weight_sync(self, callback: Callable[[], object]) -> None:
        """Call it, and await what it returns if that is awaitable, each time the training begins to learn
        from a batch, until the client is closed."""
        begun: int | None = None
        query = ""
        while True:
            try:
                status = await self._status(query)
            except SwarmServerOfflineError:
                continue
            except SwarmError as error:
                _log.warning("asked again in %g s: %s", _AGAIN_S, error)
                await self._to.sleep(_AGAIN_S)
                continue
            except RuntimeError:  # httpx, of a closed client
                if self._to.is_closed:
                    return
                raise
            learns = status["engine_status"] in (State.WEIGHT_SYNCING, State.WEIGHT_EXPORTING)
            before, begun = begun, status["global_step"] + learns
            if before is not None and begun > before:
                try:
                    called = callback()
                    if inspect.isawaitable(called):
                        await called
                except Exception:  # noqa: BLE001 - the next batch is told all the same
                    _log.exception("%r failed", callback)
            query = f"?wait_s={POLL_S:g}&seen={status['number']}"

    async def agree_sync_weight(self) -> None:
        """Say that this client has seen enough, and return when the batch is complete: where
        `swarm_mode_sample_collection_method` asks for that.

        Raises:
            SwarmServerOfflineError: the training has ended.
        """
        step = (await self._status())["global_step"]
        await self._to.ask("POST", "/agree_sync_weight")
        await self._until(lambda now: now["engine_status"] != State.ROLLING or now["global_step"] != step)

    async def server_experiment_dir(self) -> str:
        """The output folder of the training, on the server's machine; empty before there is a config."""
        return str((await self._to.ask("GET", "/get_server_experiment_dir"))["server_experiment_dir"])

    async def _until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status of which it is so."""
        status = await self._status()
        while not is_so(status):
            if status["engine_status"] == State.OFFLINE:
                raise offline(status)
            status = await self._status(f"?wait_s={POLL_S:g}&seen={status['number']}")
        return status

    async def _status(self, query: str = "", patience_s: float = PATIENCE_S) -> dict[str, Any]:
        wait_s = POLL_S if query else 0.0
        return await self._to.ask("GET", f"/get_engine_status{query}", wait_s=wait_s, patience_s=patience_s)


def offline(status: Mapping[str, Any]) -> SwarmError:
    why = status["engine_status_detail"] or "none was started; call start_engine"
    return error_of("offline", f"there is no training: {why}")


def _start_server(url: str) -> None:
    """Start a server that ends with this program; the first request waits until it listens."""
    host, port = urlsplit(url).hostname, urlsplit(url).port or 80
    if host not in ("localhost", "127.0.0.1"):
        raise ValueError(f"auto_start_swarm_server starts one on this machine, not on {host}")
    with suppress(OSError), socket.create_connection((host, port), SHORT_PATIENCE_S):
        return  # it runs
    command = [sys.executable, "-m", "trainer_core.swarm.cli", "start", "--swarm-port", str(port)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    atexit.register(server.wait)
    atexit.register(server.terminate)
