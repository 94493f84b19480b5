"""Which language model an experiment uses, and with what key, price and limits.

In: what `--model` says, harness.toml, the environment. Out: an `LlmConfig`, or None when no model is asked
for: a key that lies in the environment never starts spending by itself. A key meant for a public provider
goes to a server of another address only when harness.toml names its variable for that server.
"""

import difflib
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from harness.environment import known_secrets
from harness.journal.order import Event
from harness.options import RunOptions
from harness.providers.chat import Provider
from harness.providers.cost import (
    DEFAULT_LIMIT_CALLS,
    DEFAULT_LIMIT_USD,
    Limits,
    Price,
    is_loopback,
    price_of,
)
from harness.providers.model import Model
from harness.providers.settings import OWN_FILE, ConfigurationError, Settings, find
from harness.providers.stream import OFFICIAL_URLS
from harness.providers.transcript import Transcript
from harness.redaction import parts, redact

_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
}
_FORM = "write provider:NAME (anthropic:… or openai:…), with @http://host:port/… behind it for another server"


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
    what harness.toml says, None when it says nothing; so is `timeout_s`. `key_variable`: the environment
    variable with a key of the harness, which no training is given.
    """

    word: ModelWord
    key: str | None = field(repr=False)
    is_token: bool
    price: Price | None
    max_cost_usd: float | None
    max_calls: int | None
    warnings: tuple[str, ...] = ()
    key_variable: str | None = None
    timeout_s: float | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must appear in no prompt, transcript or report."""
        return parts(self.key or "")


def configured(model_option: str | None, cwd: Path, environ: Mapping[str, str]) -> LlmConfig | None:
    """The model that `--model` names, else harness.toml; None when neither does.

    Raises ConfigurationError for words, files and keys that cannot be used.
    """
    settings = find(cwd, environ)
    text = model_option or settings.llm.model
    if not text:
        return None
    word = parse_model(text, "--model" if model_option else f"`model` in {settings.path}")
    url, name = word.base_url, f"{word.provider}:{word.model}"
    is_remote = url is not None and not is_loopback(url)
    if is_remote and not model_option and settings.is_projects:
        raise ConfigurationError(
            f"{settings.path} names the server {url}; a file in the working directory may not choose who is "
            f"sent prompts and keys. Write --model {word.text}, or move the file to {OWN_FILE}"
        )
    variable = _key_variable(word, settings, environ, is_named_by_person=bool(model_option))
    own = {name: price.model_dump() for name, price in settings.prices.items()}
    price = price_of(word.provider, word.model, url, own)
    warnings = [*settings.warnings]
    if is_remote and variable:
        risk = ", unencrypted" if str(url).startswith("http:") else ""
        warnings.append(f"{OWN_FILE} sends the key in {variable} to {url}{risk}")
    if price is None:
        warnings.append(
            f"the price of {name} is not known, so its cost is not counted; "
            f'[prices."{name}"] in harness.toml sets it'
        )
    return LlmConfig(
        word=word,
        key=_key(variable, environ) if variable else None,
        is_token=variable == "ANTHROPIC_AUTH_TOKEN",
        price=price,
        max_cost_usd=settings.llm.max_cost,
        max_calls=settings.llm.max_calls,
        warnings=tuple(warnings),
        key_variable=settings.llm.key_env or variable,
        timeout_s=settings.llm.timeout_s,
    )


def make_provider(config: LlmConfig) -> Provider:
    """The provider of a config; imports its SDK. Raises ConfigurationError for a proxy it cannot use."""
    word = config.word
    made = (word.model, config.key, word.base_url, config.timeout_s, config.is_token)
    try:
        if word.provider == "anthropic":
            from harness.providers.anthropic import AnthropicProvider

            return AnthropicProvider(*made)
        from harness.providers.openai import OpenAIProvider

        return OpenAIProvider(*made)
    except (ImportError, ValueError) as error:
        if "proxy" not in (text := redact(str(error))).lower():
            raise
        raise ConfigurationError(
            f"{word.text} cannot be asked through the proxy that the environment names: {text} For a "
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
    without secrets, those of the run in its folder included. Raises ConfigurationError."""
    secrets = known_secrets(transcript.parent, more=config.secrets)
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


# --- keys, and where they must not go --------------------------------------------------------------------


def _key_variable(
    word: ModelWord, settings: Settings, environ: Mapping[str, str], is_named_by_person: bool
) -> str | None:
    """The variable with the key for this model's server; None for a server of another address, unless the
    person's own file names one for it."""
    variable = settings.llm.key_env
    if variable and _is_meant_for(word, settings, is_named_by_person):
        if environ.get(variable, "").strip():
            return variable
        raise ConfigurationError(
            f"{OWN_FILE}: [llm] key_env names {variable}, which is not set; `export {variable}=…`"
        )
    if word.base_url:
        return None
    variables = _KEY_VARIABLES[word.provider]
    variable = next((name for name in variables if environ.get(name, "").strip()), None)
    if variable is None:
        raise ConfigurationError(
            f"{word.text} needs a key: `export {variables[0]}=…`, or name the variable that holds it as "
            "`key_env` in the [llm] section of harness.toml"
        )
    address = f"{word.provider.upper()}_BASE_URL"
    url = environ.get(address, "").strip().rstrip("/")
    if url and _base_url(word.provider, url, address) is not None:  # it may belong to that server
        raise ConfigurationError(
            f"{address} is set to {url}, so {variable} may be meant for that server. To use it, write "
            f'{word.text}@{url} and, in {OWN_FILE}, [llm] key_env = "{variable}"; to use '
            f"{OFFICIAL_URLS[word.provider]}, unset {address}"
        )
    return variable


def _is_meant_for(word: ModelWord, settings: Settings, is_named_by_person: bool) -> bool:
    """True if the key in harness.toml belongs to the server this model is on: that of the model beside it, or
    the one that the person has named."""
    if not settings.own_model:
        return is_named_by_person
    own = parse_model(settings.own_model, f"`model` in {OWN_FILE}")
    return (own.provider, own.base_url) == (word.provider, word.base_url)


def _key(variable: str, environ: Mapping[str, str]) -> str:
    key = environ[variable].strip()
    if not re.fullmatch(r"[!-~]+", key):  # it would fail in the middle of a header, and be quoted there
        raise ConfigurationError(
            f"{variable} holds something that is no key: it has blanks, line breaks or characters that are "
            "not plain ASCII (a quotation mark from a web page?). Copy the key again"
        )
    return key


def limits_of(options: RunOptions, config: LlmConfig) -> Limits:
    """What the model may cost: as was given, else the defaults; money is bounded where the price is known."""
    cost, calls = options.max_cost_usd, options.max_calls
    if cost is None and config.price is not None:
        cost = DEFAULT_LIMIT_USD
    return Limits(cost, DEFAULT_LIMIT_CALLS if calls is None else calls)
