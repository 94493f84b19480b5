"""A client of a swarm server, for an event loop; `client.py` has the one that blocks.

It waits in the server, which answers when there is something, and while it is away or busy for a minute.
"""

from __future__ import annotations

import atexit
import inspect
import logging
import math
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import httpx

from trainer_core.swarm.connection import PATIENCE_S, SHORT_PATIENCE_S, Connection
from trainer_core.swarm.episode import Episode, OpenaiBaseUrlAndApiKey, report
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
_POLL_S, _BREATH_S, _AGAIN_S = 30.0, 0.2, 2.0
_LIFETIMES = 2.0
"""An episode is given up after so many times its `discard_episode_timeout`."""
_MOST_CLAIMED = 100_000
_log = logging.getLogger(__name__)


class AsyncSwarmClient:
    """Of one event loop. Methods raise a `SwarmError` (`errors.py`) where something goes wrong; any of them
    SwarmServerOfflineError (code `cannot_connect`)."""

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
        if auto_start_swarm_server:
            _start_server(server_url)

    # --- the engine -----------------------------------------------------------------------------------

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
            status = await self._status(f"?wait_s={_POLL_S:g}&seen={status['number']}")
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
            query = f"?wait_s={_POLL_S:g}&seen={status['number']}"

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

    # --- episodes -------------------------------------------------------------------------------------

    async def begin_episode(
        self, discard_episode_timeout: float = 240, episode_type: str = "train", throttle_policy: Any = None
    ) -> tuple[str, OpenaiBaseUrlAndApiKey]:
        """Wait for an episode, and claim it.

        Args:
            discard_episode_timeout: seconds without a call of the model after which the server takes it away.
            episode_type: `train`, or `eval`: nothing is learned from it.
            throttle_policy: the share of this client in a batch, with the fields of `SwarmThrottlePolicy`.

        Raises:
            SwarmServerOfflineError: there is no training.
        """
        is_plain = throttle_policy is None or isinstance(throttle_policy, Mapping)
        policy = throttle_policy if is_plain else throttle_policy.model_dump()
        claim = (discard_episode_timeout, episode_type, policy)
        while (begun := await self.try_begin_episode(*claim, wait_s=_POLL_S)) is None:
            status = await self._status()
            if status["engine_status"] == State.OFFLINE:
                raise _offline(status)
            await self._to.sleep(_BREATH_S)
        return begun

    async def try_begin_episode(
        self,
        discard_episode_timeout: float = 240,
        episode_type: str = "train",
        throttle_policy: Mapping[str, Any] | None = None,
        *,
        wait_s: float = 0.0,
        patience_s: float = PATIENCE_S,
    ) -> tuple[str, OpenaiBaseUrlAndApiKey] | None:
        """Claim an episode, or None if there is none within `wait_s`.

        Args:
            patience_s: for how long a server that is away or busy is asked again.
        """
        claim = {
            "episode_type": episode_type,
            "discard_episode_timeout": discard_episode_timeout,
            "throttle_policy": throttle_policy,
            "wait_s": wait_s,
        }
        given = await self._to.ask("POST", "/claim_episode", claim, wait_s=wait_s, patience_s=patience_s)
        if not given["success"]:
            return None
        name, url = given["episode_uuid"], self.server_url + urlsplit(given["openai_base_url"]).path
        if len(self._given_up_at) > _MOST_CLAIMED:  # of a program that neither ends nor aborts them
            self._given_up_at.clear()
        self._given_up_at[name] = time.monotonic() + _LIFETIMES * discard_episode_timeout
        return name, OpenaiBaseUrlAndApiKey(url, given["openai_api_key"], name)

    async def end_episode(
        self, task: Any, episode_uuid: str, workflow_output: Any, declare_client_active: bool = True
    ) -> dict[str, Any]:
        """Report what came of an episode; return what the server says: `weight_version`, `recorded_calls`.
        One that is older than 2 x `discard_episode_timeout` is aborted instead, which is only logged.

        Args:
            task: what has `task_id`, `main_query` and `metadata`; or a bare task_id.
            workflow_output: what has `reward`, `is_success`, `metadata` and `log_metrics`.
            declare_client_active: False: this client need not agree where all active clients have to.

        Raises:
            EpisodeLostError: the server has taken it away; the reward is not used.
            SwarmRefusedError: the report cannot be used, such as one without task_id or reward.
        """
        try:
            return await self._report(task, episode_uuid, workflow_output, declare_client_active)
        except SwarmError as error:
            if error.code != "too_late":
                raise
            self._to.say(f"warning: {error}")
            return {"success": False, "code": error.code}

    async def abort_episode(self, episode_uuid: str) -> None:
        """Give an episode back; nothing is learned from it. It is no error that it is lost already, or that
        no server answers for 5 seconds: it takes the episode away by itself."""
        self._given_up_at.pop(episode_uuid, None)
        body = {"episode_uuid": episode_uuid, "workflow_output": {}, "task_id": ""}
        try:
            await self._to.ask("POST", "/abort_episode", body, patience_s=SHORT_PATIENCE_S)
        except SwarmError as error:
            self._to.say(f"warning: episode {episode_uuid} could not be aborted: {error}")

    async def can_continue_episode(self, episode_uuid: str) -> bool:
        """False if an episode is lost: it should be aborted."""
        if self._is_too_old(episode_uuid):
            return False
        return bool(
            (await self._to.ask("POST", "/can_continue_episode", {"episode_uuid": episode_uuid}))[
                "can_continue"
            ]
        )

    async def get_episode_buffer(self) -> list[dict[str, Any]]:
        """All episodes that are claimed, by whomever."""
        return list((await self._to.ask("POST", "/get_episode_buffer"))["buffer"])

    async def get_rollout_stat(self) -> dict[str, Any]:
        """How far the current batch is."""
        return await self._to.ask("GET", "/get_current_batch_rollout_pool_information")

    async def print_rollout_stat(self) -> None:
        """Print it in a line."""
        stat = await self.get_rollout_stat()
        counts = ", ".join(
            f"{what} {stat[f'completed_{what}s']}/{stat[f'completed_{what}_target']}"
            for what in ("episode", "task", "non_dummy_task")
        )
        running = len(stat["running_episode_details"] or ())
        print(f"[swarm] step {stat['global_step']}, {stat['engine_status']}: {counts}; {running} running")

    @asynccontextmanager
    async def episode(self, task: Any, **claim: Any) -> AsyncIterator[Episode]:
        """See `SwarmClient.episode`."""
        episode = await self.begin(task, claim)
        try:
            yield episode
            await self.end(episode)
        except Exception as error:
            raise await self.cause_of(error, episode) from error
        finally:
            if not episode.answer:
                await self.abort_episode(episode.uuid)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._to.close()

    async def begin(self, task: Any, claim: Mapping[str, Any]) -> Episode:
        """Claim an episode as by `begin_episode(**claim)`."""
        name, endpoint = await self.begin_episode(**claim)
        return Episode(task, endpoint.base_url, endpoint.api_key, name)

    async def cause_of(self, error: Exception, episode: Episode) -> Exception:
        """What failed: the episode was lost, or the training has ended, and so its calls were refused; else
        `error` itself."""
        if isinstance(error, SwarmError):
            return error
        try:
            if (status := await self._status())["engine_status"] == State.OFFLINE:
                return _offline(status)
            if not await self.can_continue_episode(episode.uuid):
                return error_of("not_claimed", f"episode {episode.uuid} was lost while it ran: {error}")
        except SwarmError as away:
            return away
        return error

    async def end(self, episode: Episode) -> None:
        """Report it, if it is finished."""
        if episode.output is not None:
            episode.answer = await self._report(episode.task, episode.uuid, episode.output)

    async def _report(self, task: Any, name: str, output: Any, is_active: bool = True) -> dict[str, Any]:
        body = {"episode_uuid": name, "declare_client_active": is_active, **report(task, output)}
        if self._is_too_old(name):
            await self.abort_episode(name)
            why = (
                f"is older than {_LIFETIMES:g} x discard_episode_timeout, and was aborted; give it more time"
            )
            raise error_of("too_late", f"episode {name} {why}")
        answer = await self._to.ask("POST", "/end_episode", body)
        self._given_up_at.pop(name, None)
        if "warning" in answer:
            self._to.say(f"warning: episode {name}: {answer['warning']}")
        return answer

    def _is_too_old(self, name: str) -> bool:
        return self._given_up_at.get(name, math.inf) < time.monotonic()

    async def _until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status of which it is so."""
        status = await self._status()
        while not is_so(status):
            if status["engine_status"] == State.OFFLINE:
                raise _offline(status)
            status = await self._status(f"?wait_s={_POLL_S:g}&seen={status['number']}")
        return status

    async def _status(self, query: str = "", patience_s: float = PATIENCE_S) -> dict[str, Any]:
        wait_s = _POLL_S if query else 0.0
        return await self._to.ask("GET", f"/get_engine_status{query}", wait_s=wait_s, patience_s=patience_s)


@asynccontextmanager
async def several(
    clients: Sequence[AsyncSwarmClient], task: Any, **claim: Any
) -> AsyncIterator[list[Episode]]:
    """See `several` of `client.py`."""
    async with AsyncExitStack() as stack:
        episodes = [await stack.enter_async_context(client.episode(task, **claim)) for client in clients]
        yield episodes
        if any(episode.output is None for episode in episodes):
            for episode in episodes:
                episode.output = None


def _offline(status: Mapping[str, Any]) -> SwarmError:
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
