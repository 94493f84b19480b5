"""Render the Jinja2 templates of `templates/`: the one place that knows how they behave.

An undefined name is an error, `.html.j2` templates escape their values, and the filter `yaml` writes a value
as a YAML scalar.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.installation import own_files, own_text, templates_dir

if TYPE_CHECKING:
    from jinja2 import Environment

_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def template_names(folder: str) -> tuple[str, ...]:
    """Names of the templates in one folder of `templates/`, without `.j2` and file type, sorted."""
    return tuple(file.name.split(".")[0] for file in own_files(templates_dir() / folder, ".j2"))


def yaml_scalar(value: object) -> str:
    """One value as a YAML 1.2 scalar or flow collection, quoted where needed (JSON is YAML)."""
    if isinstance(value, float):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=1)
def environment() -> "Environment":
    """The Jinja2 environment every template is rendered in."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html.j2", "html"), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["yaml"] = yaml_scalar
    return made


def _source(name: str) -> tuple[str, str, Callable[[], bool]] | None:
    path = templates_dir() / name
    with suppress(FileNotFoundError):
        return own_text(path), str(path), lambda: True
    return None


def render(template: str, /, **values: object) -> str:
    """Render a template (a path below `templates/`, such as `reports/result.md.j2`). Raises
    jinja2.TemplateNotFound for an unknown name, jinja2.UndefinedError for a value that was not given."""
    return environment().get_template(template).render(**values)


def render_lines(template: str, /, **values: object) -> tuple[str, ...]:
    """The lines of a rendered template, without blank ones and space around them. Only the template makes
    lines: a break in a value, wherever it comes from, is a space."""
    text = _environment_of_lines().get_template(template).render(**values)
    return tuple(filter(None, map(str.strip, text.split("\n"))))


@lru_cache(maxsize=1)
def _environment_of_lines() -> "Environment":
    return environment().overlay(finalize=lambda value: _BREAKS.sub(" ", str(value)))
