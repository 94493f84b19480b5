"""harness.toml: which language model to use, its key, its limits, and prices of one's own.

In: the working directory and the environment, which say where the files may be: a project's, which may have
come with somebody else's code, and the person's own. Out: `Settings`, checked. A project's file may name a
model and lower limits; prices are the person's alone. Every problem is a `ConfigurationError` that names the
file, the key in it and what to write instead.
"""

import importlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UserError
from harness.providers.cost import DEFAULT_LIMIT_CALLS, DEFAULT_LIMIT_USD
from harness.wording import did_you_mean

FILE_NAME = "harness.toml"
_Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ConfigurationError(UserError):
    """The language model cannot be used as configured; the text says what to change."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LlmSettings(_Section):
    """The section [llm]."""

    model: str | None = None
    """As for `--model`: provider:NAME, with @http://host:port/... for a server of one's own."""
    key_env: str | None = Field(default=None, min_length=1)
    """The environment variable that holds the key for that model."""
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The most that one experiment may spend, in USD."""
    max_calls: int | None = Field(default=None, ge=0)
    """The most calls that one experiment may make."""


class PriceSettings(_Section):
    """A section [prices."provider:NAME"], in USD per million tokens."""

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None
    cache_write: _Usd | None = None
    cache_write_1h: _Usd | None = None


class Settings(_Section):
    """A whole harness.toml."""

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
    """The settings of the working directory's harness.toml and the user's own together."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")
    own_path, path = home / "harness" / FILE_NAME, cwd / FILE_NAME
    own = _read(own_path) if own_path.is_file() else Found(None, Settings())
    if not path.is_file() or (own.path and path.samefile(own.path)):
        return own
    return _together(replace(_read(path), is_project=True), own)


def _together(project: Found, own: Found) -> Found:
    """The project's model and key, or the user's own where it names none; the lowest limits; own prices."""
    llm, mine = project.settings.llm, own.settings.llm
    base = project if llm.model or llm.key_env else own
    limits: dict[str, float | None] = {}
    warnings = [*own.warnings, *project.warnings]
    for name, asked, allowed, usual in (
        ("max_cost", llm.max_cost, mine.max_cost, DEFAULT_LIMIT_USD),
        ("max_calls", llm.max_calls, mine.max_calls, DEFAULT_LIMIT_CALLS),
    ):
        bound = usual if allowed is None else allowed
        limits[name] = allowed if asked is None else min(asked, bound)
        if asked is not None and asked > bound:
            warnings.append(
                f"{project.path}: `{name}` = {asked:g} is more than the {bound:g} that hold without "
                "it; a file in the working directory can only lower it, the command line can raise it"
            )
    if project.settings.prices:
        warnings.append(
            f"{project.path}: its prices are not used; a file in the working directory cannot set them, "
            "~/.config/harness/harness.toml can"
        )
    settings = Settings(llm=base.settings.llm.model_copy(update=limits), prices=own.settings.prices)
    return Found(base.path or project.path, settings, tuple(warnings), base.is_project)


def _read(path: Path) -> Found:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        settings = Settings.model_validate(toml.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = "; ".join(_problem(dict(problem)) for problem in error.errors())
        raise ConfigurationError(f"{path}: {problems}") from None  # its own text may quote a key
    except ValueError as error:  # TOML syntax, or bytes that are not UTF-8
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    for name in settings.prices:
        if not re.fullmatch(r"(?:anthropic|openai):[^@\s]+", name):
            raise ConfigurationError(
                f'{path}: `prices."{name}"` names no provider; write provider:NAME without an address, such '
                f'as [prices."openai:{name.partition("@")[0].rpartition(":")[2] or "NAME"}"]'
            )
    return Found(path, settings)


def _problem(problem: dict[str, Any]) -> str:
    """One finding of the schema as a sentence; never the value, which may be a key."""
    place = [str(part) for part in problem["loc"]]
    name = ".".join(place)
    if problem["type"] == "extra_forbidden":
        sections: dict[str, type[BaseModel]] = {"llm": LlmSettings, "prices": PriceSettings}
        known = (sections[place[0]] if len(place) > 1 else Settings).model_fields
        hint = did_you_mean(place[-1], known, "did you mean `{}`?") or f"known are {', '.join(known)}"
        return f"`{name}` is unknown, {hint}"
    return f"`{name}` is missing" if problem["type"] == "missing" else f"`{name}`: {problem['msg'].lower()}"
