"""From a comparison to its documents: sweep_report.md, sweep_report.html, sweep.json, points.csv, figures/.

Everything is built from the `Comparison` alone, so a report can be built again at any moment and comes out
the same; each file is replaced in one step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.atomic_write import write_atomically
from harness.redaction import secret_values
from harness.results import text
from harness.results.comparing.as_json import points_csv, to_json
from harness.results.comparing.types import Comparison
from harness.results.drawing_style import colour_variables
from harness.results.manifest import fingerprints, with_checksum
from harness.results.narrative.sections import tell
from harness.results.narrative.sweep import SweepEvidence
from harness.results.sweeps.figures import draw_figures
from harness.results.sweeps.tables import SweepAbout, build_page
from harness.results.sweeps.wording import level_text
from harness.results.types import Figure
from harness.templating import render
from harness.wording import duration, time_text

DOCUMENTS = ("sweep_report.md", "sweep_report.html", "points.csv")
_SCHEMA = 1


@dataclass(frozen=True)
class SweepReport:
    """What `build_sweep_report` leaves behind. `headline`: lines for the terminal."""

    folder: Path
    headline: tuple[str, ...]

    @property
    def html(self) -> Path:
        return self.folder / "sweep_report.html"


def build_sweep_report(
    folder: Path,
    comparison: Comparison,
    about: SweepAbout,
    plan: Mapping[str, Any] | None = None,
    narrative: Mapping[str, Any] | None = None,
    into: Path | None = None,
) -> SweepReport:
    """Write the report into `folder`, which is made if it is not there.

    `plan`: the sweep's plan as its journal has it, kept whole in sweep.json. `narrative`: what a model wrote,
    section by section. `into`: as `results.report.build_report`. Raises OSError when the folder cannot be
    written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    target = into or folder
    secrets = secret_values(os.environ) if into is None else ()
    comparison, about = text.clean_tree(comparison, secrets), text.clean_tree(about, secrets)
    told = tell(narrative or {}, SweepEvidence(comparison), secrets)
    view = build_page(comparison, about, folder)
    figures = draw_figures(comparison, folder, into)
    values = {"view": view, "comparison": comparison, "figures": figures, "narrative": told}
    words = {"duration": duration, "time_text": time_text, "level": level_text}
    formats: dict[str, Callable[..., str]] = {"md": text.markdown, "code": text.code}
    light, dark = colour_variables(is_dark=False), colour_variables(is_dark=True)
    page = render("reports/sweep_report.html.j2", **values, **words, light_colours=light, dark_colours=dark)
    write_atomically(target / "sweep_report.html", page)
    write_atomically(
        target / "sweep_report.md", render("reports/sweep_report.md.j2", **values, **words, **formats)
    )
    write_atomically(target / "points.csv", points_csv(comparison))
    data = _json(view, to_json(comparison, folder), figures, text.clean_tree(plan, secrets))
    if told is not None:
        data["narrative"] = {"written_by": about.model, **told.as_json()}
    names = (*DOCUMENTS, *(file for figure in figures for file in figure.files))
    data["documents"] = fingerprints(target, [target / name for name in names])
    write_atomically(target / "sweep.json", with_checksum(data))
    return SweepReport(folder, view["headline"])


def _json(
    view: Mapping[str, Any],
    compared: Mapping[str, Any],
    figures: list[Figure],
    plan: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "name": view["about"].name,
        "verdict": view["verdict"],
        "found": list(view["found"]),
        "headline": list(view["headline"]),
        "cautions": [asdict(caution) for caution in view["cautions"]],
        "notes": list(view["notes"]),
        "about": asdict(view["about"]),
        "comparison": compared,
        "figures": [
            {"title": one.title, "caption": one.caption, "files": list(one.files)} for one in figures
        ],
        "plan": plan,
    }
