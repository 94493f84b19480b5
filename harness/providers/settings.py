"""harness.toml: which language model to use, its key, its limits, prices of one's own, whom to notify.

In: the working directory and the environment, which say where the files may be: a project's, which may have
come with somebody else's code, and the person's own. Out: `Settings`, checked. A project's file may name a
model and lower limits; keys, prices and addresses are the person's alone. Every problem is a
`ConfigurationError` that names the file, the key in it and what to write instead.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UserError
from harness.providers.cost import DEFAULT_LIMIT_CALLS, DEFAULT_LIMIT_USD
from harness.wording import did_you_mean

FILE_NAME = "harness.toml"
OWN_FILE = f"~/.config/harness/{FILE_NAME}"
_Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ConfigurationError(UserError):
    """The language model cannot be used as configured; the text says what to change."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Llm(_Section):
    """The section [llm]."""

    model: str | None = None
    """As for `--model`: provider:NAME, with @http://host:port/... for a server of one's own."""
    key_env: str | None = Field(default=None, min_length=1)
    """The environment variable that holds the key for that model."""
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The most that one experiment may spend, in USD."""
    max_calls: int | None = Field(default=None, ge=0)
    """The most calls that one experiment may make."""
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How long nothing may come of a reply, in seconds."""


class Prices(_Section):
    """A section [prices."provider:NAME"], in USD per million tokens."""

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None
    cache_write: _Usd | None = None
    cache_write_1h: _Usd | None = None


class Notifications(_Section):
    """The section [notifications]."""

    urls: list[str] = []
    """Addresses of apprise that are told of failures, questions and ends."""


class _File(_Section):
    llm: Llm = Llm()
    notifications: Notifications = Notifications()
    prices: dict[str, Prices] = {}


@dataclass(frozen=True)
class Settings:
    """What holds of both files. `llm`: the project's model, else the person's own, with the lower limits and
    the person's key, which is for the server of `own_model` where there is one. `path` names the model;
    `is_projects`: that is the working directory's file. `notify`: the person's addresses, which may hold
    tokens."""

    llm: Llm
    own_model: str | None
    prices: Mapping[str, Prices]
    path: Path
    is_projects: bool
    warnings: tuple[str, ...]
    notify: tuple[str, ...] = field(default=(), repr=False)


def find(cwd: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of the working directory's harness.toml and the person's own together."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")
    own_path, path = home / "harness" / FILE_NAME, cwd / FILE_NAME
    own = _read(own_path)
    is_same = own_path.is_file() and path.is_file() and path.samefile(own_path)
    project = _File() if is_same else _read(path)
    own_only = {
        "`key_env`": project.llm.key_env,
        "`timeout_s`": project.llm.timeout_s,
        "the prices": project.prices,
        "[notifications]": project.notifications.urls,
    }
    if misplaced := [name for name, value in own_only.items() if value]:
        raise ConfigurationError(
            f"{path}: a file in the working directory may only say `model`, `max_cost` and `max_calls`; move "
            f"{' and '.join(misplaced)} to {OWN_FILE}"
        )
    limits: dict[str, float | None] = {}
    warnings = []
    for name, usual in (("max_cost", DEFAULT_LIMIT_USD), ("max_calls", DEFAULT_LIMIT_CALLS)):
        asked, allowed = getattr(project.llm, name), getattr(own.llm, name)
        bound = usual if allowed is None else allowed
        limits[name] = allowed if asked is None else min(asked, bound)
        if asked is not None and asked > bound:
            warnings.append(
                f"{path}: `{name}` = {asked:g} is more than the {bound:g} that hold without "
                "it; a file in the working directory can only lower it, the command line can raise it"
            )
    is_projects = project.llm.model is not None
    llm = own.llm.model_copy(update={"model": project.llm.model or own.llm.model, **limits})
    used = path if is_projects else own_path
    return Settings(
        llm, own.llm.model, own.prices, used, is_projects, tuple(warnings), tuple(own.notifications.urls)
    )


def _read(path: Path) -> _File:
    """A file's content, checked; the defaults where there is no file."""
    if not path.is_file():
        return _File()
    from harness.config.reader import UnreadableConfigError, reading, text_of

    try:
        text = text_of(path).removeprefix("\ufeff")
        with reading(text):
            data = tomllib.loads(text)
        read = _File.model_validate(data)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = "; ".join(_problem(dict(problem)) for problem in error.errors())
        raise ConfigurationError(f"{path}: {problems}") from None  # its own text may quote a key
    except UnreadableConfigError as error:
        raise ConfigurationError(f"{path} is {error}") from error
    for name in read.prices:
        if not re.fullmatch(r"(?:anthropic|openai):[^@\s]+", name):
            fix = 'write provider:NAME without an address, such as [prices."openai:NAME"]'
            raise ConfigurationError(f'{path}: `prices."{name}"` names no provider; {fix}')
    return read


def _problem(problem: dict[str, Any]) -> str:
    """One finding of the schema as a sentence; never the value, which may be a key."""
    place = [str(part) for part in problem["loc"]]
    name = ".".join(place)
    if problem["type"] == "extra_forbidden":
        sections: dict[str, type[BaseModel]] = {"llm": Llm, "prices": Prices, "notifications": Notifications}
        known = (sections[place[0]] if len(place) > 1 else _File).model_fields
        hint = did_you_mean(place[-1], known, "did you mean `{}`?") or f"known are {', '.join(known)}"
        return f"`{name}` is unknown, {hint}"
    return f"`{name}` is missing" if problem["type"] == "missing" else f"`{name}`: {problem['msg'].lower()}"
