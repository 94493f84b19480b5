"""What the author changed in the code since the last run of the same experiment that succeeded.

In: the runs of the same blueprint that this machine knows, whose `provenance.json` names the commit they ran
with. Out: git's log and diff from there to the files as they are now, private files left out.
"""

import json
import re
from pathlib import Path
from typing import Any

from harness import actions, earlier_runs
from harness.agent import disk_access
from harness.agent.excerpts import NotShownError, cut, fitted, of_text
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.guard.file_access import is_shown
from harness.outcome import Outcome
from harness.repair import git

MOST_COMMITS = 20
MOST_FILES = 100
_SAFE = ("--relative", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color")


def show_changes(action: actions.ShowChanges, experiment: Experiment) -> str:
    """Log and diff, or why they cannot be told."""
    codebase = disk_access.narrow(experiment.blueprint.codebase_dir)
    if codebase is None or git.repository(codebase) is None:
        raise NotShownError("the codebase is in no git repository, so what was changed in it is not known")
    name, then = _last_success(experiment)
    try:
        lines = _changes(codebase, then["commit"])
    except git.GitError as error:
        raise NotShownError(f"the changes since {name} cannot be told: {error}") from error
    if then.get("dirty"):
        lines[:0] = ["that run had changes of its own that were not committed; they count as changed here"]
    title = f"since {name}, the last run of this experiment that succeeded (commit {then['commit'][:12]}):"
    return fitted(title, of_text("\n".join(lines), known_secrets(experiment.dir)))


def _last_success(experiment: Experiment) -> tuple[str, dict[str, Any]]:
    """Name of that run, and what git said of its code. Raises NotShownError."""
    for run in reversed(earlier_runs.of_blueprint(experiment.blueprint)):
        folder, state = run.folder, run.state
        if state.verdict is None or state.verdict.outcome is not Outcome.SUCCEEDED:
            continue
        try:
            kept = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
            then: dict[str, Any] = kept["git"]
            if re.fullmatch(r"[0-9a-f]{40,64}", then["commit"]):
                return folder.name, then
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise NotShownError("no earlier run of this experiment that succeeded names the commit of its code")


def _changes(codebase: Path, commit: str) -> list[str]:
    """Commits, new files and the diff. Raises GitError."""
    log = git.git(codebase, "log", "--oneline", f"-n{MOST_COMMITS}", f"{commit}..HEAD", "--", ".")
    changed = git.git(codebase, "diff", "--name-only", "-z", *_SAFE, commit, "--", ".").split("\0")
    shown = [name for name in changed if name and is_shown(Path(name))]
    new = [name for name in git.names(codebase, "--others", "--exclude-standard") if is_shown(Path(name))]
    lines = [f"commit {line}" for line in log.splitlines()]
    lines += [f"new, not in git: {cut(', '.join(new), 400)}"] if new else []
    if not shown:
        return [*lines, "no source code or settings that git knows differ"]
    picked = shown[:MOST_FILES]
    if len(shown) > len(picked):
        lines.append(f"{len(shown)} files differ; the first {MOST_FILES} are shown")
    diff = git.git(codebase, "--literal-pathspecs", "diff", "-U2", *_SAFE, commit, "--", *picked)
    return [*lines, *diff.splitlines()]
