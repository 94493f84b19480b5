"""Render the Jinja2 templates of `templates/`: the one place that knows where they are and how they behave.

Templates live at the top of a checkout and inside the package of an installed wheel. An undefined name is
an error, `.html.j2` templates escape their values, and the filter `yaml` writes a value as a YAML scalar.
"""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def templates_dir() -> Path:
    """The folder that holds the templates: `harness/templates` when installed, `templates/` in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


def template_names(folder: str) -> tuple[str, ...]:
    """Names of the templates in one folder of `templates/`, without `.j2` and file type, sorted."""
    return tuple(sorted(file.name.split(".")[0] for file in (templates_dir() / folder).glob("*.j2")))


def yaml_scalar(value: object) -> str:
    """One value as a YAML 1.2 scalar or flow collection, quoted where needed (JSON is YAML)."""
    if isinstance(value, float):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=1)
def environment() -> "Environment":
    """The Jinja2 environment every template is rendered in."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=FileSystemLoader(templates_dir()),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html.j2", "html"), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["yaml"] = yaml_scalar
    return made


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
