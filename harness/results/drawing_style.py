"""Colours and type of the figures; in an SVG every colour is a CSS variable, so that it follows the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Palette:
    """Colours by role, as #rrggbb. Lines differ in lightness too: not every eye tells their hues apart."""

    ink: str
    grid: str
    attempt: str
    lines: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Each colour by its CSS variable."""
        lines = {f"--fig-line-{number}": colour for number, colour in enumerate(self.lines, start=1)}
        return {"--fig-ink": self.ink, "--fig-grid": self.grid, "--fig-attempt": self.attempt, **lines}


LIGHT = Palette(
    *("#57606a", "#e4e7eb", "#8a6fb0"),
    ("#2563a8", "#b4631a", "#0b7a65", "#a8387a", "#7d7000", "#5b4db3", "#2089b0", "#6e3324"),
)
DARK = Palette(
    *("#9aa4af", "#2d333b", "#b79ce0"),
    ("#6cb0f5", "#e8a35c", "#3fc4a6", "#f08cc4", "#d6c84a", "#a99cf5", "#8fdcf5", "#d99a86"),
)
# Colours that nothing else uses, so that they can be found in the SVG and turned into variables.
MARKERS = Palette("#010203", "#010204", "#010205", tuple(f"#0102{number:02x}" for number in range(6, 14)))


def colour_variables(is_dark: bool) -> str:
    """The CSS declarations of the figures' colours for a page."""
    return " ".join(f"{name}: {colour};" for name, colour in (DARK if is_dark else LIGHT).variables.items())


def with_variables(svg: str) -> str:
    """The SVG with the marker colours turned into CSS variables."""
    for name, marker in MARKERS.variables.items():
        svg = svg.replace(marker, f"var({name}, {LIGHT.variables[name]})")
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
