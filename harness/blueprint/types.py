"""What a blueprint says once it is understood, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.blueprint.names import is_condition
from harness.codec import encode

if TYPE_CHECKING:
    from monitors.metrics import MetricPatterns

Severity = Literal["error", "warning"]

DEFAULT_MAX_TIME_S = 24 * 3600.0
DEFAULT_FIRST_STEP_S = 20 * 60.0


@dataclass(frozen=True)
class Problem:
    """Something in a blueprint that is wrong (`error`: it cannot run) or deserves a look (`warning`)."""

    line: int
    """Line in the file, from 1; 1 for what concerns the whole file."""
    message: str
    """What is wrong."""
    fix: str
    """What to write or do instead."""
    severity: Severity = "error"

    @property
    def sentence(self) -> str:
        """What is wrong and how to fix it, on one line."""
        return f"{self.message} — {self.fix}"


@dataclass(frozen=True)
class MetricSpec:
    """How to find metrics in the output of a command that is not ours, and which of them matters (section
    `[exp_metrics]`)."""

    patterns: tuple[str, ...]
    """Regular expressions whose named groups are `step` and the metrics' names (or `name` and `value`)."""
    first_step: str | None = None
    """Regular expression of the line that proves the first step."""
    metric: str = ""
    """The metric that is the result; "": the one that the purpose names."""
    goal: Literal["max", "min"] | None = None
    """Which direction of it is better; None: what the table of names says."""
    file: str = ""
    """The file, folder or pattern below the codebase that metrics are read from; "": see `metric_files`."""

    def of_lines(self) -> "MetricPatterns":
        """The expressions, compiled, for who reads a log."""
        from monitors.metrics import MetricPatterns

        return MetricPatterns.compile(self.patterns, self.first_step)


@dataclass(frozen=True)
class Blueprint:
    """One experiment as planned. Paths are absolute; where a section is NA, the value is None."""

    path: Path
    name: str
    """The blueprint's folder name if the file is `blueprint.md`, else the file's stem."""
    purpose: str
    codebase_dir: Path
    """Working directory of the training."""
    venv_exe: Path
    """Python interpreter of the training."""
    yaml_path: Path | None
    """The config; None: the harness renders one."""
    launch_command: str | None
    """Shell text; None: the harness derives the command."""
    result_dir: Path
    max_time_s: float
    """Seconds the whole experiment may take."""
    first_step_s: float
    """Seconds until the first step must be seen."""
    notes: str
    """`Other Notes` and everything else outside the sections, as written."""
    metrics: MetricSpec | None = None
    protected_keys: tuple[str, ...] = ()
    """Dotted config keys that no repair may change."""
    code_changes: tuple[str, ...] = ()
    """Globs, relative to the codebase, of files that a model may correct in a private copy; conditions."""
    prepare_command: str | None = None
    evaluate_command: str | None = None
    """Shell text, run after the training from the author's own code; its metrics are the result."""
    cleanup_command: str | None = None
    host: str | None = None
    """Where it runs; None: here."""
    defaults: tuple[str, ...] = ()
    """One entry per section whose default was used: `section: value (reason)`."""
    problems: tuple[Problem, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of the value (else of the heading) of every section that is there."""

    @property
    def can_run(self) -> bool:
        """True when no problem is an error."""
        return not self.errors

    @property
    def errors(self) -> str:
        """Why it cannot run, in words; "" where it can."""
        return "; ".join(each.sentence for each in self.problems if each.severity == "error")

    @property
    def patchable(self) -> str:
        """Which files a model may correct, in words; "" for none."""
        globs = (entry for entry in self.code_changes if not is_condition(entry))
        return ", ".join("any source file" if glob == "**" else glob for glob in globs)

    def as_json(self) -> dict[str, Any]:
        """Everything understood as JSON values: absolute paths, seconds, null for NA; and `can_run`."""
        return {**encode(self), "can_run": self.can_run}
