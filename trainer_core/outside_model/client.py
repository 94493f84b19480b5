"""Requests to an outside model, with bounded retries: what comes back has the shape that was asked for."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainer_core.outside_model.keys import find_endpoint
from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_ATTEMPTS = 6
_LONGEST_WAIT = 60.0
_TIMEOUT = 180.0
_TEXTS_AT_ONCE = 10
"""Texts in one request for embeddings; DashScope takes no more."""
_SHOWN = 300
_TEMPLATES = Path(__file__).parent / "templates"

Shape = TypeVar("Shape", bound=BaseModel)
Answer = TypeVar("Answer")


class _UnusableError(Exception):
    """A reply of another shape than asked for; worth another attempt."""


class OutsideModel:
    """A language model behind an OpenAI-compatible endpoint.

    A key that the server refuses (401, 403) is not used again; one that is used up for now (429) makes way
    for the next. When all are, when the server fails, or when the reply has another shape than asked for, the
    request is repeated after a wait that doubles; after six attempts the caller gets a `TrainingError`.
    """

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        at_once: int = 16,
        base_url: str | None = None,
        api_key: str | None = None,
        environment: Mapping[str, str] = os.environ,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`at_once`: requests that may wait for the server together. `base_url` and `api_key` are stronger
        than the environment.

        Raises:
            TrainingError: no endpoint is named.
        """
        self._base_url, self._keys = find_endpoint(environment, base_url=base_url, api_key=api_key)
        self.model = model
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._at_once = at_once
        self._slots = asyncio.Semaphore(at_once)
        self._sleep = sleep
        self._made: tuple[asyncio.AbstractEventLoop, AsyncOpenAI] | None = None

    async def ask(
        self, instructions: str, data: Any, shape: type[Shape], check: Callable[[Shape], str] = lambda _: ""
    ) -> Shape:
        """What the model makes of `data`, which it gets as JSON, apart from the instructions. `check` says
        what is wrong with an answer of the right shape; "": nothing.

        Raises:
            TrainingError: there was no usable reply.
        """
        schema = json.dumps(shape.model_json_schema())
        messages = [
            {"role": "system", "content": instructed("reply", instructions=instructions, schema=schema)},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]

        def read(text: str) -> Shape:
            try:
                found = shape.model_validate_json(_json_in(text))
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                where = ".".join(map(str, first["loc"]))
                raise _UnusableError(f"{where + ': ' if where else ''}{first['msg']}") from None
            if complaint := check(found):
                raise _UnusableError(complaint)
            return found

        return await self._chat(messages, read, response_format={"type": "json_object"})

    async def text(self, prompt: str) -> str:
        """The model's reply to a prompt, as it is.

        Raises:
            TrainingError: there was none.
        """
        return await self._chat([{"role": "user", "content": prompt}], lambda text: text)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text.

        Raises:
            TrainingError: there were none.
        """
        starts = range(0, len(texts), _TEXTS_AT_ONCE)
        some = (partial(self._vectors, texts[start : start + _TEXTS_AT_ONCE]) for start in starts)
        return [vector for part in await asyncio.gather(*map(self._persist, some)) for vector in part]

    async def _vectors(self, texts: Sequence[str], client: AsyncOpenAI) -> list[list[float]]:
        reply = await client.embeddings.create(model=self.model, input=list(texts), encoding_format="float")
        if len(reply.data) != len(texts):
            raise _UnusableError(f"{len(reply.data)} embeddings for {len(texts)} texts")
        made = [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        if not all(math.isfinite(math.hypot(*vector)) for vector in made):
            raise _UnusableError("an embedding that is not of finite numbers")
        return made

    async def close(self) -> None:
        """Close the connections, before the event loop ends."""
        if self._made is not None:
            await self._made[1].close()
            self._made = None

    async def _chat(
        self, messages: list[dict[str, str]], read: Callable[[str], Answer], **options: Any
    ) -> Answer:
        if self._max_tokens is not None:
            options["max_tokens"] = self._max_tokens
        asked: list[Any] = list(messages)

        async def call(client: AsyncOpenAI) -> Answer:
            reply: Any = await client.chat.completions.create(
                model=self.model, messages=asked, temperature=self._temperature, **options
            )
            choice = reply.choices[0] if getattr(reply, "choices", None) else None
            text = choice.message.content if choice is not None else None
            if not text or not text.strip():
                raise _UnusableError("an empty reply")
            try:
                return read(text)
            except _UnusableError as error:
                cut = choice is not None and choice.finish_reason == "length"
                reason = f"{error}, and the reply was cut off at its longest" if cut else str(error)
                asked[len(messages) :] = [
                    {"role": "assistant", "content": text},
                    {"role": "user", "content": f"{reason}. {instructed('again')}"},
                ]
                raise _UnusableError(reason) from None

        return await self._persist(call)

    async def _persist(self, call: Callable[[AsyncOpenAI], Awaitable[Answer]]) -> Answer:
        """What `call` returns, once it does."""
        import openai

        reason, asked_to_wait = "", 0.0
        client = self._client()
        async with self._slots:
            for attempt in range(_ATTEMPTS):
                if attempt:
                    await self._sleep(min(_LONGEST_WAIT, max(2.0 ** (attempt - 1), asked_to_wait)))
                for key in self._keys.turn():
                    try:
                        return await call(client.with_options(api_key=key))
                    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
                        reason = _told(error, key)
                        self._keys.drop(key)
                    except openai.RateLimitError as error:
                        reason, asked_to_wait = _told(error, key), _retry_after(error)
                    except openai.APIStatusError as error:
                        reason = _told(error, key)
                        if error.status_code < 500 and error.status_code not in (408, 409, 425):
                            raise TrainingError(f"{self._who()} refused the request: {reason}") from error
                        break
                    except (openai.APIError, _UnusableError, ValueError) as error:
                        reason = _told(error, key)  # ValueError: the body of the reply is not JSON
                        break
                else:
                    if not self._keys.turn():
                        raise TrainingError(f"{self._who()} refuses every key: {reason}")
        raise TrainingError(
            f"{self._who()} gave no usable answer in {_ATTEMPTS} attempts; the last time: {reason}. "
            "Start again when it does: training goes on from the last checkpoint"
        )

    def _who(self) -> str:
        return f"outside model {self.model} at {self._base_url}"

    def _client(self) -> AsyncOpenAI:
        """The connections of the running event loop; those of an earlier loop are gone with it."""
        loop = asyncio.get_running_loop()
        if self._made is None or self._made[0] is not loop:
            from openai import AsyncOpenAI

            unused = "each request brings its own"
            client = AsyncOpenAI(base_url=self._base_url, api_key=unused, max_retries=0, timeout=_TIMEOUT)
            self._made = (loop, client)
            self._slots = asyncio.Semaphore(self._at_once)
        return self._made[1]


def instructed(name: str, **values: Any) -> str:
    """The instructions in `templates/`, with `values` filled in."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, autoescape=False)
    return templates.get_template(f"{name}.md.j2").render(values).strip()


def _json_in(text: str) -> str:
    """The JSON in a reply that may hold the model's thoughts before it and a fence around it."""
    answer = text.rpartition("</think>")[2].strip()
    if answer.startswith("```") and answer.endswith("```"):
        answer = answer.partition("\n")[2].removesuffix("```")
    return answer


def _told(error: Exception, key: str) -> str:
    words = f"{type(error).__name__}: {error}".replace(key, "…") if len(key) > 5 else str(error)
    return words[:_SHOWN].removeprefix("_UnusableError: ")


def _retry_after(error: Any) -> float:
    try:
        return float(error.response.headers.get("retry-after", 0))
    except ValueError:  # a date
        return 0.0
