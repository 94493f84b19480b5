"""Tokens and prompt caches against numbers worked out by hand."""

from tests.model_server.caching import AnthropicCache, Block, OpenAICache, PromptTokens, tokens_in

MODEL = "scripted"


def block(tokens: int, letter: str = "x", keep_s: float | None = None) -> Block:
    return Block(letter * 4 * tokens, keep_s)


def test_tokens_are_bytes_by_four_rounded_up() -> None:
    assert [tokens_in(text) for text in ("", "a", "abcd", "abcde", "好好")] == [0, 1, 1, 2, 2]


def test_a_growing_conversation_reads_what_it_wrote_and_writes_the_rest() -> None:
    cache = AnthropicCache(lambda: 0.0)
    system = block(2000, "s", 3600)
    assert cache.use(MODEL, [system, block(500, "a", 300)]) == PromptTokens(0, 0, 500, 2000)
    grown = [system, block(500, "a"), block(300, "b", 300), block(10, "c")]
    assert cache.use(MODEL, grown) == PromptTokens(10, 2500, 300, 0)


def test_an_hour_is_charged_up_to_the_last_mark_of_an_hour() -> None:
    cache = AnthropicCache(lambda: 0.0)
    cache.use(MODEL, [block(1100, "t", 3600)])
    prompt = [block(1100, "t", 3600), block(700, "s", 3600), block(400, "m", 300), block(30, "q")]
    assert cache.use(MODEL, prompt) == PromptTokens(
        uncached=30, cache_read=1100, cache_write_5m=400, cache_write_1h=700
    )


def test_nothing_below_the_minimum_is_kept() -> None:
    cache = AnthropicCache(lambda: 0.0)
    for _ in range(2):
        assert cache.use(MODEL, [block(1023, keep_s=300)]) == PromptTokens(1023)
    assert cache.use(MODEL, [block(1024, keep_s=300)]) == PromptTokens(0, 0, 1024)


def test_only_marks_are_kept() -> None:
    cache = AnthropicCache(lambda: 0.0)
    prompt = [block(2000, "s"), block(100, "a", 300)]
    cache.use(MODEL, prompt)
    assert cache.use(MODEL, [block(2000, "s"), block(100, "b", 300)]).cache_read == 0
    assert cache.use(MODEL, [block(2000, "s"), block(100, "a")]).cache_read == 0
    assert cache.use(MODEL, prompt).cache_read == 2100


def test_a_hit_renews_for_as_long_as_it_was_kept() -> None:
    clock = [0.0]
    cache = AnthropicCache(lambda: clock[0])
    prompt = [block(2000, "s", 3600), block(500, "a", 300)]
    cache.use(MODEL, prompt)
    for clock[0] in (299.0, 598.0):
        assert cache.use(MODEL, prompt) == PromptTokens(0, 2500)
    clock[0] = 598.0 + 300
    assert cache.use(MODEL, prompt) == PromptTokens(0, 2000, 500), "the hour was renewed too"
    clock[0] += 3600
    assert cache.use(MODEL, prompt) == PromptTokens(0, 0, 500, 2000)


def test_a_mark_looks_back_twenty_blocks() -> None:
    cache = AnthropicCache(lambda: 0.0)
    start = [block(2000, "s", 300)]
    cache.use(MODEL, start)
    between = [Block("abcd")] * 18
    assert cache.use(MODEL, [block(2000, "s"), *between, block(1, "z", 300)]).cache_read == 2000
    cache = AnthropicCache(lambda: 0.0)
    cache.use(MODEL, start)
    assert cache.use(MODEL, [block(2000, "s"), *between, Block("abcd"), block(1, "z", 300)]).cache_read == 0


def test_models_share_nothing() -> None:
    for cache in (AnthropicCache(lambda: 0.0), OpenAICache(lambda: 0.0)):
        prompt = [block(2000, "s", 300)]
        assert cache.use("one", prompt).cache_read == 0
        assert cache.use("other", prompt).cache_read == 0
        assert cache.use("one", prompt).cache_read > 0


def test_openai_keeps_whole_steps_of_128_tokens_from_1024() -> None:
    cache = OpenAICache(lambda: 0.0)
    for tokens, cached in ((1023, 0), (1023, 0), (1024, 0), (1024, 1024), (1300, 1024), (1300, 1280)):
        assert cache.use(MODEL, [block(tokens)]) == PromptTokens(tokens - cached, cached)
    assert cache.use(MODEL, [block(1100), block(200, "y")]).cache_read == 1024


def test_openai_forgets_after_ten_minutes_without_use() -> None:
    clock = [0.0]
    cache = OpenAICache(lambda: clock[0])
    cache.use(MODEL, [block(2048)])
    for clock[0], cached in ((599.0, 2048), (1198.0, 2048), (1798.0, 0)):
        assert cache.use(MODEL, [block(2048)]).cache_read == cached
