"""Colours and type of the figures; in an SVG every colour is a CSS variable, so that it follows the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Palette:
    """Colours by role, as #rrggbb. Lines differ in lightness too: not every eye tells their hues apart."""

    ink: str
    grid: str
    attempt: str
    bad: str
    lines: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Each colour by its CSS variable."""
        lines = {f"--fig-line-{number}": colour for number, colour in enumerate(self.lines, start=1)}
        more = {"--fig-attempt": self.attempt, "--fig-bad": self.bad}
        return {"--fig-ink": self.ink, "--fig-grid": self.grid, **more, **lines}


LIGHT = Palette(
    *("#57606a", "#e4e7eb", "#8a6fb0", "#b3362c"),
    ("#2563a8", "#b4631a", "#0b7a65", "#a8387a", "#7d7000", "#5b4db3", "#2089b0", "#6e3324"),
)
DARK = Palette(
    *("#9aa4af", "#2d333b", "#b79ce0", "#f0857a"),
    ("#6cb0f5", "#e8a35c", "#3fc4a6", "#f08cc4", "#d6c84a", "#a99cf5", "#8fdcf5", "#d99a86"),
)
# Colours that nothing else uses, so that they can be found in the SVG and turned into variables.
_MARKED = [f"#0102{number:02x}" for number in range(3, 15)]
MARKERS = Palette(_MARKED[0], _MARKED[1], _MARKED[2], _MARKED[3], tuple(_MARKED[4:]))


def colour_variables(is_dark: bool) -> str:
    """The CSS declarations of the figures' colours for a page."""
    return " ".join(f"{name}: {colour};" for name, colour in (DARK if is_dark else LIGHT).variables.items())


def standalone(svg: str, title: str) -> str:
    """The <svg> element as a scalable file of its own, with a title and both colour schemes in it."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :].strip(), flags=re.DOTALL)
    for size in ("width", "height"):
        svg = re.sub(rf'^(<svg [^>]*?) ?{size}="[^"]*"', r"\1", svg)
    for name, marker in MARKERS.variables.items():
        svg = svg.replace(marker, f"var({name}, {LIGHT.variables[name]})")
    css = (
        f"<style>svg{{{colour_variables(is_dark=False)} background:#ffffff}} "
        f"@media (prefers-color-scheme:dark){{svg{{{colour_variables(is_dark=True)} background:#14181d}}}}"
        "</style>"
    )
    head, bracket, rest = svg.partition(">")
    head += f' role="img" aria-label="{escape(title)}"'
    title = f"<title>{escape(title)}</title>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{bracket}{title}{css}{rest}\n'


def style(palette: Palette) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        **dict.fromkeys(("axes.labelcolor", "text.color", "xtick.color", "ytick.color"), palette.ink),
        **dict.fromkeys(("axes.edgecolor", "grid.color"), palette.grid),
        **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
        **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
        "axes.grid.axis": "y",
        "grid.linewidth": 0.8,
        "text.parse_math": False,
        "legend.frameon": False,
    }
