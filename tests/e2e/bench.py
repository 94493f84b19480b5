"""A workbench for end-to-end tests: blueprints written into a folder, the command line, the real tmux."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import journal
from harness.journal.events import Launched
from harness.state import ExperimentState, fold
from tests.e2e import mortal
from tests.e2e.mortal import Life, Prepare

PATIENCE_S = 120.0

BLUEPRINT = """# Experiment

## [exp_purpose]
{purpose}

## [exp_codebase_dir]
{codebase}

## [exp_launch_command]
```bash
{command}
```

## [exp_result_dir]
{result_dir}

## [exp_max_time]
- time: {max_time}
- first step: {first_step}
{more}
"""


class Bench:
    """One experiment in a temporary folder."""

    def __init__(self, folder: Path, disk: Path | None = None) -> None:
        """`disk`: where the results are, if not in `folder`."""
        self.folder = folder
        self.codebase = folder / "code"
        self.codebase.mkdir(parents=True)
        self.result_dir = (disk or folder) / "results" / "trial"
        self.blueprint = folder / "trial.md"
        self.lives = folder.with_name(f"{folder.name}-lives")
        self.env: dict[str, str] = {}  # what its harnesses get beside this process's

    def plan(
        self,
        command: str,
        *,
        purpose: str = "see whether it runs",
        max_time: str = "10 minutes",
        first_step: str = "5 minutes",
        more: str = "",
    ) -> Path:
        """Write the blueprint."""
        given = {"purpose": purpose, "max_time": max_time, "first_step": first_step, "more": more}
        places = {"codebase": self.codebase, "result_dir": self.result_dir}
        self.blueprint.write_text(BLUEPRINT.format(command=command, **given, **places))
        return self.blueprint

    def script(self, name: str, text: str) -> None:
        """Put a program into the codebase."""
        (self.codebase / name).write_text(text)

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, prepare: Prepare | None = None
    ) -> Life:
        """Start `harness …` and return at once; `prepare`: see `mortal.start`."""
        self.lives.mkdir(exist_ok=True)
        output = self.lives / f"{len(list(self.lives.iterdir())) + 1:02d}.txt"
        return mortal.start(
            arguments, self.folder, {**os.environ, **self.env, **(env or {})}, output, prepare
        )

    def harness(
        self,
        *arguments: str,
        status: int | None = 0,
        env: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> str:
        """Run `harness …` to its end; returns what it printed, and checks its exit status."""
        life = self.start(*arguments, env=env)
        ended = life.end(patience_s)
        assert status is None or ended == status, f"exit status {ended}:\n{life.output}"
        return life.output

    def run(self, status: int = 0) -> str:
        return self.harness("run", str(self.blueprint), status=status)

    def entries(self) -> list[journal.Entry]:
        return journal.read(self.result_dir / "journal.jsonl")

    @property
    def state(self) -> ExperimentState:
        return fold(self.entries())

    @property
    def flag(self) -> dict[str, Any]:
        return json.loads((self.result_dir / "finish.flag").read_text())

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.result_dir / "result.json").read_text())

    def attempt(self, number: int = 1) -> Path:
        return self.result_dir / "attempts" / f"{number:02d}"

    def log(self, number: int = 1) -> str:
        path = self.attempt(number) / "pane.log"
        return path.read_text(errors="replace").replace("\r\n", "\n") if path.exists() else ""

    def launches(self) -> int:
        """How many launches the journal shows as done."""
        return len(list(journal.events_of(self.entries(), Launched)))


def sessions() -> list[str]:
    """The tmux sessions of this test."""
    command = ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], "list-sessions", "-F", "#S"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Wait for a condition outside this process; fails, naming `what`, when it does not come."""
    give_up = time.monotonic() + patience_s
    while time.monotonic() < give_up:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {patience_s:.0f} s in vain for: {what}")
