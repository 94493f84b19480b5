"""The experiment's own interpreter is asked (`probe` runs there): what it has, and how far its program comes.

In: the interpreter and the programs of a launch. Out: a `Look`. The program is started with its own words and
ends once it has read them; a Hydra program prints its config and ends (`--cfg job`).
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from harness.installation import own_text

LIMIT_S = 20.0
_MARK = "harness-doctor:"
_PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True)
class Question:
    """`search`: folders that the programs put first on their path. `modules`: name → who wants it. `program`:
    what is started: its script or else its module, and its words."""

    scripts: tuple[str, ...]
    modules: Mapping[str, str]
    search: tuple[str, ...]
    is_hydra: bool
    program: tuple[str, str, tuple[str, ...]] | None


@dataclass(frozen=True)
class Start:
    """How far a program came: `read` its arguments, `refused` them, `raised`, `ended`, `stopped` before
    anything could be known, or was not started because the system cannot keep it from writing
    (`not_contained`). `printed`: its output; `kinds`: the classes of what it raised."""

    outcome: str = "stopped"
    message: str = ""
    printed: str = ""
    errors: str = ""
    kinds: tuple[str, ...] = ()
    where: str = ""
    status: int | str = 0
    flags: tuple[str, ...] = field(default=(), repr=False)
    is_of_variables: bool = False


@dataclass(frozen=True)
class Look:
    """What the interpreter answered. `missing`: module → who wants it. `broken`: (file, line, why) of sources
    that are no Python to it. `absent`: (place, name, module, names there are) of names that sources import
    from local modules which do not have them. `changes_path`: the sources change `sys.path` themselves.
    `parser`: what reads the arguments, or "". `failure`: why there is no answer, "" where there is one."""

    version: tuple[int, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[tuple[str, int | None, str], ...] = ()
    absent: tuple[tuple[str, str, str, tuple[str, ...]], ...] = ()
    changes_path: bool = False
    parser: str = ""
    failure: str = ""
    start: Start = Start()


def ask(python: Path, asked: Question, environment: Mapping[str, str], cwd: Path) -> Look:
    """Start the interpreter and ask it. Takes as long as the imports of the program. Never raises."""
    try:
        done = subprocess.run(
            [str(python), "-c", own_text(_PROBE)],
            input=json.dumps(asdict(asked)).encode(),
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            cwd=cwd if cwd.is_dir() else None,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        output, errors, why = done.stdout, done.stderr, f"ends with status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output, errors, why = error.stdout or b"", b"", f"did not answer within {LIMIT_S:g} s"
    except OSError as error:
        return Look(failure=f"does not start: {error.strerror}")
    said = errors.decode(errors="replace").strip()
    answers = output.decode(errors="replace").split(f"\n{_MARK}")[1:]
    if not answers:
        return Look(failure=f"{why}: {(said.splitlines() or ['it says nothing'])[-1][:300]}")
    answer, _, printed = answers[0].partition("\n")
    found = json.loads(answer)
    if len(answers) > 1:
        found["start"] = {**json.loads(answers[-1]), "printed": printed.strip(), "errors": said}
    return TypeAdapter(Look).validate_python(found)
