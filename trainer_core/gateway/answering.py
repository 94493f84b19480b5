"""From what a client asks to what it is answered: the prompt, the engine's tokens, the record."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from trainer_core.engine.protocols import Generation, InferenceEngine, Request
from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, GatewayError, Message, Said, refuse
from trainer_core.gateway.chat_format import chat_format
from trainer_core.gateway.history import name_of, names_of
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
    name: bytes = b""
    """Of the conversation, see `history`."""
    base: RecordedCall | None = None


class Answerer:
    """Answers one request at a time, for as many at once as come; all in one event loop."""

    def __init__(self, engine: InferenceEngine, tokenizer: Any, max_model_len: int) -> None:
        """`tokenizer`: no other thread's."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._format = chat_format(tokenizer)
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
        request: bytes,
        *,
        is_repeated: bool,
        on_delta: Callable[[Delta], None] | None = None,
    ) -> Answer:
        """
        Args:
            request: its name.
            is_repeated: the client says that it has sent the request before; what that was answered with is
            answered again.
            on_delta: told what has been added to a choice, as soon as it is.

        Raises:
            GatewayError: there is no answer.
        """
        calls = episode.answered.pop(request, None) if is_repeated else None
        with episode.asking(is_repeated=calls is not None) as started:
            try:
                prompts = self._prompts(episode, agent, ask)
            except (RecursionError, orjson.JSONEncodeError) as error:
                raise refuse("tools" if ask.tools else "messages", f"nested too deeply ({error})") from error
            reader = _Reader(self, prompts[0], ask, on_delta) if on_delta else None
            if calls is None:
                requests = [self._request(episode, agent, ask, each.ids, reader) for each in prompts]
                drawn = await self._draw(episode, requests)
                calls = [
                    call
                    for prompt, answers in zip(prompts, drawn, strict=True)
                    for call in episode.record(agent, prompt.base, prompt.ids, answers, started)
                ]
                generations = [each for answers in drawn for each in answers]
            else:
                generations = [call.generation() for call in calls]
            episode.answered[request] = calls
        choices = [
            Choice(each, self.read(each.ids, prompts[place // ask.n].ids, ask))
            for place, each in enumerate(generations)
        ]
        for place, (choice, call) in enumerate(zip(choices, calls, strict=True)):
            if ask.messages:
                (name,) = names_of([choice.said.message()], prompts[0].name)
                episode.after[agent][name] = call
            if reader:
                reader.tell(place, choice.said, is_whole=True)
        return Answer([each.ids for each in prompts], choices, self._text_of)

    async def _draw(self, episode: OpenEpisode, requests: Sequence[Request]) -> list[list[Generation]]:
        try:
            return await asyncio.gather(*map(self._engine.generate, requests))
        except Exception as error:
            is_known = isinstance(error, TrainingError)
            why = str(error) if is_known else f"{type(error).__name__}: {error}"
            episode.stopped(StopReason.FAILED, why)
            status, message = (503, f"the engine failed: {why}") if is_known else (500, why)
            raise GatewayError(status, message, code="engine_failed") from error

    def _prompts(self, episode: OpenEpisode, agent: str, ask: Ask) -> list[_Prompt]:
        """What the engine is given, if it fits."""
        if ask.messages:
            prompts = [self._conversation(episode, agent, ask)]
        else:
            prompts = [_Prompt(self._ids(episode, given)) for given in ask.prompts]
        for length in (len(each.ids) for each in prompts):
            if not length:
                raise GatewayError(400, "the prompt has no tokens", code="invalid_request")
            if length >= self._max_model_len:
                raise self._too_long(episode, str(length))
        return prompts

    def _ids(self, episode: OpenEpisode, given: str | Sequence[int]) -> list[int]:
        if isinstance(given, str):
            self._check_characters(episode, len(given))
            return list(self._tokenizer.encode(given, add_special_tokens=False))
        for extreme in (min(given, default=0), max(given, default=0)):
            if not 0 <= extreme < self._vocabulary:
                raise refuse("token_ids", f"{extreme} is not among this model's {self._vocabulary} tokens")
        return list(given)

    def _conversation(self, episode: OpenEpisode, agent: str, ask: Ask) -> _Prompt:
        names = names_of(ask.messages, name_of(ask.tools))
        after = episode.after[agent]
        known = next((place for place in reversed(range(len(names))) if names[place] in after), None)
        extended = base = None
        if known is not None:
            base = after[names[known]]
            if new := ask.messages[known + 1 :]:
                self._check_characters(episode, _characters(new))
                before = base.prompt().tolist(), base.completion.tolist()
                extended = self._format.extend(*before, new, ask.tools)
        if extended is None:
            episode.counts["begun" if base is None else "not_continued"] += 1
            return _Prompt(self.render(episode, ask), names[-1])
        episode.counts["continued"] += 1
        return _Prompt(extended, names[-1], base)

    def render(self, episode: OpenEpisode, ask: Ask) -> list[int]:
        """A conversation from its beginning; the episodes of a group begin alike."""
        name = name_of([ask.messages, ask.tools])
        if (known := self._beginnings.get(name)) is not None:
            self._beginnings.move_to_end(name)
            return known.tolist()
        self._check_characters(episode, _characters(ask.messages))
        try:
            ids = self._format.render(ask.messages, ask.tools)
        except Exception as error:  # templates are programs of their own and raise what they like
            told = f"{type(error).__name__}: {error}"
            message = f"the model's chat template cannot write these messages: {told}"
            raise GatewayError(400, message, code="template_failed", param="messages") from error
        self._beginnings[name] = np.asarray(ids, np.int32)
        if len(self._beginnings) > _KEPT_BEGINNINGS:
            self._beginnings.popitem(last=False)
        return ids

    def _decode(self, token: int) -> tuple[str, tuple[int, ...]]:
        text: str = self._tokenizer.decode([token])
        return text, tuple(text.encode())

    def _check_characters(self, episode: OpenEpisode, characters: int) -> None:
        """Refuse what cannot fit before it is encoded, which takes seconds for megabytes."""
        if characters > self._max_model_len * self._longest_token:
            raise self._too_long(episode, f"more than {characters // self._longest_token}")

    def _too_long(self, episode: OpenEpisode, tokens: str) -> GatewayError:
        episode.stopped(StopReason.CONTEXT)
        message = (
            f"This model's maximum context length is {self._max_model_len} tokens, but the messages have "
            f"{tokens}; prompt is too long"
        )
        return GatewayError(400, message, code="context_length_exceeded", param="messages")

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
            stop_ids=(*(self._format.stop_ids if ask.messages else ()), *ask.stop_ids),
            n=ask.n,
            seed=seed,
            session=(*rules.session, agent, place),
            top_logprobs=ask.top_logprobs,
            stop_texts=tuple(ask.stop),
            on_token=reader.drawn if reader else None,
        )

    def _sampling(self, episode: OpenEpisode, ask: Ask) -> Sampling:
        rules = episode.rules
        if not rules.client_sampling:
            return rules.sampling
        asked = ask.model_dump(include={"temperature", "top_p", "top_k"}, exclude_none=True)
        return replace(rules.sampling, **asked)

    def headers(self, episode: OpenEpisode, ask: Ask) -> dict[str, str]:
        """What a client is told about how its tokens are drawn."""
        used, whose = self._sampling(episode, ask), "client" if episode.rules.client_sampling else "training"
        words = f"{whose}; temperature={used.temperature:g} top_p={used.top_p:g} top_k={used.top_k}"
        return {"x-ajet-sampling": words} | ({"x-ajet-unmet": ", ".join(ask.unmet)} if ask.unmet else {})

    def read(self, ids: Sequence[int], prompt: Sequence[int], ask: Ask, *, is_whole: bool = True) -> Said:
        """What the tokens say, up to a stop text."""
        if ask.messages:
            said = self._format.parse(ids, prompt, ask.tools, is_whole=is_whole)
        else:
            said = Said(self._tokenizer.decode(list(ids), skip_special_tokens=True))
        ends = [(place, stop) for stop in ask.stop if (place := said.content.find(stop)) >= 0]
        if not ends:
            return said
        place, stop = min(ends)
        return replace(said, content=said.content[:place], cut_at=stop)


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
        if len(ids) >= self._next[index]:
            self._next[index] = max(len(ids) + 1, int(len(ids) * _DRAWN_BETWEEN_DELTAS))
            said = self._answerer.read(ids, self._prompt.ids, self._ask, is_whole=False)
            self.tell(index, said, is_whole=False)

    def tell(self, index: int, said: Said, *, is_whole: bool) -> None:
        """Tell what `said` has beyond what was told. Before the end, what may still turn out to be part of
        something else is held back: half a character, the beginning of a stop text or of a tag, white
        space."""
        told, texts = self._told[index], [said.content, said.reasoning]
        if not is_whole:
            texts = [_settled(text, self._ask.stop) for text in texts]
        content, reasoning = (
            text[len(before) :] if text.startswith(before) else ""
            for text, before in zip(texts, (told.content, told.reasoning), strict=True)
        )
        if content or reasoning:
            self._told[index] = Said(told.content + content, told.reasoning + reasoning)
            self._on_delta(Delta(index, content, reasoning))


def _characters(messages: Sequence[Message]) -> int:
    return sum(len(message["content"]) for message in messages)


def _settled(text: str, stops: Sequence[str]) -> str:
    text = text.rstrip("\ufffd").rstrip()
    tag = text.rfind("<")
    if tag >= 0 and ">" not in text[tag:]:
        text = text[:tag].rstrip()
    for stop in stops:
        for length in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:length]):
                text = text[:-length]
                break
    return text
