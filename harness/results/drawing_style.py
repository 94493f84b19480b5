"""Colours and type of the figures; in an SVG every colour is a CSS variable, so that it follows the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Palette:
    """Colours by role, as #rrggbb. Lines differ in lightness too: not every eye tells their hues apart."""

    ink: str
    grid: str
    line_1: str
    line_2: str
    attempt: str
    line_3: str
    line_4: str
    line_5: str
    line_6: str
    line_7: str
    line_8: str

    @property
    def lines(self) -> tuple[str, ...]:
        """One colour per line of a picture with several."""
        return tuple(getattr(self, f"line_{number}") for number in range(1, 9))


LIGHT = Palette(
    "#57606a", "#e4e7eb", "#2563a8", "#b4631a", "#8a6fb0",
    "#0b7a65", "#a8387a", "#7d7000", "#5b4db3", "#2089b0", "#6e3324",
)  # fmt: skip
DARK = Palette(
    "#9aa4af", "#2d333b", "#6cb0f5", "#e8a35c", "#b79ce0",
    "#3fc4a6", "#f08cc4", "#d6c84a", "#a99cf5", "#8fdcf5", "#d99a86",
)  # fmt: skip
# Colours that nothing else uses, so that they can be found in the SVG and turned into variables.
MARKERS = Palette(*(f"#0102{number:02x}" for number in range(3, 14)))


def colour_variables(is_dark: bool) -> str:
    """The CSS declarations of the figures' colours for a page."""
    palette = vars(DARK if is_dark else LIGHT)
    return " ".join(f"--fig-{role.replace('_', '-')}: {colour};" for role, colour in palette.items())


def with_variables(svg: str) -> str:
    """The SVG with the marker colours turned into CSS variables."""
    for role, marker in vars(MARKERS).items():
        svg = svg.replace(marker, f"var(--fig-{role.replace('_', '-')}, {getattr(LIGHT, role)})")
    return svg


def standalone(svg: str) -> str:
    """The SVG as a file of its own, with both colour schemes in it."""
    css = (
        f"<style>svg{{{colour_variables(is_dark=False)} background:#ffffff}} "
        f"@media (prefers-color-scheme:dark){{svg{{{colour_variables(is_dark=True)} background:#14181d}}}}"
        "</style>"
    )
    head, bracket, rest = svg.partition(">")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{bracket}{css}{rest}\n'


def style(palette: Palette) -> dict[str, Any]:
    """matplotlib's settings for a picture in these colours."""
    return {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.edgecolor": palette.grid,
        "axes.labelcolor": palette.ink,
        "text.color": palette.ink,
        "xtick.color": palette.ink,
        "ytick.color": palette.ink,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": palette.grid,
        "grid.linewidth": 0.8,
        "text.parse_math": False,
        "legend.frameon": False,
    }
