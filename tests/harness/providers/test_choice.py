"""Which model is used, and where keys go."""

import re
from pathlib import Path

import pytest

from harness.providers.choice import ModelWord, configured, make_provider, parse_model
from harness.providers.cost import FREE
from harness.providers.settings import ConfigurationError

NO_KEYS = ["sk-aaaaaaaa\nSECONDLINE99", "sk two", "\u201csk-quoted\u201d", "ключ-abcdefgh"]
KEY = {"ANTHROPIC_API_KEY": "sk-ant-mine", "OPENAI_API_KEY": "sk-mine"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "harness").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    return tmp_path


def choose(home: Path, option: str | None = None, toml: str = "", own: str = "", **environ: str):  # type: ignore[no-untyped-def]
    if toml:
        (home / "work" / "harness.toml").write_text(toml)
    if own:
        (home / "home" / "harness" / "harness.toml").write_text(own)
    return configured(option, home / "work", {"XDG_CONFIG_HOME": str(home / "home"), **environ})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("anthropic:claude-x", ModelWord("anthropic", "claude-x")),
        ("openai:qwen3:8b@http://h:11434", ModelWord("openai", "qwen3:8b", "http://h:11434/v1")),
        ("openai:org/m@https://h/api/v2/", ModelWord("openai", "org/m", "https://h/api/v2")),
        ("openai:m@http://h/v1/chat/completions", ModelWord("openai", "m", "http://h/v1")),
        ("anthropic:m@http://h:1/v1", ModelWord("anthropic", "m", "http://h:1")),
        ("openai:m@https://api.openai.com/v1", ModelWord("openai", "m")),
        ("anthropic:claude@20250101", ModelWord("anthropic", "claude@20250101")),
        ("openai:m@HTTP://GPU:1/Org/v1", ModelWord("openai", "m", "http://gpu:1/Org/v1")),
        ("openai:m@https://API.openai.com/v1", ModelWord("openai", "m")),
    ],
)
def test_model_words(text: str, word: ModelWord) -> None:
    assert parse_model(text) == word


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("claude-opus-4-5", "did you mean anthropic:claude-opus-4-5?"),
        ("gpt-5", "did you mean openai:gpt-5?"),
        ("antropic:claude-x", "did you mean anthropic:claude-x?"),
        ("openai:", "names no model"),
        ("openai:m@http://", "names no host"),
        ("openai:m@http://h:port", "is not an address"),
        ("openai:m@localhost:8000/v1", "needs http://"),
        ("openai:m@http://me:secret@h", "key_env"),
    ],
)
def test_words_that_name_nothing_say_what_to_write(text: str, fix: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^--model: .*{re.escape(fix)}"):
        parse_model(text)


def test_a_key_alone_starts_no_spending(home: Path) -> None:
    assert choose(home, **KEY) is None
    assert choose(home, None, "[llm]\nmax_cost = 1.0\n", **KEY) is None


def test_the_option_then_the_working_directory_then_the_persons_own_file(home: Path) -> None:
    assert choose(home, own='[llm]\nmodel = "anthropic:own"\n', **KEY).word.text == "anthropic:own"
    config = choose(home, None, '[llm]\nmodel = "openai:here"\nmax_cost = 2.5\nmax_calls = 7\n', **KEY)
    assert (config.word.text, config.key) == ("openai:here", "sk-mine")
    assert (config.max_cost_usd, config.max_calls) == (2.5, 7)
    assert choose(home, "anthropic:asked", **KEY).key == "sk-ant-mine"


def test_no_key(home: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"export ANTHROPIC_API_KEY=.*key_env"):
        choose(home, "anthropic:m")
    assert choose(home, "anthropic:m", ANTHROPIC_AUTH_TOKEN="t").is_token
    with pytest.raises(ConfigurationError, match="export GATE_KEY="):
        choose(home, None, own='[llm]\nmodel = "openai:m"\nkey_env = "GATE_KEY"\n', **KEY)


def test_the_public_key_stays_with_the_public_provider(home: Path) -> None:
    config = choose(home, "openai:m@http://127.0.0.1:1", **KEY)
    assert config.key is None and config.price == FREE
    toml = '[llm]\nmodel = "openai:m@http://gpu:1"\nkey_env = "OPENAI_API_KEY"\n'
    config = choose(home, "openai:m@http://gpu:1", own=toml, **KEY)
    assert (config.key, config.key_variable) == ("sk-mine", "OPENAI_API_KEY")
    assert "sends the key in OPENAI_API_KEY to http://gpu:1/v1, unencrypted" in " ".join(config.warnings)
    assert choose(home, "openai:m@http://elsewhere:1", **KEY).key is None
    assert choose(home, config.word.text, **KEY).key == "sk-mine"


def test_a_file_that_came_with_the_code_does_not_choose_who_is_asked(home: Path) -> None:
    toml = '[llm]\nmodel = "openai:m@https://stranger.example"\n'
    with pytest.raises(ConfigurationError, match=r"stranger.*--model"):
        choose(home, None, toml, **KEY)
    (home / "work" / "harness.toml").unlink()
    assert choose(home, None, own=toml, **KEY).word.base_url == "https://stranger.example/v1"


def test_a_key_named_for_one_provider_does_not_go_to_another(home: Path) -> None:
    toml = '[llm]\nmodel = "openai:m"\nkey_env = "GATE_KEY"\n'
    assert choose(home, "anthropic:m", own=toml, GATE_KEY="gate-key-1", **KEY).key == "sk-ant-mine"
    config = choose(home, "openai:other", GATE_KEY="gate-key-1", **KEY)
    assert (config.key, config.secrets) == ("gate-key-1", ("gate-key-1",))
    assert "gate-key-1" not in repr(config)


def test_a_key_set_together_with_another_address_is_not_sent_to_the_public_one(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="openai:m@http://gate/v1"):
        choose(home, "openai:m", OPENAI_BASE_URL="http://gate/v1", **KEY)
    assert choose(home, "openai:m", OPENAI_BASE_URL="https://api.openai.com/v1/", **KEY)


@pytest.mark.parametrize(
    ("toml", "fix"),
    [
        ("[llm]\nmodle = 'x'", "`llm.modle` is unknown, did you mean `model`?"),
        ("[lmm]\n", "`lmm` is unknown, did you mean `llm`?"),
        ("[llm]\nmax_cost = -1.0", "`llm.max_cost`: input should be greater than 0"),
        ('[llm]\nmax_calls = "many"', "`llm.max_calls`: input should be a valid integer"),
        ('[prices."openai:m"]\ninput = 1.0', "`prices.openai:m.output` is missing"),
        ('[prices."openai:m"]\ninput = 1\noutput=1\ncached = 1', "did you mean `cached_input`?"),
        ("[llm\n", "is not a config that can be read: Expected"),
        ("[llm]\nmodel = " + "[" * 3000, "nested too deeply"),
        ('[prices."openai:m@http://h"]\ninput = 1\noutput = 1', "names no provider; write provider:NAME"),
        ('[prices."openai:m"]\ninput = nan\noutput = 1', "finite number"),
        ('[llm]\nkey_env = ["hunter2hunter2"]', "`llm.key_env`: input should be a valid string"),
        ('[llm]\nkey = "hunter2hunter2"', "`llm.key` is unknown, did you mean `key_env`?"),
        ('[notifications]\nurl = ["json://hunter2hunter2"]', "did you mean `urls`?"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_how_to_mend(home: Path, toml: str, fix: str) -> None:
    with pytest.raises(ConfigurationError) as failed:
        choose(home, "openai:m", own=toml, **KEY)
    said = str(failed.value)
    assert fix in said and f"{home}/home/harness/harness.toml" in said and "hunter2" not in said


def test_whole_numbers_and_a_byte_order_mark_are_no_mistakes(home: Path) -> None:
    toml = '\ufeff[llm]\nmodel = "openai:m"\nmax_cost = 5\n[prices."openai:m"]\ninput = 1\noutput = 2\n'
    config = choose(home, None, own=toml, **KEY)
    assert (config.max_cost_usd, config.price.output) == (5, 2)


async def test_providers_are_made(home: Path) -> None:
    for option, name in (("anthropic:m", "anthropic"), ("openai:m@http://127.0.0.1:1", "openai")):
        provider = make_provider(choose(home, option, **KEY))
        assert (provider.name, provider.model) == (name, "m")
        await provider.close()


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ('[llm]\nmodel = "openai:gpt-5"\nkey_env = "AWS_SECRET_ACCESS_KEY"\n', "key_env"),
        ('[prices."openai:gpt-5"]\ninput = 0\noutput = 0\n', "the prices"),
        ('[notifications]\nurls = ["json://h"]\n', r"\[notifications\]"),
    ],
)
def test_a_projects_file_chooses_no_variable_to_send_no_price_and_no_address(
    home: Path, toml: str, what: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"move `?{what}`? to ~/.config"):
        choose(home, "openai:m@http://127.0.0.1:9", toml, **KEY)


def test_a_key_without_a_model_is_for_the_model_that_the_person_names(home: Path) -> None:
    own, gate = '[llm]\nkey_env = "GATE_KEY"\n', {"GATE_KEY": "gate-key-123"}
    assert choose(home, "openai:m@https://gate.example", own=own, **gate).key == "gate-key-123"
    projects = '[llm]\nmodel = "openai:m@http://127.0.0.1:9"\n'
    assert choose(home, None, projects, **gate).key is None


def test_a_projects_file_lowers_limits(home: Path) -> None:
    toml = '[llm]\nmodel = "openai:gpt-5"\nmax_calls = 1000000\nmax_cost = 9999\n'
    config = choose(home, None, toml, **KEY)
    assert (config.max_calls, config.max_cost_usd) == (100, 10.0)
    assert all(name in " ".join(config.warnings) for name in ("max_calls", "max_cost"))
    config = choose(home, None, own="[llm]\nmax_calls = 2000\nmax_cost = 3.0\n", **KEY)
    assert (config.max_calls, config.max_cost_usd) == (2000, 3.0)
    config = choose(home, None, '[llm]\nmodel = "openai:gpt-5"\nmax_calls = 5\n', **KEY)
    assert (config.max_calls, config.max_cost_usd) == (5, 3.0)
    own = '[llm]\nmodel = "openai:m@https://gate.example/v1"\nkey_env = "GATE_KEY"\n'
    config = choose(home, None, "[llm]\nmax_calls = 3\n", own, GATE_KEY="gate-key-123")
    found = (config.word.text, config.key, config.max_calls)
    assert found == ("openai:m@https://gate.example/v1", "gate-key-123", 3), "the rest is as it was"


@pytest.mark.parametrize("key", NO_KEYS)
def test_what_cannot_be_a_key_is_refused_without_showing_it(home: Path, key: str) -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY holds something that is no key") as failed:
        choose(home, "openai:m", OPENAI_API_KEY=key)
    assert key[-6:] not in str(failed.value)


async def test_no_proxy_stands_before_this_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks9://me:secretpw@proxy.example:1080")
    provider = make_provider(choose(home, "openai:m@http://localhost:1", **KEY))
    await provider.close()
    with pytest.raises(ConfigurationError, match=r"proxy.*NO_PROXY") as failed:
        make_provider(choose(home, "openai:m", **KEY))
    assert "secretpw" not in str(failed.value)
