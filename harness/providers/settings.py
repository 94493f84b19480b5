"""harness.toml: which language model to use, its key, its limits, and prices of one's own.

In: the working directory and the environment, which say where the file may be. Out: `Settings`, checked.
Every problem is a `ConfigurationError` that names the file, the key in it and the mend.
"""

import difflib
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FILE_NAME = "harness.toml"


class ConfigurationError(Exception):
    """The language model cannot be used as configured; the text says what to change."""


class LlmSettings(BaseModel):
    """The section [llm]."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = None
    """As for `--model`: provider:NAME, with @http://host:port/... for a server of one's own."""
    key_env: str | None = Field(default=None, min_length=1)
    """The environment variable that holds the key for that model."""
    key: str | None = Field(default=None, min_length=1)
    """The key itself; `key_env` is the safer way."""
    max_cost: float | None = Field(default=None, gt=0)
    """The most that one experiment may spend, in USD."""
    max_calls: int | None = Field(default=None, ge=0)
    """The most calls that one experiment may make."""


class PriceSettings(BaseModel):
    """A section [prices."provider:NAME"], in USD per million tokens."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    cache_write_1h: float | None = Field(default=None, ge=0)


class Settings(BaseModel):
    """A whole harness.toml."""

    model_config = ConfigDict(extra="forbid", strict=True)

    llm: LlmSettings = LlmSettings()
    prices: dict[str, PriceSettings] = {}


@dataclass(frozen=True)
class Found:
    """The settings that hold; `path` None when there is no file. `is_project`: it is the working directory's,
    which may have come with somebody else's code."""

    path: Path | None
    settings: Settings
    warnings: tuple[str, ...] = ()
    is_project: bool = False


def find(cwd: Path, environ: Mapping[str, str]) -> Found:
    """The harness.toml of the working directory, else the user's own, else empty settings."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")
    for path, is_project in ((cwd / FILE_NAME, True), (home / "harness" / FILE_NAME, False)):
        if path.is_file():
            return replace(_read(path), is_project=is_project)
    return Found(None, Settings())


def _read(path: Path) -> Found:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOML syntax, or bytes that are not UTF-8
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(problem)) for problem in error.errors())
        raise ConfigurationError(f"{path}: {problems}") from None  # its own text would quote a literal key
    if settings.llm.key and settings.llm.key_env:
        raise ConfigurationError(f"{path}: [llm] has both `key` and `key_env`; remove one of them")
    return Found(path, settings, _warnings(path, settings))


def _warnings(path: Path, settings: Settings) -> tuple[str, ...]:
    if settings.llm.key and path.stat().st_mode & 0o077:
        return (
            f"{path} holds a key and others may read it: `chmod 600 {path}`, or name an environment variable "
            "with `key_env` instead",
        )
    return ()


_FIELDS: dict[str, type[BaseModel]] = {"llm": LlmSettings, "prices": PriceSettings}


def _problem(problem: dict[str, Any]) -> str:
    """One finding of the schema as a sentence; never the value, which may be a key."""
    place = [str(part) for part in problem["loc"]]
    name = ".".join(place)
    if problem["type"] == "extra_forbidden":
        schema = _FIELDS[place[0]] if len(place) > 1 else Settings
        close = difflib.get_close_matches(place[-1], schema.model_fields, n=1)
        known = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(schema.model_fields)}"
        return f"`{name}` is unknown, {known}"
    if problem["type"] == "missing":
        return f"`{name}` is missing"
    return f"`{name}`: {problem['msg'].lower()}"
