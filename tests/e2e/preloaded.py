"""What every harness of `mortal` has loaded and compiled before it begins: imported once, by the server that
they are forked from."""

from contextlib import suppress
from importlib import import_module

from jinja2 import UndefinedError

from harness.cli.app import COMMANDS
from harness.diagnosis import signatures
from harness.installation import templates_dir
from harness.results.charts import Chart, Line, Panel
from harness.results.drawing import draw
from harness.templating import environment, render_lines
from monitors.metrics import families

LOADED_WHEN_NEEDED = (
    "anthropic",
    "harness.notifications",
    "harness.providers.choice",
    "harness.results.figures",
    "harness.results.provenance",
    "harness.results.report",
    "harness.results.verify",
    "linkify_it.ucre",
    "matplotlib.backends.backend_agg",
    "matplotlib.pyplot",
    "openai",
    "pynvml",
    "rich.console",
    "scipy.stats",
)

for command in COMMANDS.values():
    import_module(f"harness.cli.{command[0].partition('.')[0]}")
for name in LOADED_WHEN_NEEDED:
    import_module(name)
signatures.load(()).clauses  # noqa: B018
families.families()
for folder in ("console", "reports"):
    for template in (templates_dir() / folder).glob("**/*.j2"):
        environment().get_template(str(template.relative_to(templates_dir())))
with suppress(UndefinedError):
    render_lines("reports/run_words.txt.j2")
draw(Chart("loss", "Loss", "", "metric", "step", "", (Panel(lines=(Line("01", (1.0, 2.0), (2.0, 1.0)),)),)))
