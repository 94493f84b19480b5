"""Colours and type of the figures; in an SVG every colour is a CSS variable, so that it follows the page."""

from __future__ import annotations

import re
from html import escape
from typing import Any

# Lines differ in lightness too: not every eye tells their hues apart.
_ROLES = ("ink", "grid", "attempt", "bad", *(f"line-{number}" for number in range(1, 9)))
LINES = ("#2563a8", "#b4631a", "#0b7a65", "#a8387a", "#7d7000", "#5b4db3", "#2089b0", "#6e3324")
INK, GRID, TAKEN_OVER, BAD = "#57606a", "#e4e7eb", "#8a6fb0", "#b3362c"
_LIGHT = (INK, GRID, TAKEN_OVER, BAD, *LINES)
_DARK = (
    *("#9aa4af", "#2d333b", "#b79ce0", "#f0857a"),
    *("#6cb0f5", "#e8a35c", "#3fc4a6", "#f08cc4", "#d6c84a", "#a99cf5", "#8fdcf5", "#d99a86"),
)


def colour_variables(is_dark: bool) -> str:
    """The CSS declarations of the figures' colours for a page."""
    colours = zip(_ROLES, _DARK if is_dark else _LIGHT, strict=True)
    return " ".join(f"--fig-{role}: {colour};" for role, colour in colours)


def standalone(svg: str, title: str) -> str:
    """The <svg> element as a scalable file of its own, with a title and both colour schemes in it."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :].strip(), flags=re.DOTALL)
    for size in ("width", "height"):
        svg = re.sub(rf'^(<svg [^>]*?) ?{size}="[^"]*"', r"\1", svg)
    for role, colour in zip(_ROLES, _LIGHT, strict=True):
        svg = svg.replace(colour, f"var(--fig-{role}, {colour})")
    css = (
        f"<style>svg{{{colour_variables(is_dark=False)} background:#ffffff}} "
        f"@media (prefers-color-scheme:dark){{svg{{{colour_variables(is_dark=True)} background:#14181d}}}}"
        "</style>"
    )
    head, bracket, rest = svg.partition(">")
    head += f' role="img" aria-label="{escape(title)}"'
    title = f"<title>{escape(title)}</title>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{bracket}{title}{css}{rest}\n'


def style() -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        **dict.fromkeys(("axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
        **dict.fromkeys(("axes.edgecolor", "grid.color"), GRID),
        **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
        **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
        "axes.grid.axis": "y",
        "grid.linewidth": 0.8,
        "text.parse_math": False,
        "legend.frameon": False,
    }
