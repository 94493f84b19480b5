"""Plays episodes of a verifiers environment, in the interpreter that has it installed.

`python verifiers_worker.py SOCKET SETTINGS` runs with the standard library and verifiers alone, of either
generation: `verifiers.v1` (a task set, its harness, an `Env`) and the older `load_environment`. SETTINGS is
JSON: `{"package", "splits": {"training": {"arguments", "most"}, "validation": …}}`. One request is one
connection to SOCKET, a JSON line each way; closing it cancels the request. SIGTERM ends
the worker.

    {"ask": "tasks"}   → {"training": [{"prompt", "answer", "id"}], "validation", "agents"}; no tasks to
                         validate on where the environment has but one data set
    {"ask": "play", "split", "index", "base_url", "model", "keys": {agent: api_key}}
                       → {"reward", "metrics", "untrained"}
    any                → {"failed": reason}
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import importlib
import importlib.util
import itertools
import json
import os
import signal
import ssl
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_LONGEST_LINE = 2**26
_MOST_AT_ONCE = 4096
_NO_ANSWER = ("EmptyModelResponseError", "InvalidModelResponseError")
"""What the older generation calls an answer without a word. The model is to blame: it earns nothing."""


class FailedError(Exception):
    """An episode that came to no reward; the message says why."""


@contextlib.contextmanager
def variable_with(api_key: str) -> Iterator[str]:
    """An environment variable that holds a key: both generations read keys from one."""
    name = f"AJET_EPISODE_KEY_{next(_numbers)}"
    os.environ[name] = api_key
    try:
        yield name
    finally:
        del os.environ[name]


_numbers = itertools.count()


class V1:
    """A task set with its agents, as `verifiers.v1` describes them; the arguments are those of its `env`."""

    def __init__(self, package: str, arguments: Mapping[str, Any]) -> None:
        from pydantic import ValidationError
        from verifiers.v1.configs.agent import AgentConfig, agent_config_fields
        from verifiers.v1.utils.loaders import env_config_type, load_environment, resolve_env_config

        config = copy.deepcopy(dict(arguments))
        taskset = config.get("taskset", {})
        if not isinstance(taskset, dict):
            raise FailedError(f"arguments.taskset: must be a mapping, not {taskset!r}")
        config["taskset"] = {"id": package, **taskset}
        kind = env_config_type(config["taskset"]["id"], config.get("id", ""))
        for name, field in kind.model_fields.items():
            role = field.default
            if isinstance(role, AgentConfig) and "runtime" not in role.model_fields_set:  # else: in a cloud
                config[name] = {"runtime": {"type": "subprocess"}, **(config.get(name) or {})}
        try:
            self._env = load_environment(resolve_env_config(config))
        except ValidationError as error:
            found = (".".join(map(str, each["loc"])) + ": " + each["msg"] for each in error.errors())
            raise FailedError("arguments." + "; arguments.".join(found)) from error
        self._roles = agent_config_fields(self._env.config)
        self.agents = [name for name, spec in self._roles.items() if spec.client is None]
        if not self.agents:
            raise FailedError("every agent has a client of its own, so there is nothing to train")
        self._tasks: dict[str, list[Any]] = {}
        self.serving = self._env.serving

    has_own_validation = False

    def read(self, split: str, most: int | None) -> list[dict[str, Any]]:
        """The tasks of a split, at most so many."""
        taskset = self._env.taskset
        if most is None and not taskset.bounded:
            raise FailedError("this task set has no end: set num_training_tasks")
        self._tasks[split] = list(itertools.islice(taskset, most))
        return [
            {"prompt": _plain(data.prompt), "answer": getattr(data, "answer", None), "id": data.id}
            for data in (task.data for task in self._tasks[split])
        ]

    async def play(
        self, split: str, index: int, base_url: str, model: str, keys: Mapping[str, str]
    ) -> dict[str, Any]:
        """One episode."""
        from verifiers.v1.clients import ModelContext
        from verifiers.v1.configs.client import EvalClientConfig

        with contextlib.ExitStack() as held:

            def client(key: str) -> EvalClientConfig:
                return EvalClientConfig(base_url=base_url, api_key_var=held.enter_context(variable_with(key)))

            own = {
                name: self._roles[name].model_copy(update={"client": client(key)})
                for name, key in keys.items()
            }
            env = copy.copy(self._env)  # of this episode: each of its agents calls with a key of its own
            env.config = env.config.model_copy(update=own)
            context = ModelContext(model=model, client=next(iter(own.values())).client)
            (slot,) = env.slots(self._tasks[split][index])
            episode = await env.run_slot(slot, context)
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if not env.complete(episode):
            told = "; ".join(f"{error.type}: {error.message}" for error in errors)
            raise FailedError(told or "the environment does not count it as complete")
        trained = [trace for trace in episode.traces if trace.agent.trainable]
        rewards = [trace.reward for trace in trained]
        metrics: dict[str, list[float]] = {}
        for trace in episode.traces:
            for name, value in trace.metrics.items():
                metrics.setdefault(name, []).append(float(value))
        return {
            "reward": sum(rewards) / len(rewards) if rewards else None,
            "metrics": {name: sum(values) / len(values) for name, values in metrics.items()},
            "untrained": sorted({trace.agent.name for trace in episode.traces if not trace.agent.trainable}),
        }


class V0:
    """An environment that a package's `load_environment` makes; the arguments are that function's."""

    agents = ("agent",)

    def __init__(self, package: str, arguments: Mapping[str, Any]) -> None:
        import verifiers

        self._env = verifiers.load_environment(package, **arguments)
        self.has_own_validation = self._env.eval_dataset_source is not None
        self._rows: dict[str, list[dict[str, Any]]] = {}
        if self._env.requires_group_rollouts:
            raise FailedError(
                "its rubric compares the answers of a group, and episodes are played one by one"
            )

    @contextlib.asynccontextmanager
    async def serving(self) -> Any:
        """Nothing has to run."""
        yield

    def read(self, split: str, most: int | None) -> list[dict[str, Any]]:
        """The tasks of a split, at most so many."""
        has_own = split == "validation" and self.has_own_validation
        read = self._env.get_eval_dataset if has_own else self._env.get_dataset
        self._rows[split] = [dict(row) for row in read(n=-1 if most is None else most)]
        return [
            {"prompt": _plain(row["prompt"]), "answer": row.get("answer"), "id": None}
            for row in self._rows[split]
        ]

    async def play(
        self, split: str, index: int, base_url: str, model: str, keys: Mapping[str, str]
    ) -> dict[str, Any]:
        """One episode."""
        from verifiers.clients import resolve_client
        from verifiers.types import ClientConfig

        (key,) = keys.values()
        with variable_with(key) as name:
            client = resolve_client(ClientConfig(api_base_url=base_url, api_key_var=name, max_retries=2))
        try:
            output = await self._env.run_rollout(self._rows[split][index], client, model, {})
        finally:
            await client.close()
        failed = output.get("error") or {}
        if failed and failed.get("error") not in _NO_ANSWER:
            raise FailedError(f"{failed.get('error')}: {failed.get('error_chain_str')}")
        metrics = {name: float(value) for name, value in (output.get("metrics") or {}).items()}
        return {"reward": float(output["reward"] or 0.0), "metrics": metrics, "untrained": []}


def _plain(prompt: Any) -> Any:
    """A prompt as JSON: a text or a list of messages."""
    if not isinstance(prompt, list):
        return prompt
    return [message if isinstance(message, dict) else message.model_dump(mode="json") for message in prompt]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is not there
        return False


def load(package: str, arguments: Mapping[str, Any]) -> V0 | V1:
    """The environment, in the generation that its package is of."""
    name = package.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_")
    if _exists(f"verifiers.v1.tasksets.{name.lower()}"):
        return V1(package, arguments)
    is_v0 = not _exists("verifiers.v1.utils.loaders") or hasattr(
        importlib.import_module(name), "load_environment"
    )
    return V0(package, arguments) if is_v0 else V1(package, arguments)


class Worker:
    """The environments of both splits, and who asks for them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._environments: dict[str, V0 | V1] = {}
        self._tasks: dict[str, list[dict[str, Any]]] = {}
        for split, each in settings["splits"].items():
            is_same = each["arguments"] == settings["splits"]["training"]["arguments"]
            known = self._environments.get("training") if is_same else None
            environment = known or load(settings["package"], each["arguments"])
            is_apart = known is None or environment.has_own_validation
            self._environments[split] = environment
            self._tasks[split] = environment.read(split, each["most"]) if is_apart else []

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What a request is answered with."""
        if asked["ask"] == "tasks":
            return {**self._tasks, "agents": list(self._environments["training"].agents)}
        where = (asked["split"], asked["index"], asked["base_url"], asked["model"], asked["keys"])
        return await self._environments[asked["split"]].play(*where)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of one connection; cancel it when the asker hangs up."""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, ValueError):
            asked = json.loads(await reader.readline())
            answering = asyncio.create_task(self.answer(asked))
            hung_up = asyncio.create_task(reader.read())
            await asyncio.wait({answering, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                answering.cancel()
                return
            hung_up.cancel()
            try:
                reply = answering.result()
            except FailedError as failed:
                reply = {"failed": str(failed)}
            except Exception as error:  # noqa: BLE001  (the environment may raise anything)
                traceback.print_exc()
                reply = {"failed": f"{type(error).__name__}: {error}"}
            writer.write(json.dumps(reply, default=str).encode() + b"\n")
            await writer.drain()

    async def serve(self, path: str) -> None:
        """Answer for ever."""
        async with contextlib.AsyncExitStack() as stack:
            for environment in {id(each): each for each in self._environments.values()}.values():
                await stack.enter_async_context(environment.serving())
            server = await asyncio.start_unix_server(
                self.connected, path, limit=_LONGEST_LINE, backlog=_MOST_AT_ONCE
            )
            async with server:
                await server.serve_forever()


if __name__ == "__main__":
    # Every episode makes HTTP clients, and reading certificates anew for each is four fifths of the work.
    ssl.create_default_context = functools.lru_cache(ssl.create_default_context)  # type: ignore[assignment]
    sys.path[0] = str(Path.cwd())  # instead of this file's folder: an environment may lie beside the config
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # the environment cleans up
    with contextlib.suppress(KeyboardInterrupt):
        try:
            worker = Worker(json.loads(sys.argv[2]))
        except FailedError as failed:
            sys.exit(str(failed))
        asyncio.run(worker.serve(sys.argv[1]))
