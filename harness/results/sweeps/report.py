"""From a comparison to its documents: sweep_report.md, sweep_report.html, sweep.json, points.csv, figures/.

Everything is built from the `Comparison` alone, so a report can be built again at any moment and comes out
the same; each file is replaced in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import installation
from harness.atomic_write import write_atomically
from harness.environment import known_secrets, remembered
from harness.results import text
from harness.results.charts import page_parts
from harness.results.comparing.types import Comparison
from harness.results.manifest import fingerprints, with_checksum
from harness.results.narrative.added import FILE, TRANSCRIPT, added, narrative_json
from harness.results.narrative.sections import tell
from harness.results.narrative.sweep import SweepEvidence
from harness.results.next_step import NextStep
from harness.results.parts import made
from harness.results.sweeps.figures import draw_figures
from harness.results.sweeps.tables import SweepAbout, build_page, points_csv, to_json
from harness.results.sweeps.wording import level_text
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
    about: SweepAbout = SweepAbout(),
    narrative: Mapping[str, Any] | None = None,
    into: Path | None = None,
) -> SweepReport:
    """Write the report into `folder`, which is made if it is not there.

    `narrative`: what a model wrote, section by section. `into`: as `results.report.build_report`. Raises
    OSError when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    target = into or folder
    secrets = (known_secrets if into is None else remembered)(folder, *comparison.study.remembering)
    comparison, about = text.clean_tree(comparison, secrets), text.clean_tree(about, secrets)
    left_out: list[str] = []
    later = text.clean_tree(added(folder), secrets)
    written = {**(narrative or {}), **later.sections}
    told = made("the narrative", lambda: tell(written, SweepEvidence(comparison), secrets), left_out)
    view = build_page(comparison, folder, about)
    figures = draw_figures(comparison, folder, left_out, into)
    no_words = (about.no_words,) if about.no_words and told is None else ()
    view["notes"] = (*view["notes"], *left_out, *no_words)
    next_step = text.clean_tree(NextStep.of(folder), secrets)
    if next_step is not None:
        view["headline"] = (*view["headline"], f"next experiment: {next_step.command}")
    values = {"view": view, "comparison": comparison, "figures": figures, "narrative": told}
    values |= {"narrator": later.author if later.sections else about.model, "next_step": next_step}
    values |= {"duration": duration, "time_text": time_text, "level": level_text}
    documents = {
        "sweep_report.html": render("reports/sweep_report.html.j2", **values, **page_parts(figures)),
        "sweep_report.md": render("reports/sweep_report.md.j2", **values, md=text.markdown, code=text.code),
        "points.csv": points_csv(comparison),
    }
    for name, content in documents.items():
        write_atomically(target / name, content)
    data = {
        "schema": _SCHEMA,
        "built_by": installation.version(),
        "name": comparison.study.name,
        **{key: view[key] for key in ("verdict", "found", "headline", "notes")},
        "cautions": [asdict(caution) for caution in view["cautions"]],
        "about": {key: value for key, value in vars(about).items() if key != "plan"},
        "comparison": to_json(comparison, folder),
        "figures": [{"title": one.title, "caption": one.caption, "files": one.files} for one in figures],
        "plan": about.plan or None,
    }
    data |= narrative_json(told, later, about.model)
    names = (*DOCUMENTS, FILE, TRANSCRIPT, *(file for figure in figures for file in figure.files))
    data["documents"] = fingerprints(target, [target / name for name in names])
    write_atomically(target / "sweep.json", with_checksum(data))
    return SweepReport(folder, view["headline"])
