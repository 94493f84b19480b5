"""Which language model an experiment uses, and with what key, price and limits.

In: what `--model` says, harness.toml, the environment. Out: an `LlmConfig`, or None when no model is asked
for: a key that lies in the environment never starts spending by itself. A key meant for a public provider
goes to a server of another address only when harness.toml names its variable for that server.
"""

import difflib
import os
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from harness.journal.order import Event
from harness.providers.chat import Provider
from harness.providers.cost import Limits, Price, is_loopback, price_of
from harness.providers.model import Model
from harness.providers.settings import ConfigurationError, Found, find
from harness.providers.stream import SHORTEST_SECRET
from harness.providers.transcript import Transcript
from harness.providers.wire import OFFICIAL_URLS
from harness.redaction import redact, secret_values

_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
}
_FORM = "write provider:NAME (anthropic:… or openai:…), with @http://host:port/… behind it for another server"
_OWN_FILE = "~/.config/harness/harness.toml"


@dataclass(frozen=True)
class ModelWord:
    """What `--model` says; `base_url` None: the provider's own server."""

    provider: str
    model: str
    base_url: str | None = None

    @property
    def text(self) -> str:
        """As written for `--model`."""
        return f"{self.provider}:{self.model}" + (f"@{self.base_url}" if self.base_url else "")


@dataclass(frozen=True)
class LlmConfig:
    """A model that can be asked.

    `is_token`: the key is an OAuth-style token. `price` None: not known. `max_cost_usd` and `max_calls` are
    what harness.toml says, None when it says nothing. `source`: who named the model.
    `key_variable`: the environment variable with a key of the harness, which no training is given.
    """

    provider: str
    model: str
    base_url: str | None
    key: str | None = field(repr=False)
    is_token: bool
    price: Price | None
    max_cost_usd: float | None
    max_calls: int | None
    source: str
    warnings: tuple[str, ...] = ()
    key_variable: str | None = None

    @property
    def model_word(self) -> str:
        """As written for `--model`."""
        return ModelWord(self.provider, self.model, self.base_url).text

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must appear in no prompt, transcript or report."""
        return (self.key,) if self.key and len(self.key) >= SHORTEST_SECRET else ()


def configured(model_option: str | None, cwd: Path, environ: Mapping[str, str]) -> LlmConfig | None:
    """The model that `--model` names, else harness.toml; None when neither does.

    Raises ConfigurationError for words, files and keys that cannot be used.
    """
    found = find(cwd, environ)
    text = model_option or found.settings.llm.model
    if not text:
        return None
    source = "--model" if model_option else f"`model` in {found.path}"
    word = parse_model(text, source)
    if not model_option:
        _refuse_unasked_host(word, found)
    key, variable = _key(word, found, environ, is_named_by_person=bool(model_option))
    own = {name: price.model_dump() for name, price in found.settings.prices.items()}
    price = price_of(word.provider, word.model, word.base_url, own)
    return LlmConfig(
        word.provider,
        word.model,
        word.base_url,
        key,
        variable == "ANTHROPIC_AUTH_TOKEN",
        price,
        found.settings.llm.max_cost,
        found.settings.llm.max_calls,
        source,
        found.warnings + _warnings(word, found, variable, price),
        found.settings.llm.key_env or variable,
    )


def make_provider(config: LlmConfig) -> Provider:
    """The provider of a config; imports its SDK. Raises ConfigurationError for a proxy it cannot use."""
    try:
        if config.provider == "anthropic":
            from harness.providers.anthropic import AnthropicProvider

            return AnthropicProvider(config.model, config.key, config.base_url, config.is_token)
        from harness.providers.openai import OpenAIProvider

        return OpenAIProvider(config.model, config.key, config.base_url)
    except (ImportError, ValueError) as error:
        if "proxy" not in (text := redact(str(error))).lower():
            raise
        raise ConfigurationError(
            f"{config.model_word} cannot be asked through the proxy that the environment names: {text} For a "
            "SOCKS proxy `pip install socksio`; or unset ALL_PROXY and HTTPS_PROXY, or add the server to "
            "NO_PROXY"
        ) from error


def open_model(
    config: LlmConfig,
    limits: Limits,
    record: Callable[[Event], object],
    transcript: Path,
    jitter: random.Random | None = None,
) -> Model:
    """The model of a config, ready to be asked: what it is sent and what it answers stands in `transcript`
    without the secrets of the environment. Raises ConfigurationError."""
    secrets = (*secret_values(os.environ), *config.secrets)
    provider = make_provider(config)
    return Model(provider, config.price, limits, record, Transcript(transcript, secrets), jitter=jitter)


def parse_model(text: str, source: str = "--model") -> ModelWord:
    """`provider:NAME` or `provider:NAME@http://…` taken apart; `source` is named in errors."""
    provider, colon, rest = text.strip().partition(":")
    if not colon or provider not in OFFICIAL_URLS:
        raise ConfigurationError(f"{source}: {text!r} names no provider{_guess(text)}; {_FORM}")
    model, at, url = re.sub(r"(?i)@(?=https?:/)", "\n", rest, count=1).partition("\n")
    model = model.strip()
    if not model:
        raise ConfigurationError(f"{source}: {text!r} names no model; {_FORM}")
    is_address = re.search(r"@[\w.-]+(:\d+)?(/|$)", model)
    if not at and is_address and ("/" in model or ":" in model.partition("@")[2]):
        raise ConfigurationError(f"{source}: the address in {text!r} needs http:// or https:// before it")
    return ModelWord(provider, model, _base_url(provider, url, source) if at else None)


def _base_url(provider: str, url: str, source: str) -> str | None:
    """The address in the form that the provider's SDK adds its paths to."""
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ConfigurationError(f"{source}: {url!r} is not an address; {_FORM}") from None
    if parts.username or parts.password or parts.query:
        raise ConfigurationError(
            f"{source}: the address must not hold a user, a password or a query; name the variable with "
            "the key as `key_env` in the [llm] section of harness.toml"
        )
    if not is_complete:
        raise ConfigurationError(f"{source}: {url!r} names no host; {_FORM}")
    if provider == "openai" and not parts.path:
        url += "/v1"
    ending = r"/v1(/messages)?$" if provider == "anthropic" else r"/chat/completions$"
    url = re.sub(ending, "", url)
    url = f"{parts.scheme}://{parts.netloc.lower()}{url.partition('://')[2][len(parts.netloc) :]}"
    return None if url == OFFICIAL_URLS[provider] else url


def _guess(text: str) -> str:
    """A "did you mean" for a model word without a known provider."""
    provider, colon, rest = text.partition(":")
    close = difflib.get_close_matches(provider.lower(), OFFICIAL_URLS, n=1)
    if colon and close:
        return f", did you mean {close[0]}:{rest}?"
    likely = "anthropic" if text.startswith("claude") else "openai"
    return f", did you mean {likely}:{text}?" if re.match(r"claude|gpt|o\d|chatgpt", text) else ""


def _key(
    word: ModelWord, found: Found, environ: Mapping[str, str], is_named_by_person: bool
) -> tuple[str | None, str | None]:
    """The key and the variable it came from."""
    variable = found.settings.llm.key_env
    if variable and _is_meant_for(word, found):
        _refuse_chosen_variable(variable, word, found, is_named_by_person)
        if not environ.get(variable, "").strip():
            raise ConfigurationError(
                f"{found.path}: [llm] key_env names {variable}, which is not set; `export {variable}=…`"
            )
    elif word.base_url:
        return None, None
    else:
        variables = _KEY_VARIABLES[word.provider]
        variable = next((name for name in variables if environ.get(name, "").strip()), None)
        if variable is None:
            raise ConfigurationError(
                f"{word.provider}:{word.model} needs a key: `export {variables[0]}=…`, or name the variable "
                "that holds it as `key_env` in the [llm] section of harness.toml"
            )
        _refuse_redirected_key(word, variable, environ)
    key = environ[variable].strip()
    if not re.fullmatch(r"[!-~]+", key):  # it would fail in the middle of a header, and be quoted there
        raise ConfigurationError(
            f"{variable} holds something that is no key: it has blanks, line breaks or characters that are "
            "not plain ASCII (a quotation mark from a web page?). Copy the key again"
        )
    return key, variable


def _is_meant_for(word: ModelWord, found: Found) -> bool:
    """True if the key in harness.toml belongs to the server this model is on."""
    if not found.settings.llm.model:
        return True
    own = parse_model(found.settings.llm.model, f"`model` in {found.path}")
    return (own.provider, own.base_url) == (word.provider, word.base_url)


# --- where a key must not go ------------------------------------------------------------------------------


def _refuse_redirected_key(word: ModelWord, variable: str, environ: Mapping[str, str]) -> None:
    """A key that was set together with another server's address belongs to that server."""
    name = f"{word.provider.upper()}_BASE_URL"
    url = environ.get(name, "").strip().rstrip("/")
    if url and _base_url(word.provider, url, name) is not None:
        raise ConfigurationError(
            f"{name} is set to {url}, so {variable} may be meant for that server. To use the server, write "
            f'{word.provider}:{word.model}@{url} and, in harness.toml, [llm] key_env = "{variable}"; to use '
            f"{OFFICIAL_URLS[word.provider]}, unset {name}"
        )


def _refuse_chosen_variable(variable: str, word: ModelWord, found: Found, is_named_by_person: bool) -> None:
    """A file in the working directory chooses no variable of the environment that is sent somewhere: it may
    name the provider's own, and any other only for a server on this machine that the person has named."""
    is_own_server = is_named_by_person and word.base_url is not None and is_loopback(word.base_url)
    if found.is_project and variable not in _KEY_VARIABLES[word.provider] and not is_own_server:
        raise ConfigurationError(
            f"{found.path}: [llm] key_env names {variable}; a file in the working directory may only name "
            f"{' or '.join(_KEY_VARIABLES[word.provider])}. To use another variable, move the file to "
            f"{_OWN_FILE}"
        )


def _refuse_unasked_host(word: ModelWord, found: Found) -> None:
    """A file in the working directory, perhaps of a cloned repository, sends nothing to a stranger."""
    if found.is_project and word.base_url and not is_loopback(word.base_url):
        raise ConfigurationError(
            f"{found.path} names the server {word.base_url}; a file in the working directory may not choose "
            f"who is sent prompts and keys. Write --model {word.text}, or move the file to {_OWN_FILE}"
        )


def _warnings(word: ModelWord, found: Found, variable: str | None, price: Price | None) -> tuple[str, ...]:
    warnings = []
    url = word.base_url
    if url and variable and not is_loopback(url):
        risk = ", unencrypted" if url.startswith("http:") else ""
        warnings.append(f"{found.path} sends the key in {variable} to {url}{risk}")
    if price is None:
        name = f"{word.provider}:{word.model}"
        warnings.append(
            f"the price of {name} is not known, so its cost is not counted; "
            f'[prices."{name}"] in harness.toml sets it'
        )
    return tuple(warnings)
