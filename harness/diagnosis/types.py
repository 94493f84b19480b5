"""The words that the rooms of diagnosis share: what a log says (`Log` of `Fault`s), what comes out
(`Diagnosis`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from monitors.logs import Line
from monitors.metrics import Row

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Level = Literal["", "info", "warning", "error", "fatal"]
Role = Literal["root", "cascade", "symptom"]
UNKNOWN = "unknown"


# --- what a log says ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback. `line`: number of its `File "…"` line in the log; `code` is the source shown
    below it, "" where there is none."""

    line: int
    text: str
    path: str
    function: str
    code: str = ""


@dataclass(frozen=True)
class Fault:
    """One thing that went wrong, as one place of a log tells it.

    `lines`: the line that names it first (an exception's own line, never its frames), then those that belong
    to its message, as the log has them; `said` are the same without prefixes such as Ray's or a rank's.
    `type`: the exception with its module, "" for a plain line. `frames`: outermost first. `source`: who
    printed it ("rank 3", "WorkerDict pid=1210"), "" where that is not told. `chain`: faults with the same
    number (never 0) are one chain of exceptions, `depth` 0 is its root; 0 stands for no chain. `wrapped_in`:
    exceptions that only carried it, such as RayTaskError. `handled`: the text says that it was caught or
    ignored ("Exception ignored in", retried). `uncaught`: it ended a process (its frames begin at <module>
    or a worker's main). `before`: the lines above it, and `after` those below. `count`, `last`: how often
    its like was printed, and the number of the last such line.
    """

    lines: tuple[Line, ...]
    said: tuple[str, ...]
    type: str = ""
    frames: tuple[Frame, ...] = ()
    level: Level = "error"
    source: str = ""
    chain: int = 0
    depth: int = 0
    wrapped_in: tuple[str, ...] = ()
    handled: bool = False
    uncaught: bool = False
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()
    count: int = 1
    last: int = 0

    @property
    def line(self) -> int:
        """The number of the line that names it."""
        return self.lines[0].number

    @cached_property
    def message(self) -> str:
        """What was said, without prefixes; an exception's type stands in it."""
        return "\n".join(self.said)

    @cached_property
    def trace(self) -> str:
        """The frames with their code, one per line, outermost first."""
        return "\n".join(part for frame in self.frames for part in (frame.text.strip(), frame.code) if part)


@dataclass(frozen=True)
class SeenRow:
    """A metric row of the log, and where it stands."""

    line: Line
    row: Row


@dataclass(frozen=True)
class Log:
    """What reading left of a log, however long it is: bounded memory.

    `faults`: in the order of their lines. `rows`: metric rows, all of them in a short log, evenly thinned out
    in a long one; `rows_file` names the file they stand in where it is not the log. `last`: the last lines
    that say something.
    """

    path: Path
    faults: tuple[Fault, ...] = ()
    rows: tuple[SeenRow, ...] = ()
    rows_file: str = ""
    last: tuple[Line, ...] = ()
    line_count: int = 0
    size: int = 0


# --- what comes out -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """A line of a file in the attempt's folder; `line` counts from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class OtherFinding:
    """Something else that was found: what followed from the cause, or another one that is less likely."""

    family: str
    signature: str | None
    cause: str
    line: int
    role: Role = "root"


@dataclass(frozen=True)
class Diagnosis:
    """Why a training ended.

    `signature` is None when the failure is not a known one. `confidence`: the share of diagnoses like this
    one that were right (0 to 1). `captures`: what the log measured, such as `{"tried_gib": "1.02"}`.
    `remedies`: names from the signature, in order. `wait_s`: before a restart that changes nothing.
    """

    family: str
    signature: str | None
    cause: str
    transient: bool
    evidence: tuple[Evidence, ...]
    last_lines: tuple[Evidence, ...] = ()
    wait_s: float = 0.0
    confidence: float = 0.0
    captures: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[str, ...] = ()
    also: tuple[OtherFinding, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return _codec().dump_python(self, mode="json")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Diagnosis":
        """The diagnosis that `as_json` wrote. Raises ValueError for anything else."""
        return _codec().validate_python(value)


@cache
def _codec() -> "TypeAdapter[Diagnosis]":
    from pydantic import TypeAdapter

    return TypeAdapter(Diagnosis)
