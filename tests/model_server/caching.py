"""Tokens and prompt caches: what a request costs. In: a prompt as blocks (tools, system, messages), some with
a mark. Out: how many tokens were read from the cache, written to it, or neither."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

FIVE_MINUTES_S = 300.0
ONE_HOUR_S = 3600.0
OPENAI_KEEPS_S = 600.0
MINIMUM_TOKENS = 1024
OPENAI_STEP_TOKENS = 128
LOOKBACK_BLOCKS = 20
BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Block:
    """A piece of a prompt, as it is counted and compared. `keep_s` is set where it carries a cache mark."""

    text: str
    keep_s: float | None = None


@dataclass(frozen=True)
class PromptTokens:
    """The tokens of one prompt; each is counted once."""

    uncached: int
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    @property
    def total(self) -> int:
        return self.uncached + self.cache_read + self.cache_write_5m + self.cache_write_1h


@dataclass
class _Kept:
    """A prefix in the cache."""

    keep_s: float
    until: float


def tokens_in(text: str) -> int:
    """How many tokens a text has: its UTF-8 bytes divided by four, rounded up."""
    return _tokens_of_bytes(len(text.encode()))


def _tokens_of_bytes(count: int) -> int:
    return -(-count // BYTES_PER_TOKEN)


def _prefixes(blocks: Sequence[Block], model: str) -> Iterator[tuple[bytes, int]]:
    """The digest and the tokens of the prompt up to and including each block."""
    running, size = hashlib.blake2b(f"{model}\0".encode(), digest_size=16), 0
    for block in blocks:
        content = block.text.encode()
        size += len(content)
        running.update(len(content).to_bytes(8, "big") + content)
        yield running.digest(), _tokens_of_bytes(size)


class AnthropicCache:
    """What Anthropic keeps of the prompts of one workspace
    (https://platform.claude.com/docs/en/build-with-claude/prompt-caching): a mark asks for the prefix up to
    its block to be kept; from each mark at most 20 blocks backwards are compared; a hit renews."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: dict[bytes, _Kept] = {}

    def use(self, model: str, blocks: Sequence[Block]) -> PromptTokens:
        """Send a prompt: read what is kept, keep what is marked."""
        prefixes = list(_prefixes(blocks, model))
        marked = [index for index, block in enumerate(blocks) if block.keep_s is not None]
        marks = [index for index in marked if prefixes[index][1] >= MINIMUM_TOKENS]
        backwards = (range(mark, max(mark - LOOKBACK_BLOCKS, -1), -1) for mark in reversed(marks))
        looked_at = (index for indices in backwards for index in indices)
        hit = next((index for index in looked_at if self._alive(prefixes[index][0])), -1)
        for index in {hit, *(mark for mark in marks if mark < hit)} - {-1}:
            if kept := self._alive(prefixes[index][0]):
                kept.until = self._now() + kept.keep_s
        read = written_1h = written = prefixes[hit][1] if hit >= 0 else 0
        for index in marks:
            keep_s = blocks[index].keep_s
            if index > hit and keep_s is not None:
                digest, written = prefixes[index]
                self._kept[digest] = _Kept(keep_s, self._now() + keep_s)
                written_1h = written if keep_s == ONE_HOUR_S else written_1h
        total = prefixes[-1][1] if prefixes else 0
        return PromptTokens(total - written, read, written - written_1h, written_1h - read)

    def _alive(self, digest: bytes) -> _Kept | None:
        kept = self._kept.get(digest)
        return kept if kept and self._now() < kept.until else None


class OpenAICache:
    """What OpenAI keeps of the prompts of one organization, unasked: prefixes of 1024 tokens, every 128 more
    (https://platform.openai.com/docs/guides/prompt-caching)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._used_at: dict[bytes, float] = {}

    def use(self, model: str, blocks: Sequence[Block]) -> PromptTokens:
        """Send a prompt; marks mean nothing here, and writing is never charged for."""
        now = self._now()
        content = "".join(block.text for block in blocks).encode()
        running, start = hashlib.blake2b(f"{model}\0".encode(), digest_size=16), 0
        read, broken = 0, False
        for tokens in range(MINIMUM_TOKENS, len(content) // BYTES_PER_TOKEN + 1, OPENAI_STEP_TOKENS):
            end = tokens * BYTES_PER_TOKEN
            running.update(content[start:end])
            start, digest = end, running.digest()
            last = self._used_at.get(digest)
            broken = broken or last is None or now - last >= OPENAI_KEEPS_S
            read = read if broken else tokens
            self._used_at[digest] = now
        return PromptTokens(uncached=_tokens_of_bytes(len(content)) - read, cache_read=read)
