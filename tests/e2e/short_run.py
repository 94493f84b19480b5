"""A run of two seconds that a test disturbs, in surroundings of its own, and the story it must tell all the
same: everything of a finished run that does not depend on time, names or process ids."""

import hashlib
import os
import re
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import journal
from harness.journal.events import ActionResult, AttemptEvent, Created, Paused, Stopped, Waited
from monitors.files import AttemptFiles
from monitors.processes import members_of_attempt
from tests.e2e.bench import Bench
from tests.e2e.mortal import Death, Disturbance, Life

PATIENCE_S = 90.0

TRAIN = """
import fcntl, os, sys, time
class LeaseTakenError(Exception): ...
attempt = os.path.basename(os.environ["HARNESS_ATTEMPT_DIR"])
alone = open("alone", "w")
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    attempt += "-while-another-one-trains"
with open("starts", "a") as starts:
    starts.write(f"{attempt}\\n")
steps, pause = int(sys.argv[1]), float(sys.argv[2])
for step in range(1, steps + 1):
    print(f"step={step} loss={1 / step:.4f} reward={step / steps:.4f}", flush=True)
    time.sleep(pause)
    if step == 3 and attempt == "01" and "fail-once" in sys.argv:
        raise LeaseTakenError("the machine was given to somebody else")
"""
SIGNATURE = """
- id: lease_taken
  family: service_unavailable
  name: Machine taken away
  cause: The machine was given to somebody else for a moment.
  when:
    - exception: LeaseTakenError
  transient: true
  wait_s: 1
  remedies: [wait_and_retry]
"""
"""A failure that passes, known to this person's own signatures: the wait before the next try is short."""
SUCCEEDS = "python train.py 5 0.1"
FAILS_ONCE = "python train.py 5 0.1 fail-once"

_TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|(?<![\w.])-?\d+(?:\.\d+)?(?= (?:s|min|h)\b)")
_ONLY_WHILE_WATCHED = {"resources.jsonl"}  # samples are taken while a harness watches


class ShortRun(Bench):
    """One experiment in `folder`, cleaned up at the end of its `with`."""

    def __init__(
        self,
        folder: Path,
        command: str = SUCCEEDS,
        disk: Path | None = None,
        state: Path | None = None,
        **limits: str,
    ) -> None:
        """`disk`: where the results and the state folder are, if not in `folder`; `state`: a state folder
        shared with other runs. `limits`: `max_time` and `first_step` of the blueprint."""
        super().__init__(folder, disk)
        self.script("train.py", TRAIN)
        signatures = folder / "settings" / "harness" / "signatures"
        signatures.mkdir(parents=True)
        (signatures / "own.yaml").write_text(SIGNATURE)
        self.disk = disk or folder
        self.socket = f"ajet-test-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
        self.env = {
            "XDG_STATE_HOME": str(state or self.disk / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "settings"),
            "AJET_TMUX_SOCKET": self.socket,
            "SHELL": "/bin/sh",
            "WANDB_API_KEY": "the-secret-of-this-run",
        }
        self.plan(command, purpose="see whether it survives", **limits)

    def __enter__(self) -> "ShortRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.clean_up()

    # --- living and dying -----------------------------------------------------------------------------

    def live(self, *arguments: str, **disturbance: Any) -> Life:
        """Start `harness …` and return at once; what may disturb it stands in `mortal.Disturbance`."""
        return self.start(*arguments, prepare=Disturbance(**disturbance))

    def begin(self, **disturbance: Any) -> Life:
        return self.live("run", str(self.blueprint), **disturbance)

    def go_on(self, death: Death | None = None) -> Life:
        """What a person types after a crash: `resume`, or `run` again where nothing had begun."""
        if not journal.has_begun(self.result_dir / "journal.jsonl"):
            return self.begin(death=death)
        return self.live("resume", str(self.result_dir), death=death)

    def finish(self) -> Life:
        """Go on to the end; the last life."""
        life = self.go_on()
        status = life.end(PATIENCE_S)
        assert status == 0, f"exit status {status}:\n{life.output}"
        return life

    def starts(self) -> Counter[str]:
        """How often the training was started, by attempt."""
        return Counter((self.codebase / "starts").read_text().split())

    def files(self, number: int = 1) -> AttemptFiles:
        return AttemptFiles(self.attempt(number))

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self.socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def kill_attempt(self, number: int = 1) -> None:
        """Kill supervisor and training, as a reboot would: no goodbye, no exit record."""
        info = self.files(number).supervisor()
        assert info is not None
        for pid in (info.pid, *members_of_attempt(info.attempt_id)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def clean_up(self) -> None:
        """End what is left of this run, whatever a test did to it."""
        self.tmux("kill-server")
        sockets = Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}"
        (sockets / self.socket).unlink(missing_ok=True)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def processes(self) -> set[int]:
        """Live processes that belong to this run's attempts."""
        created = next(journal.events_of(self.entries(), Created), None)
        if created is None:
            return set()
        numbers = range(1, 6)
        return set().union(*(members_of_attempt(f"{created.experiment_id}-{n:02d}") for n in numbers))

    # --- what must be the same ------------------------------------------------------------------------

    def story(self) -> dict[str, Any]:
        """All that must not depend on disturbances, of a finished run."""
        flag = self.flag
        entries = self.entries()
        assert entries[-1].kind == "finish"
        results = list(journal.events_of(entries, ActionResult))
        seen = journal.events_of(entries, AttemptEvent)
        ends = [result.ended for result in results if isinstance(result, Waited | Stopped)]
        files = {str(path.relative_to(self.result_dir)) for path in self.result_dir.rglob("*")}
        story = {
            "flag": {key: flag[key] for key in ("outcome", "reason", "exit_code", "attempts", "headline")},
            "files": sorted(name for name in files if Path(name).name not in _ONLY_WHILE_WATCHED),
            "result": self._result(),
            "documents": [
                (self.result_dir / name).read_text()
                for name in ("result.md", "validation.md", "trial_and_error.md")
            ],
            "raw": [
                path.read_text()
                for name in ("metrics.jsonl", "pane.log")
                for path in sorted(self.result_dir.glob(f"attempts/*/{name}"))
            ],
            "starts": self.starts(),
            "actions": Counter(each.action for each in results if not isinstance(each, Waited | Paused)),
            "ends": Counter((end.reason, end.status, end.rows) for end in ends if end is not None),
            "events": Counter(str(replace(each, at=0.0)) for each in seen),
        }
        return self._without_times(story)

    def assert_tidy(self) -> None:
        """Nothing runs on, no secret is left, and the flag's fingerprints are those of the files."""
        assert not self.processes()
        assert "ajet_" not in self.tmux("list-sessions", "-F", "#S")
        assert not [path for path in self.disk.rglob("env/*") if path.is_file()]
        for entry in self.flag["manifest"]:
            content = (self.result_dir / entry["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == entry["sha256"], entry["path"]

    def _result(self) -> dict[str, Any]:
        result = self.result
        del result["checksum"]  # over all the rest, times and names too
        for fact in result["facts"]:
            if fact["unit"] == "seconds":
                assert fact["value"] >= 0, fact
                fact["value"] = "some time"
        for files in ("manifest", "documents"):
            names = [entry["path"] for entry in result[files]]
            result[files] = [name for name in names if Path(name).name not in _ONLY_WHILE_WATCHED]
        return result

    def _without_times(self, value: Any) -> Any:
        if isinstance(value, Counter):
            return Counter({self._without_times(key): count for key, count in value.items()})
        if isinstance(value, dict):
            return {key: self._without_times(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._without_times(item) for item in value)
        if not isinstance(value, str):
            return value
        name = next(journal.events_of(self.entries(), Created)).experiment_id
        text = value.replace(str(self.disk), "<folder>").replace(str(self.folder), "<folder>")
        return _TIMES.sub("<time>", text.replace(name, "<id>").replace(f"-{name[:4]}-", "-<id>-"))
