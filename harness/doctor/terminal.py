"""The terminal and the harness itself: tmux answers, the same experiment does not run already."""

import os
import shutil
import subprocess
from collections.abc import Iterator

from harness import index, journal
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from monitors.tmux import SOCKET_VARIABLE

_LIMIT_S = 5.0
_NO_SERVER_YET = ("no server running", "error connecting", "no current client", "no sessions")


def tmux(launch: PlannedLaunch) -> Iterator[Finding]:
    """tmux is installed and its server answers, or can be started."""
    program = shutil.which("tmux")
    if program is None:
        fix = "use your package manager, e.g. `apt-get install tmux`"
        yield problem("tmux is not installed", fix, "path_not_found")
        return
    socket = os.environ.get(SOCKET_VARIABLE)
    words = [program, *(["-L", socket] if socket else []), "list-sessions"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        fix = f"end it if it is yours to end: `{' '.join(words[:-1])} kill-server` closes all its sessions"
        yield problem(f"the tmux server does not answer within {_LIMIT_S:g} s", fix, "hang_no_output")
        return
    said = done.stderr.strip()
    if done.returncode == 0 or any(each in said for each in _NO_SERVER_YET):
        yield fine("tmux is installed and answers")
    else:
        text = f"tmux says: {said or f'status {done.returncode}'}"
        yield warning(text, "correct what it names, such as the folder of its socket", "permission")


def is_not_running(launch: PlannedLaunch) -> Iterator[Finding]:
    """No other run of the same blueprint is under way: the two would share ports, GPUs and outputs."""
    for run in index.runs():
        is_other = run.dir.resolve() != launch.result_dir.resolve() and run.name == launch.blueprint.name
        if not is_other or not journal.is_owned(run.dir / "journal.jsonl"):
            continue
        state = index.load_state(run.dir)
        if state.finished_at is None and state.blueprint.path == launch.blueprint.path:
            fix = f"`harness attach {run.dir}` shows it, `harness stop {run.dir}` ends it"
            yield warning(f"the same experiment is running in {run.dir}", fix)
