"""From what a client asks to what it is answered: the prompt, the engine's tokens, the record."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from trainer_core.engine.protocols import Generation, InferenceEngine, Request
from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, GatewayError, Said, refuse
from trainer_core.gateway.chat_format import chat_format
from trainer_core.gateway.history import keys_of
from trainer_core.gateway.recording import OpenEpisode, RecordedCall
from trainer_core.ids import Ids
from trainer_core.types import Sampling, StopReason, TrainingError

_KEPT_BEGINNINGS = 512
_KEPT_TEXTS = 2**16
_DRAWN_BETWEEN_DELTAS = 1.1
"""Each delta reads the answer from its beginning, so the longer it is, the more tokens make a delta."""


@dataclass(frozen=True)
class _Prompt:
    ids: list[int]
    keys: list[Hashable]
    """Of the conversation's messages; empty where there is none."""
    base: RecordedCall | None


class Answerer:
    """Answers one request at a time, for as many at once as come; all in one event loop."""

    def __init__(self, engine: InferenceEngine, tokenizer: Any, model: str, max_model_len: int) -> None:
        """`tokenizer`: no other thread's."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._format = chat_format(tokenizer)
        self._model = model
        self._max_model_len = max_model_len
        self._vocabulary = len(tokenizer)
        self._longest_token = max(map(len, tokenizer.get_vocab()), default=1)
        self._text_of = functools.lru_cache(_KEPT_TEXTS)(self._decode)
        self._beginnings: OrderedDict[bytes, Ids] = OrderedDict()

    async def answer(
        self,
        episode: OpenEpisode,
        agent: str,
        ask: Ask,
        *,
        repeats: bytes = b"",
        remember_as: bytes = b"",
        answer_id: str = "",
        on_delta: Callable[[Delta], None] | None = None,
    ) -> Answer:
        """
        Args:
            repeats: an earlier request that this one repeats, if the client says so; what that was answered
            with is answered again.
            remember_as: the name of this request, if it should be repeated.
            on_delta: told what has been added to a choice, as soon as it is.

        Raises:
            GatewayError: there is no answer.
        """
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(task.cancel)

        calls = episode.recall(repeats) if repeats else None
        started = episode.begin(cancel, is_repeated=calls is not None)
        try:
            try:
                found = [
                    self._prompt(episode, agent, ask, place) for place in range(max(1, len(ask.prompts)))
                ]
            except (RecursionError, orjson.JSONEncodeError) as error:
                raise refuse("tools" if ask.tools else "messages", f"nested too deeply ({error})") from error
            if calls is None:
                calls, generations = await self._generate(episode, agent, ask, found, started, on_delta)
            else:
                generations = [call.generation() for call in calls]
            if remember_as:
                episode.remember(remember_as, calls)
        finally:
            episode.end(cancel)
        choices = [self._choice(each, found[place // ask.n], ask) for place, each in enumerate(generations)]
        if ask.messages:
            for choice, call in zip(choices, calls, strict=True):
                said = keys_of([choice.said.message()], ())[1:]
                episode.history(agent).add([*found[0].keys, *said], call)
        return Answer(
            answer_id or uuid.uuid4().hex,
            int(time.time()),
            self._model,
            [each.ids for each in found],
            choices,
            self._text_of,
        )

    def count(self, episode: OpenEpisode, ask: Ask) -> int:
        """Tokens of a conversation."""
        return len(self._render(episode, ask))

    async def _generate(
        self,
        episode: OpenEpisode,
        agent: str,
        ask: Ask,
        prompts: Sequence[_Prompt],
        started: float,
        on_delta: Callable[[Delta], None] | None,
    ) -> tuple[tuple[RecordedCall, ...], list[Generation]]:
        reader = _Reader(self, prompts[0], ask, on_delta) if on_delta else None
        requests = [self._request(episode, agent, ask, each.ids, reader) for each in prompts]
        try:
            answered = await asyncio.gather(*map(self._engine.generate, requests))
        except TrainingError as error:
            episode.stopped(StopReason.FAILED, str(error))
            raise GatewayError(503, f"the engine failed: {error}", code="engine_failed") from error
        except GatewayError:
            raise
        except Exception as error:
            episode.stopped(StopReason.FAILED, f"{type(error).__name__}: {error}")
            raise GatewayError(500, f"{type(error).__name__}: {error}", code="engine_failed") from error
        calls: tuple[RecordedCall, ...] = ()
        for prompt, generations in zip(prompts, answered, strict=True):
            calls += episode.record(agent, prompt.base, prompt.ids, generations, started)
        return calls, [each for generations in answered for each in generations]

    def _prompt(self, episode: OpenEpisode, agent: str, ask: Ask, place: int) -> _Prompt:
        if ask.prompts:
            given = ask.prompts[place]
            self._check_characters(episode, len(given) if isinstance(given, str) else 0)
            ids = self._encode(given) if isinstance(given, str) else list(given)
            if outside := [
                n for n in (min(ids, default=0), max(ids, default=0)) if not 0 <= n < self._vocabulary
            ]:
                raise refuse("token_ids", f"{outside[0]} is not among this model's {self._vocabulary} tokens")
            return self._checked(episode, _Prompt(ids, [], None))
        keys = keys_of(ask.messages, ask.tools)
        depth, base = episode.history(agent).find(keys)
        if base is not None:
            new = ask.messages[depth - 1 :]
            extended = (
                self._format.extend(base.prompt().tolist(), base.completion.tolist(), new, ask.tools)
                if new
                else None
            )
            if extended is not None:
                episode.counts["continued"] += 1
                return self._checked(episode, _Prompt(extended, keys, base))
        episode.counts["not_continued" if base is not None else "begun"] += 1
        return self._checked(episode, _Prompt(self._render(episode, ask), keys, None))

    def _render(self, episode: OpenEpisode, ask: Ask) -> list[int]:
        """A conversation from its beginning; the episodes of a group begin alike."""
        written = hashlib.blake2b(orjson.dumps([ask.messages, ask.tools]), digest_size=16).digest()
        if (known := self._beginnings.get(written)) is not None:
            self._beginnings.move_to_end(written)
            return known.tolist()
        self._check_characters(episode, sum(len(message["content"]) for message in ask.messages))
        try:
            ids = self._format.render(ask.messages, ask.tools)
        except Exception as error:  # templates are programs of their own and raise what they like
            raise GatewayError(
                400,
                f"the model's chat template cannot write these messages: {type(error).__name__}: {error}",
                code="template_failed",
                param="messages",
            ) from error
        self._beginnings[written] = np.asarray(ids, np.int32)
        if len(self._beginnings) > _KEPT_BEGINNINGS:
            self._beginnings.popitem(last=False)
        return ids

    def _decode(self, token: int) -> tuple[str, tuple[int, ...]]:
        text: str = self._tokenizer.decode([token])
        return text, tuple(text.encode())

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _check_characters(self, episode: OpenEpisode, characters: int) -> None:
        """Refuse what cannot fit before it is encoded, which takes seconds for megabytes."""
        if characters > self._max_model_len * self._longest_token:
            raise self._too_long(episode, f"more than {characters // self._longest_token}")

    def _checked(self, episode: OpenEpisode, prompt: _Prompt) -> _Prompt:
        if not prompt.ids:
            raise GatewayError(400, "the prompt has no tokens", code="invalid_request")
        if len(prompt.ids) >= self._max_model_len:
            raise self._too_long(episode, str(len(prompt.ids)))
        return prompt

    def _too_long(self, episode: OpenEpisode, tokens: str) -> GatewayError:
        episode.stopped(StopReason.CONTEXT)
        return GatewayError(
            400,
            f"This model's maximum context length is {self._max_model_len} tokens, but "
            f"the messages have {tokens}; prompt is too long",
            code="context_length_exceeded",
            param="messages",
        )

    def _request(
        self, episode: OpenEpisode, agent: str, ask: Ask, ids: list[int], reader: _Reader | None
    ) -> Request:
        rules = episode.rules
        place, seed = episode.place(agent, np.asarray(ids, np.int32))
        if rules.client_sampling and ask.seed is not None:
            seed = ask.seed & (2**63 - 1)
        limit = min(ask.max_tokens or rules.max_tokens, rules.max_tokens, self._max_model_len - len(ids))
        return Request(
            ids,
            self._sampling(episode, ask),
            limit,
            stop_ids=(*self._format.stop_ids, *ask.stop_ids) if ask.messages else ask.stop_ids,
            n=ask.n,
            seed=seed,
            session=(*rules.session, agent, place),
            top_logprobs=ask.top_logprobs,
            stop_texts=ask.stop,
            on_token=reader.drawn if reader else None,
        )

    def _sampling(self, episode: OpenEpisode, ask: Ask) -> Sampling:
        rules = episode.rules
        if not rules.client_sampling:
            return rules.sampling
        asked: dict[str, Any] = {"temperature": ask.temperature, "top_p": ask.top_p, "top_k": ask.top_k}
        return replace(rules.sampling, **{name: value for name, value in asked.items() if value is not None})

    def headers(self, episode: OpenEpisode, ask: Ask) -> dict[str, str]:
        """What a client is told about how its tokens are drawn."""
        used, whose = self._sampling(episode, ask), "client" if episode.rules.client_sampling else "training"
        words = f"{whose}; temperature={used.temperature:g} top_p={used.top_p:g} top_k={used.top_k}"
        return {"x-ajet-sampling": words} | ({"x-ajet-unmet": ", ".join(ask.unmet)} if ask.unmet else {})

    def _choice(self, generation: Generation, prompt: _Prompt, ask: Ask) -> Choice:
        return Choice(generation, self.read(generation.ids, prompt.ids, ask))

    def read(self, ids: Sequence[int], prompt: Sequence[int], ask: Ask, *, is_whole: bool = True) -> Said:
        """What the tokens say, up to a stop text."""
        if ask.messages:
            said = self._format.parse(ids, prompt, ask.tools, is_whole=is_whole)
        else:
            said = Said(self._tokenizer.decode(list(ids), skip_special_tokens=True))
        ends = [place for stop in ask.stop if (place := said.content.find(stop)) >= 0]
        return replace(said, content=said.content[: min(ends)]) if ends else said


class _Reader:
    """Turns tokens, as they are drawn in the engine's thread, into deltas in the event loop's."""

    def __init__(
        self, answerer: Answerer, prompt: _Prompt, ask: Ask, on_delta: Callable[[Delta], None]
    ) -> None:
        self._answerer = answerer
        self._prompt = prompt
        self._ask = ask
        self._on_delta = on_delta
        self._loop = asyncio.get_running_loop()
        self._ids: list[list[int]] = [[] for _ in range(ask.n)]
        self._next = [1] * ask.n
        self._told = [Said()] * ask.n

    def drawn(self, index: int, token: int) -> None:
        """Called by the engine."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._take, index, token)

    def _take(self, index: int, token: int) -> None:
        ids = self._ids[index]
        ids.append(token)
        if len(ids) < self._next[index]:
            return
        self._next[index] = max(len(ids) + 1, int(len(ids) * _DRAWN_BETWEEN_DELTAS))
        told = self._told[index]
        said = self._answerer.read(ids, self._prompt.ids, self._ask, is_whole=False)
        if delta := added(index, told, said, self._ask):
            self._told[index] = replace(
                told, content=told.content + delta.content, reasoning=told.reasoning + delta.reasoning
            )
            self._on_delta(delta)


def added(index: int, told: Said, said: Said, ask: Ask, *, final: bool = False) -> Delta | None:
    """What `said` has beyond what was told. Before the end, what may still turn out to be part of something
    else is held back: half a character, the beginning of a stop text or of a tag, white space."""
    content, reasoning = said.content, said.reasoning
    if not final:
        content, reasoning = _settled(content, ask), _settled(reasoning, ask)
    new_content = content[len(told.content) :] if content.startswith(told.content) else ""
    new_reasoning = reasoning[len(told.reasoning) :] if reasoning.startswith(told.reasoning) else ""
    return Delta(index, new_content, new_reasoning) if new_content or new_reasoning else None


def _settled(text: str, ask: Ask) -> str:
    text = text.rstrip("\ufffd").rstrip()
    tag = text.rfind("<")
    if tag >= 0 and ">" not in text[tag:]:
        text = text[:tag].rstrip()
    for stop in ask.stop:
        for length in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:length]):
                text = text[:-length]
                break
    return text
