"""The tuner: how the code of an episode reaches the model that is trained, in the form its framework wants.

Every call made through it is recorded, and trained if its agent is. The packages it hands out clients of are
imported when they are asked for.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


class Endpoint(dict[str, str]):
    """`base_url` (ends in /v1) and `api_key`, as attributes and as a mapping: `OpenAI(**endpoint)`."""

    @property
    def base_url(self) -> str:
        return self["base_url"]

    @property
    def api_key(self) -> str:
        return self["api_key"]


class Tuner:
    """The model as one episode sees it. `tuner(agent_name="planner")` is the same for a named agent."""

    def __init__(
        self,
        base_url: str,
        model: str,
        key: Callable[[str], str],
        *,
        trainable_targets: frozenset[str] | None = None,
    ) -> None:
        """`base_url`: without /v1. `key`: makes the api key of an agent of this episode. `trainable_targets`:
        the agents whose calls are trained; None: all."""
        self.model = model
        """The name to send as `model`."""
        self.trainable_targets = trainable_targets
        self.agent_name = ""
        self._base_url = base_url
        self.key = key
        self._opened: list[Any] = []

    def __call__(self, agent_name: str) -> Tuner:
        """The tuner of a named agent of this episode."""
        named = copy.copy(self)
        named.agent_name = agent_name
        return named

    def reference(self) -> dict[str, Any]:
        """What `Tuner` needs beside `key` to be made again in another process."""
        targets = self.trainable_targets
        return {"base_url": self._base_url, "model": self.model, "trainable_targets": targets}

    def as_oai_baseurl_apikey(self) -> Endpoint:
        """Address and key, for any program in any language that speaks OpenAI's protocol."""
        return Endpoint(base_url=f"{self._base_url}/v1", api_key=self.key(self.agent_name))

    def as_raw_openai_sdk_client(self) -> AsyncOpenAI:
        """OpenAI's own client. It waits as long as the episode may last."""
        openai = _package("openai", "openai", "as_raw_openai_sdk_client")
        endpoint = self.as_oai_baseurl_apikey()
        http = openai.DefaultAsyncHttpxClient(**_quick(endpoint.base_url), timeout=None)
        client: AsyncOpenAI = openai.AsyncOpenAI(**endpoint, timeout=None, http_client=http)
        self._opened.append(client)
        return client

    def as_anthropic_client(self) -> AsyncAnthropic:
        """Anthropic's own client, for `messages`."""
        anthropic = _package("anthropic", "anthropic", "as_anthropic_client")
        http = anthropic.DefaultAsyncHttpxClient(**_quick(self._base_url), timeout=None)
        client: AsyncAnthropic = anthropic.AsyncAnthropic(
            base_url=self._base_url, api_key=self.key(self.agent_name), timeout=None, http_client=http
        )
        self._opened.append(client)
        return client

    def as_langchain_model(self) -> Any:
        """LangChain's `ChatOpenAI`, with a client of its own: the one that LangChain shares between models
        belongs to the event loop of another episode."""
        langchain = _package("langchain_openai", "langchain-openai", "as_langchain_model")
        own = self.as_raw_openai_sdk_client()
        return langchain.ChatOpenAI(
            model=self.model,
            root_async_client=own,
            async_client=own.chat.completions,
            **self.as_oai_baseurl_apikey(),
        )

    def as_agentscope_model(self) -> Any:
        """AgentScope's `OpenAIChatModel` (AgentScope 2), without streaming."""
        credential = _package("agentscope.credential", "'agentscope>=2'", "as_agentscope_model")
        model = _package("agentscope.model", "'agentscope>=2'", "as_agentscope_model")
        made = model.OpenAIChatModel(
            credential.OpenAICredential(**self.as_oai_baseurl_apikey()),
            self.model,
            stream=False,
            client_kwargs={"timeout": None},
        )
        self._opened.append(made.client)
        return made

    async def close(self) -> None:
        """Close the clients that were handed out; the rollout does so when the episode has ended."""
        while self._opened:
            await self._opened.pop().close()


def _quick(base_url: str) -> dict[str, bool]:
    """Without TLS there is nothing to verify, and loading certificates takes 20 ms for each client."""
    return {"verify": not base_url.startswith("http://")}


def _package(module: str, pip_name: str, asked: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"tuner.{asked}() needs a package that is not installed ({error}); type: pip install {pip_name}"
        ) from error
