"""harness.toml: which language model to use, its key, its limits, and prices of one's own.

In: the working directory and the environment, which say where the files may be: a project's, which may have
come with somebody else's code, and the person's own. Out: `Settings`, checked. A project's file may name a
model and lower limits; prices are the person's alone. Every problem is a `ConfigurationError` that names the
file, the key in it and the mend.
"""

import difflib
import importlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.providers.spending import DEFAULT_LIMIT_CALLS, DEFAULT_LIMIT_USD

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
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The most that one experiment may spend, in USD."""
    max_calls: int | None = Field(default=None, ge=0)
    """The most calls that one experiment may make."""


class PriceSettings(BaseModel):
    """A section [prices."provider:NAME"], in USD per million tokens."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write_1h: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Settings(BaseModel):
    """A whole harness.toml."""

    model_config = ConfigDict(extra="forbid", strict=True)

    llm: LlmSettings = LlmSettings()
    prices: dict[str, PriceSettings] = {}


@dataclass(frozen=True)
class Found:
    """The settings that hold; `path`, None when there is no file, is the one that names model and key.
    `is_project`: that is the working directory's, which may have come with somebody else's code."""

    path: Path | None
    settings: Settings
    warnings: tuple[str, ...] = ()
    is_project: bool = False


def find(cwd: Path, environ: Mapping[str, str]) -> Found:
    """What the harness.toml of the working directory and the user's own say together."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")
    own_path, path = home / "harness" / FILE_NAME, cwd / FILE_NAME
    own = _read(own_path) if own_path.is_file() else Found(None, Settings())
    if not path.is_file() or (own.path and path.samefile(own.path)):
        return own
    return _together(replace(_read(path), is_project=True), own)


def _together(project: Found, own: Found) -> Found:
    """The project's model and key, or the user's own where it names none; the lowest limits; own prices."""
    llm = project.settings.llm
    base = project if llm.model or llm.key or llm.key_env else own
    limits = {
        "max_cost": _lowest(llm.max_cost, own.settings.llm.max_cost, DEFAULT_LIMIT_USD),
        "max_calls": _lowest(llm.max_calls, own.settings.llm.max_calls, DEFAULT_LIMIT_CALLS),
    }
    warnings = [*own.warnings, *project.warnings]
    for name, asked in (("max_cost", llm.max_cost), ("max_calls", llm.max_calls)):
        if asked is not None and asked != limits[name]:
            warnings.append(
                f"{project.path}: `{name}` = {asked:g} is more than the {limits[name]:g} that hold without "
                "it; a file in the working directory can only lower it, the command line can raise it"
            )
    if project.settings.prices:
        warnings.append(
            f"{project.path}: its prices are not used; a file in the working directory cannot set them, "
            "~/.config/harness/harness.toml can"
        )
    settings = Settings(llm=base.settings.llm.model_copy(update=limits), prices=own.settings.prices)
    return Found(base.path or project.path, settings, tuple(warnings), base.is_project)


def _lowest(asked: float | None, own: float | None, usual: float) -> float | None:
    """The limit that holds; a project's without the user's own is bounded by the usual one."""
    if asked is None:
        return own
    return min(asked, usual if own is None else own)


def _read(path: Path) -> Found:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content = toml.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOML syntax, or bytes that are not UTF-8
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(problem)) for problem in error.errors())
        raise ConfigurationError(f"{path}: {problems}") from None  # its own text would quote a literal key
    for name in settings.prices:
        if not re.fullmatch(r"(?:anthropic|openai):[^@\s]+", name):
            raise ConfigurationError(
                f'{path}: `prices."{name}"` names no provider; write provider:NAME without an address, such '
                f'as [prices."openai:{name.partition("@")[0].rpartition(":")[2] or "NAME"}"]'
            )
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
